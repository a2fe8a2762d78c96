"""A comparison as a TOML file: two arms, their servers, the load, rounds and runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onelaunch.proof.load.settings import FIRST_TOKEN_ID
from onelaunch.proof.toml_table import Table, read_toml

ARMS = ("base", "change")
METRICS = ("inter_token_latency", "time_to_first_token")
CLIENTS = ("built-in", "vllm", "guidellm")
_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# Not part of what is measured: they may change between a comparison's start and its resumption.
_MAY_CHANGE = ("ports", "timeouts")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load on a server.

    Attributes:
        client: "built-in", or the program whose result file is read.
        command: of the other two; its placeholders are ``{base_url}``, ``{port}``, ``{concurrency}``,
            ``{requests}``, ``{seed}`` and ``{result}``, the JSON file to write.
        requests_per_stream: requests of a run, for each one in flight.
        model, prompt_tokens, max_tokens, vocab_size, text: of the built-in client; see ``LoadSettings``.
    """

    client: str
    command: tuple[str, ...] = ()
    requests_per_stream: int = 4
    model: str = ""
    prompt_tokens: int = 512
    max_tokens: int = 128
    vocab_size: int = 256
    text: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """A server command, its additions to the environment, and its load."""

    server: tuple[str, ...]
    env: dict[str, str]
    load: LoadPlan


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: until a server is healthy; for one load run; for each signal that stops a server."""

    start: float = 900.0
    load: float = 1800.0
    stop: float = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole comparison.

    Attributes:
        arms: "base" and "change".
        concurrency: a point of the comparison each.
        rounds: fresh servers each time; even, so that each arm has each half, or each turn, equally often.
        runs: load runs of a point on one server.
        warmup: load runs before them, not counted.
        halves: two device sets, swapped each round; both servers run at once and take turns. None: one server
            at a time, and the arm that goes first is swapped.
        device_variable: what a half is set as.
        metric: one of METRICS; a run's value is its median over requests.
        health: path that answers 200 once a server is ready.
        ports: of base and of change.
    """

    arms: dict[str, Arm]
    concurrency: tuple[int, ...]
    rounds: int
    runs: int
    warmup: int
    halves: tuple[str, str] | None
    device_variable: str
    metric: str
    health: str
    ports: tuple[int, ...]
    timeouts: Timeouts = field(default_factory=Timeouts)

    def as_json(self) -> dict[str, Any]:
        """Lists and tables of plain values."""
        values: dict[str, Any] = _plain(dataclasses.asdict(self))
        return values

    def differences(self, kept: Mapping[str, Any]) -> list[str]:
        """Keys in which this plan differs from one kept as JSON and may not."""
        return [
            name
            for name, value in self.as_json().items()
            if name not in _MAY_CHANGE and kept.get(name) != value
        ]


def read_plan(path: Path) -> Plan:
    """The plan in a file.

    Raises:
        ValueError: it is no TOML, or no plan; the message names the key.
        OSError: it can't be read.
    """
    return read_toml(path, lambda values, _: make_plan(values))


def make_plan(values: Mapping[str, Any]) -> Plan:
    """The plan of a parsed TOML file.

    Raises:
        ValueError: the message names the key, what it was and what it must be.
    """
    table = Table(values, "")
    shared = table.take_table("load")
    shared_load = None if shared is None else _load(shared)
    arms_table = table.take_table("arms")
    if arms_table is None:
        raise ValueError("arms is missing: it must have the tables arms.base and arms.change")
    arms = {name: _arm(arms_table, name, shared_load) for name in ARMS}
    arms_table.end()
    if arms["base"].load.client != arms["change"].load.client:
        raise ValueError("the arms have different load clients: they do not measure the same thing")
    rounds = table.take_int("rounds", 6, 2)
    if rounds % 2:
        raise ValueError(f"rounds is {rounds}: it must be even, as halves and turns are swapped each round")
    plan = Plan(
        arms=arms,
        concurrency=table.take_ints("concurrency", [1], 1),
        rounds=rounds,
        runs=table.take_int("runs", 3, 1),
        warmup=table.take_int("warmup", 1, 0),
        halves=_halves(table),
        device_variable=table.take_text("device_variable", _DEVICE_VARIABLES[0], _DEVICE_VARIABLES),
        metric=table.take_text("metric", METRICS[0], METRICS),
        health=table.take_text("health", "/health"),
        ports=table.take_ints("ports", [18100, 18101], 1),
        timeouts=_timeouts(table.take_table("timeouts")),
    )
    table.end()
    if not plan.health.startswith("/"):
        raise ValueError(f"health is {plan.health!r}: it must be a path that starts with /")
    if len(plan.ports) != 2 or max(plan.ports) > 65535:
        raise ValueError(f"ports is {list(plan.ports)}: it must be two ports, of base and of change")
    for name, arm in plan.arms.items():
        if plan.halves is not None and plan.device_variable in arm.env:
            raise ValueError(f"arms.{name}.env sets {plan.device_variable}: halves set it already")
    return plan


def _arm(arms: Table, name: str, shared: LoadPlan | None) -> Arm:
    table = arms.take_table(name)
    if table is None:
        raise ValueError(f"{arms.key(name)} is missing: it must be a table with the arm's server command")
    own = table.take_table("load")
    load = shared if own is None else _load(own)
    if load is None:
        raise ValueError(f"{table.key('load')} is missing: it must be given here or as load, for both arms")
    arm = Arm(table.take_command("server", ["port"]), table.take_environment("env"), load)
    table.end()
    return arm


def _load(table: Table) -> LoadPlan:
    client = table.take_text("client", CLIENTS[0], CLIENTS)
    requests = table.take_int("requests_per_stream", 4, 1)
    if client == "built-in":
        load = LoadPlan(
            client,
            requests_per_stream=requests,
            model=table.take_text("model", None),
            prompt_tokens=table.take_int("prompt_tokens", 512, 1),
            max_tokens=table.take_int("max_tokens", 128, 2),
            vocab_size=table.take_int("vocab_size", 256, FIRST_TOKEN_ID + 1),
            text=table.take_bool("text", False),
        )
    else:
        command = table.take_command("command", ["concurrency", "result"])
        if not any("{base_url}" in word or "{port}" in word for word in command):
            raise ValueError(
                f"{table.key('command')} has no {{base_url}} and no {{port}}: it must name the server"
            )
        load = LoadPlan(client, command, requests)
    table.end()
    return load


def _halves(table: Table) -> tuple[str, str] | None:
    value = table.take("halves")
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(half, str) and half.strip() for half in value)
    ):
        raise ValueError(f'halves is {value!r}: it must be two device sets, as ["0,1,2,3", "4,5,6,7"]')
    first, second = ([device.strip() for device in half.split(",")] for half in value)
    if set(first) & set(second):
        raise ValueError(f"halves is {value!r}: the two sets must have no device in common")
    if len(first) != len(second):
        raise ValueError(f"halves is {value!r}: the two sets must be of equal size")
    return ",".join(first), ",".join(second)


def _timeouts(table: Table | None) -> Timeouts:
    if table is None:
        return Timeouts()
    usual = Timeouts()
    timeouts = Timeouts(
        start=table.take_seconds("start", usual.start),
        load=table.take_seconds("load", usual.load),
        stop=table.take_seconds("stop", usual.stop),
    )
    table.end()
    return timeouts


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
