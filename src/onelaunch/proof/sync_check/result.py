"""What the watched processes wrote, by place."""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onelaunch.proof.sync_check.warmup import warm_at

_TORCH = re.compile("/(site|dist)-packages/torch/")


class Frame(NamedTuple):
    """A line of a stack."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text, or nothing where the file can't be read."""
        return linecache.getline(self.file, self.line).strip()


@dataclass(slots=True)
class Place:
    """Synchronisations of one kind with one stack.

    Attributes:
        what: the call.
        stack: outermost first.
        count: after warm-up.
        processes, threads: where it ran; ids and names.
    """

    what: str
    stack: tuple[Frame, ...]
    count: int = 0
    processes: set[int] = field(default_factory=set)
    threads: set[str] = field(default_factory=set)

    @property
    def where(self) -> Frame | None:
        """The innermost frame outside PyTorch."""
        for frame in reversed(self.stack):
            if not _TORCH.search(frame.file):
                return frame
        return self.stack[-1] if self.stack else None

    def as_json(self) -> dict[str, Any]:
        """A plain object."""
        where = self.where
        return {
            "what": self.what,
            "count": self.count,
            "where": None if where is None else f"{where.file}:{where.line}",
            "source": None if where is None else where.source,
            "processes": sorted(self.processes),
            "threads": sorted(self.threads),
            "stack": [frame._asdict() for frame in self.stack],
        }


@dataclass(slots=True)
class Result:
    """All of a program.

    Attributes:
        places: most frequent first.
        warming: synchronisations not counted: before the end of warm-up, or outside all steps.
        devices: by process that imported PyTorch: what it was watched for, "cuda" or "cpu".
        not_watched: by process: why it could not be.
        steps: calls of the step function after warm-up; None if there is no such function.
        warm: whether any process ever was.
    """

    places: list[Place] = field(default_factory=list)
    warming: int = 0
    devices: dict[int, str] = field(default_factory=dict)
    not_watched: dict[int, str] = field(default_factory=dict)
    steps: int | None = None
    warm: bool = False

    @property
    def count(self) -> int:
        """Synchronisations after warm-up."""
        return sum(place.count for place in self.places)


def read(folder: Path, asked_at: float, now: float, step: str | None, warmup_steps: int) -> Result:
    """Read what the processes of a program wrote.

    Args:
        asked_at: when the warm-up asked for on the command line was over, in ``time.monotonic()`` seconds.
        now: when the program had ended.
        step: count only what is in its calls, without the first ``warmup_steps`` of a process.
    """
    marks: dict[int, float] = {}
    for path in sorted(folder.glob("*.warm"), key=lambda one: one.name):
        pid, nanoseconds = map(int, path.stem.split("-"))
        marks[pid] = min(marks.get(pid, float("inf")), nanoseconds / 1e9)
    result = Result(steps=None if step is None else 0)
    places: dict[tuple[str, tuple[Frame, ...]], Place] = {}
    for path in sorted(folder.glob("*.jsonl")):
        pid = int(path.stem.partition("-")[0])
        warm = warm_at(pid, marks, asked_at)
        stacks: dict[int, tuple[str, tuple[Frame, ...]]] = {}
        for line in _lines(path):
            if "stack" in line:  # before the first synchronisation that has it
                stacks[line["stack"]] = line["what"], tuple(Frame(*frame) for frame in line["frames"])
            elif "device" in line:
                result.devices[pid] = line["device"]
                result.warm |= warm <= now
            elif "failed" in line:
                result.not_watched[pid] = line["failed"]
            elif "step" in line and result.steps is not None:
                result.steps += line["step"] > warmup_steps and line["at"] >= warm
            elif "sync" in line:
                in_step = step is None or line.get("in_step", 0) > warmup_steps
                if line["at"] < warm or not in_step:
                    result.warming += 1
                    continue
                key = stacks[line["sync"]]
                place = places.setdefault(key, Place(*key))
                place.count += 1
                place.processes.add(pid)
                place.threads.add(line["thread"])
    result.places = sorted(places.values(), key=lambda place: -place.count)
    return result


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:  # the process was killed while it wrote its last
                continue
