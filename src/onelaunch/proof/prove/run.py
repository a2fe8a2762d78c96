"""The evidence of a plan, gathered: servers started and stopped, commands run."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from onelaunch.proof.processes.command import fill
from onelaunch.proof.processes.failure import last_line, naming
from onelaunch.proof.processes.files import write_whole
from onelaunch.proof.processes.process import Process
from onelaunch.proof.processes.server import Server
from onelaunch.proof.prove.facts import facts
from onelaunch.proof.prove.plan import Evidence, ProofPlan
from onelaunch.proof.prove.state import Gathered, ProofState

_POLL_S = 0.5
FAILED = 1  # an exit status that says what was checked does not hold


class Gathering:
    """Runs what a state lacks.

    Args:
        folder: for logs and results.
        progress: called with what happens now.
    """

    def __init__(
        self, plan: ProofPlan, state: ProofState, folder: Path, progress: Callable[[str], None] | None = None
    ) -> None:
        self._plan = plan
        self._state = state
        self._folder = folder
        self._progress = progress or (lambda _: None)
        self._server: Server | None = None
        self._server_name: str | None = None

    def run(self) -> None:
        """Gather all evidence that is missing. Evidence that does not hold is evidence, too.

        Raises:
            ProcessFailed: a server or a command broke; the message names the log. What was gathered is kept.
        """
        try:
            for evidence in self._plan.evidence.values():
                if evidence.name not in self._state.gathered:
                    self._serve(evidence)
                    self._state.add(self._gather(evidence))
        finally:
            self._stop_server()

    def _gather(self, evidence: Evidence) -> Gathered:
        folder = self._fresh_or_interrupted(evidence)
        log, result = folder / "log.txt", folder / "result.json"
        result.unlink(missing_ok=True)  # one of an earlier attempt must not be taken for this one's
        values: dict[str, object] = {"json": result, "folder": folder}
        for name in evidence.needs():
            values |= {
                f"json:{name}": self._folder / name / "result.json",
                f"folder:{name}": self._folder / name,
            }
        if self._server is not None:
            values |= {"base_url": self._server.base_url, "port": self._plan.port}
        command = fill(evidence.command, **values)
        self._progress(evidence.name)
        start = time.monotonic()
        with Process(command, log, evidence.env, self._plan.stop_timeout) as process:
            status = self._wait(evidence, process)
        wrote = result.exists()
        # A check that failed has a result, or is a program that tells by its status alone.
        promised = any("{json}" in word for word in evidence.command)
        if status not in (0, FAILED) or (promised and not wrote):
            raise naming(log, f"{evidence.name} broke with status {status}" + self._servers_log())
        if self._server is not None:
            self._server.check_alive(f"during {evidence.name}")
        return Gathered(
            name=evidence.name,
            made_with=self._state.made_with(evidence),
            command=tuple(command),
            holds=status == 0,
            said=last_line(log),
            seconds=time.monotonic() - start,
            result=str(result.relative_to(self._folder)) if wrote else None,
            log=str(log.relative_to(self._folder)),
            facts=facts(Path.cwd()) | self._server_facts(),
        )

    def _fresh_or_interrupted(self, evidence: Evidence) -> Path:
        """The evidence's folder: with what an interrupted command left, if it was this very one, else empty.

        Tools go on from what they find there, whatever it was measured on.
        """
        folder = self._folder / evidence.name
        made_with = json.dumps(self._state.made_with(evidence))
        note = folder / "made_with.json"
        if not note.exists() or note.read_text() != made_with:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            write_whole(note, made_with)
        return folder

    def _wait(self, evidence: Evidence, process: Process) -> int:
        deadline = time.monotonic() + evidence.timeout
        while (status := process.wait(_POLL_S)) is None:
            if self._server is not None:
                self._server.check_alive(f"during {evidence.name}")
            if time.monotonic() > deadline:
                raise naming(process.log, f"{evidence.name} was not done after {evidence.timeout:g} s")
        return status

    def _serve(self, evidence: Evidence) -> None:
        """The evidence's server, and no other, runs."""
        if self._server is not None and (evidence.restart or evidence.server != self._server_name):
            self._stop_server()
        if evidence.server is None or self._server is not None:
            return
        plan = self._plan.servers[evidence.server]
        self._progress(f"starting {evidence.server}")
        self._server_name = evidence.server
        self._server = Server(
            evidence.server,
            fill(plan.command, port=self._plan.port),
            self._folder / f"{evidence.name}-server.log",
            plan.env,
            port=self._plan.port,
            health=plan.health,
            stop_timeout=self._plan.stop_timeout,
        )
        self._server.wait_until_healthy(self._plan.start_timeout)

    def _server_facts(self) -> dict[str, str]:
        """What the server says of its version, and how it was started."""
        if self._server is None or self._server_name is None:
            return {}
        import httpx

        plan = self._plan.servers[self._server_name]
        found = {"server": shlex.join(fill(plan.command, port=self._plan.port))}
        try:
            url = f"{self._server.base_url}/version"
            found["server version"] = str(httpx.get(url, timeout=5.0, trust_env=False).json()["version"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            pass
        return found

    def _stop_server(self) -> None:
        if self._server is not None:
            self._progress(f"stopping {self._server_name}")
            self._server.stop()
            self._server = None

    def _servers_log(self) -> str:
        return "" if self._server is None else f" (its server's log: {self._server.log})"
