"""What a comparison has measured so far, in one JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from onelaunch.proof.ab.load import Run
from onelaunch.proof.ab.plan import Plan
from onelaunch.proof.processes.files import write_whole

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Point:
    """All runs of one arm at one concurrency in one round, on one server.

    Attributes:
        place: 0 or 1: the half that the arm was on, or, without halves, whether it went first or second.
        log: the server's.
    """

    round: int
    arm: str
    concurrency: int
    place: int
    log: str
    runs: tuple[Run, ...]

    @property
    def key(self) -> tuple[int, str, int]:
        return self.round, self.arm, self.concurrency


class State:
    """Finished points, kept in a file that is replaced whole each time: it is never half written.

    Raises:
        ValueError: the file is no state, or one of another plan.
        OSError: it can't be read or written.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self._plan = plan
        self.points: dict[tuple[int, str, int], Point] = {}
        if path.exists():
            for point in _read(path, plan):
                self.points[point.key] = point

    def add(self, point: Point) -> None:
        """Keep a finished point."""
        self.points[point.key] = point
        kept = {
            "format": _FORMAT,
            "plan": self._plan.as_json(),
            "points": [dataclasses.asdict(one) for one in self.points.values()],
        }
        write_whole(self.path, json.dumps(kept, indent=1) + "\n")


def _read(path: Path, plan: Plan) -> list[Point]:
    try:
        kept = json.loads(path.read_text())
        if kept["format"] != _FORMAT:
            raise ValueError
        kept_plan = dict(kept["plan"])
        points = [
            Point(**{**point, "runs": tuple(Run(**run) for run in point["runs"])}) for point in kept["points"]
        ]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no state of a comparison: move it away") from None
    changed = plan.differences(kept_plan)
    if changed:
        raise ValueError(
            f"{', '.join(changed)} of the plan changed since {path} was begun: "
            "finish it with the plan it was begun with, or write elsewhere with --out"
        )
    return points
