"""What is not counted: where a program's warm-up ends."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Warmup:
    """It ends when all that is asked for has happened.

    Attributes:
        seconds: since the command was started.
        after: text that the program prints.
        steps: calls of the step function, in each process.
    """

    seconds: float = 0.0
    after: str | None = None
    steps: int = 0


def warm_at(pid: int, marks: dict[int, float], others: float) -> float:
    """When a process is warm: not before ``others``, nor before it says so itself, if any process does.

    Args:
        marks: when processes called ``onelaunch.syncs.warmed_up``. A process that didn't takes the first.
        others: when what was asked for on the command line had happened.
    """
    said = marks.get(pid, min(marks.values(), default=0.0))
    return max(said, others)
