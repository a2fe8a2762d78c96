"""What a plan has gathered so far, in one JSON file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.processes.files import write_whole
from onelaunch.proof.prove.plan import Evidence, ProofPlan

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Gathered:
    """A piece of evidence that ran to its end.

    Attributes:
        made_with: its part of the plan, its server's, and the files that its command names.
        command: as it was run, placeholders filled in.
        holds: whether its exit status was 0.
        said: the last line of its log.
        seconds: wall time.
        result: its JSON file, relative to the plan's folder, if it wrote one.
        log: likewise.
        facts: the machine, the versions and the commit that it was gathered with.
    """

    name: str
    made_with: dict[str, Any]
    command: tuple[str, ...]
    holds: bool
    said: str
    seconds: float
    result: str | None
    log: str
    facts: dict[str, str]


class ProofState:
    """Gathered evidence, kept in a file that is replaced whole each time.

    Raises:
        ValueError: the file is no such state.
        OSError: it can't be read or written.
    """

    def __init__(self, path: Path, plan: ProofPlan) -> None:
        self.path = path
        self._plan = plan
        self.gathered: dict[str, Gathered] = {}
        if path.exists():
            for one in _read(path):
                self.gathered[one.name] = one
        # In the plan's order, so that what is stale makes stale what was made of it.
        for evidence in plan.evidence.values():
            if not self._is_current(evidence):
                self.gathered.pop(evidence.name, None)
        self.gathered = {name: self.gathered[name] for name in plan.evidence if name in self.gathered}

    def add(self, gathered: Gathered) -> None:
        """Keep a piece of evidence."""
        self.gathered[gathered.name] = gathered
        kept = {"format": _FORMAT, "gathered": [dataclasses.asdict(one) for one in self.gathered.values()]}
        write_whole(self.path, json.dumps(kept, indent=1) + "\n")

    def forget(self, name: str) -> None:
        """Gather ``name`` again from nothing, and all evidence that reads its result."""
        self.gathered.pop(name, None)
        shutil.rmtree(self.path.parent / name, ignore_errors=True)
        for evidence in self._plan.evidence.values():
            if name in evidence.needs():
                self.forget(evidence.name)

    def made_with(self, evidence: Evidence) -> dict[str, Any]:
        """What decides a piece of evidence."""
        server = None if evidence.server is None else self._plan.servers[evidence.server]
        # A plan or a data file that a command names is part of what it measures.
        named = (*evidence.command, *(() if server is None else server.command))
        made = {
            **evidence.as_json(),
            "server": None if server is None else dataclasses.asdict(server),
            "files": {word: _sha256(Path(word)) for word in named if _is_file(word)},
        }
        return json.loads(json.dumps(made))  # type: ignore[no-any-return]

    def _is_current(self, evidence: Evidence) -> bool:
        kept = self.gathered.get(evidence.name)
        return (
            kept is not None
            and kept.made_with == self.made_with(evidence)
            and (kept.result is None or (self.path.parent / kept.result).exists())
            and all(name in self.gathered for name in evidence.needs())
        )


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL: no file's
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> list[Gathered]:
    try:
        kept = json.loads(path.read_text())
        if kept["format"] != _FORMAT:
            raise ValueError
        return [Gathered(**{**one, "command": tuple(one["command"])}) for one in kept["gathered"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no state of a proof: move it away") from None
