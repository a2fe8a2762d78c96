"""The rounds of a comparison: servers started and stopped, points measured and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from onelaunch.proof.ab.load import LoadFiles, Run, run_on
from onelaunch.proof.ab.plan import ARMS, Plan
from onelaunch.proof.ab.state import Point, State
from onelaunch.proof.processes.command import fill
from onelaunch.proof.processes.server import Server


@dataclass(frozen=True, slots=True)
class Progress:
    """Load runs done, warm-up included, of all; and what happens now."""

    done: int
    total: int
    what: str


class Comparison:
    """Runs what a state lacks.

    Args:
        plan: what to compare.
        state: finished points; they are never run again.
        logs: folder for logs and load results.
        progress: called at every step.
    """

    def __init__(
        self, plan: Plan, state: State, logs: Path, progress: Callable[[Progress], None] | None = None
    ) -> None:
        self._plan = plan
        self._state = state
        self._logs = logs
        self._progress = progress or (lambda _: None)
        self._runs_per_point = plan.warmup + plan.runs
        self._done = len(state.points) * self._runs_per_point

    @property
    def num_points(self) -> int:
        """Of the whole comparison."""
        return self._plan.rounds * len(ARMS) * len(self._plan.concurrency)

    def run(self) -> None:
        """Run every point that the state lacks.

        Raises:
            ProcessFailed: a server or a load run broke. Finished points are kept.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        for number in range(self._plan.rounds):
            arms = self._order(number)
            # With halves both servers run, even if one has no points left: an idle neighbour is a condition.
            for together in [arms] if self._plan.halves is not None else [(arm,) for arm in arms]:
                if any(self._missing(number, arm) for arm in together):
                    self._run_servers(number, together)

    def _order(self, number: int) -> tuple[str, ...]:
        return ARMS if number % 2 == 0 else ARMS[::-1]

    def _missing(self, number: int, arm: str) -> list[int]:
        return [c for c in self._plan.concurrency if (number, arm, c) not in self._state.points]

    def _run_servers(self, number: int, arms: tuple[str, ...]) -> None:
        """Start the arms' servers at once, and let them take turns at each concurrency."""
        with ExitStack() as running:
            servers: dict[str, Server] = {}
            for arm in arms:
                self._say(f"round {number + 1}: starting {arm}")
                servers[arm] = self._server(number, arm)
                running.enter_context(servers[arm])
            for server in servers.values():
                server.wait_until_healthy(self._plan.timeouts.start)
            for concurrency in self._plan.concurrency:
                lacking = {
                    arm: server
                    for arm, server in servers.items()
                    if (number, arm, concurrency) not in self._state.points
                }
                self._run_points(number, concurrency, lacking)
            self._say(f"round {number + 1}: stopping")
            for server in servers.values():  # at once: a large server takes its time
                server.ask_to_stop()

    def _server(self, number: int, arm: str) -> Server:
        plan, index = self._plan, ARMS.index(arm)
        env = dict(plan.arms[arm].env)
        if plan.halves is not None:
            env[plan.device_variable] = plan.halves[self._place(number, arm)]
        return Server(
            f"round {number + 1}, {arm}",
            fill(plan.arms[arm].server, port=plan.ports[index]),
            self._logs / f"round{number + 1}-{arm}-server.log",
            env,
            port=plan.ports[index],
            health=plan.health,
            stop_timeout=plan.timeouts.stop,
        )

    def _run_points(self, number: int, concurrency: int, servers: dict[str, Server]) -> None:
        runs: dict[str, list[Run]] = {arm: [] for arm in servers}
        for i in range(self._runs_per_point):
            # Base first, change first: neither always follows the other's load.
            for arm in list(servers) if i % 2 == 0 else list(servers)[::-1]:
                warm = i < self._plan.warmup
                which = f"warm-up {i + 1}" if warm else f"run {i - self._plan.warmup + 1}"
                self._say(f"round {number + 1}: {arm} at {concurrency}, {which}")
                run = self._one_run(number, arm, concurrency, i, servers[arm])
                self._done += 1
                if not warm:
                    runs[arm].append(run)
        for arm, server in servers.items():
            place = self._place(number, arm)
            self._state.add(Point(number, arm, concurrency, place, str(server.log), tuple(runs[arm])))

    def _one_run(self, number: int, arm: str, concurrency: int, i: int, server: Server) -> Run:
        name = f"round{number + 1}-{arm}-c{concurrency}-{i + 1}"
        # Both arms get the same prompts, and no two runs do: a prefix cache would answer the second.
        point = number * len(self._plan.concurrency) + self._plan.concurrency.index(concurrency)
        seed = point * self._runs_per_point + i
        files = LoadFiles(self._logs / f"{name}-load.log", self._logs / f"{name}.json")
        return run_on(server, self._plan.arms[arm].load, concurrency, seed, files, self._plan.timeouts)

    def _place(self, number: int, arm: str) -> int:
        return (ARMS.index(arm) + number) % 2

    def _say(self, what: str) -> None:
        self._progress(Progress(self._done, self.num_points * self._runs_per_point, what))
