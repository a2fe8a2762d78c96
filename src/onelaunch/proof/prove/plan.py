"""A plan as a TOML file: claims, the evidence for each, and the servers that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.toml_table import Table, read_toml

MEASURING = (
    "verify", "bench", "targets", "launches", "ab", "load", "evaluate", "acceptance", "sync-check", "generate"
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_EARLIER = re.compile(r"\{(?:json|folder):([^{}]*)\}")
_OF_SERVER = re.compile(r"\{(?:base_url|port)\}")


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server that evidence is measured on.

    Attributes:
        command: its words; ``{port}`` is where it must listen.
        health: path that answers 200 once it is ready.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    health: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A command whose exit status says whether something holds.

    Attributes:
        command: its words. ``{json}`` is the file for its result, ``{folder}`` a folder of its own,
            ``{json:NAME}`` and ``{folder:NAME}`` those of evidence before it, ``{base_url}`` and ``{port}``
            its server's.
        server: name of a server, started for it. Evidence that follows on the same one shares it, unless
        restart: a fresh one is started, with cold caches.
        timeout: seconds.
    """

    name: str
    command: tuple[str, ...]
    server: str | None
    restart: bool
    env: dict[str, str]
    timeout: float

    def needs(self) -> set[str]:
        """Names of the evidence whose results it reads."""
        return {name for word in self.command for name in _EARLIER.findall(word)}

    def as_json(self) -> dict[str, Any]:
        """What a kept result must have been made with."""
        return {
            "command": list(self.command),
            "server": self.server,
            "restart": self.restart,
            "env": self.env,
        }


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that holds when all its evidence does."""

    says: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """A whole plan.

    Attributes:
        summary: Markdown, put before the claims.
        evidence: in the order in which it is gathered.
        not_measured: what a reader must not take as shown.
        port: of every server.
        start_timeout, stop_timeout: seconds until healthy; for each signal that stops a process.
        text: the file itself.
    """

    title: str
    summary: str
    claims: tuple[Claim, ...]
    evidence: dict[str, Evidence]
    servers: dict[str, ServerPlan]
    not_measured: tuple[str, ...]
    port: int
    start_timeout: float
    stop_timeout: float
    text: str


def read_plan(path: Path) -> ProofPlan:
    """The plan in a file.

    Raises:
        ValueError: it is no TOML, or no plan; the message names the key, what it was and what it must be.
        OSError: it can't be read.
    """
    return read_toml(path, make_plan)


def make_plan(values: Mapping[str, Any], text: str = "") -> ProofPlan:
    """The plan of a parsed TOML file.

    Raises:
        ValueError: as :func:`read_plan`.
    """
    table = Table(values, "")
    servers = {name: _server(one) for name, one in _named(table, "servers").items()}
    evidence: dict[str, Evidence] = {}
    for name, one in _named(table, "evidence").items():
        evidence[name] = _evidence(name, one, servers, evidence)
    if not evidence:
        raise ValueError("evidence is missing: it must have a table a command, as evidence.accuracy")
    plan = ProofPlan(
        title=table.take_text("title", None),
        summary=table.take_text("summary", " ").strip(),
        claims=_claims(table.take("claims"), evidence),
        evidence=evidence,
        servers=servers,
        not_measured=table.take_texts("not_measured", []),
        port=table.take_int("port", 18110, 1),
        start_timeout=table.take_seconds("start_timeout", 900.0),
        stop_timeout=table.take_seconds("stop_timeout", 30.0),
        text=text,
    )
    table.end()
    if plan.port > 65535:
        raise ValueError(f"port is {plan.port}: it must be at most 65535")
    unused = set(servers) - {one.server for one in evidence.values()}
    if unused:
        raise ValueError(f"servers.{min(unused)} is used by no evidence: take it out")
    return plan


def _named(table: Table, key: str) -> dict[str, Table]:
    found = table.take(key, {})
    if not isinstance(found, dict):
        raise ValueError(f"{key} is {found!r}: it must be tables with names, as {key}.base")
    for name in found:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{key}.{name}: a name must be of a-z, 0-9 and -")
    return {name: Table(values, f"{key}.{name}") for name, values in found.items()}


def _server(table: Table) -> ServerPlan:
    server = ServerPlan(
        table.take_command("command", ["port"]),
        table.take_environment("env"),
        table.take_text("health", "/health"),
    )
    if not server.health.startswith("/"):
        raise ValueError(f"{table.key('health')} is {server.health!r}: it must be a path that starts with /")
    table.end()
    return server


def _evidence(
    name: str, table: Table, servers: Mapping[str, ServerPlan], earlier: Mapping[str, Evidence]
) -> Evidence:
    server = table.take_text("server", None, tuple(servers)) if table.has("server") else None
    evidence = Evidence(
        name,
        table.take_command("command", []),
        server,
        table.take_bool("restart", False),
        table.take_environment("env"),
        table.take_seconds("timeout", 24 * 3600.0),
    )
    table.end()
    if server is None and any(_OF_SERVER.search(word) for word in evidence.command):
        raise ValueError(f"{table.key('command')} names a server's URL: {table.key('server')} must say which")
    command = evidence.command
    tool = command[1] if command[0] == "onelaunch" and len(command) > 1 else None
    if tool in MEASURING and not any("{json}" in word for word in command):
        # Their status alone does not tell a claim that fails from a measurement that broke.
        raise ValueError(f"{table.key('command')} has no {{json}}: onelaunch {tool} must write its result")
    for other in evidence.needs():
        if other not in earlier:
            raise ValueError(f"{table.key('command')} needs {other!r}: it must be evidence before this one")
    return evidence


def _claims(values: object, evidence: Mapping[str, Evidence]) -> tuple[Claim, ...]:
    if not isinstance(values, list) or not values:
        raise ValueError("claims is missing: it must be a list of tables, each [[claims]]")
    claims = []
    for number, one in enumerate(values, 1):
        table = Table(one, f"claims[{number}]")
        claim = Claim(table.take_text("says", None), table.take_texts("evidence", None))
        table.end()
        for name in claim.evidence:
            if name not in evidence:
                raise ValueError(
                    f"{table.key('evidence')} has {name!r}: it must be one of {', '.join(evidence)}"
                )
        claims.append(claim)
    return tuple(claims)
