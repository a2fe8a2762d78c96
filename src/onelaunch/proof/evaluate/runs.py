"""The runs of an evaluation, kept as they finish."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.evaluate.client import Answer, Asking, ask_all
from onelaunch.proof.evaluate.questions import QuestionFile, few_shot_prompts
from onelaunch.proof.processes.files import write_whole


@dataclass(frozen=True, slots=True)
class Run:
    """All questions asked once of one server.

    Attributes:
        number: of the runs on this server, from 1.
        seconds: wall time.
    """

    server: str
    number: int
    seconds: float
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What to run.

    Attributes:
        servers: how each is asked.
        shots: examples before each question.
        count: questions asked, the file's first ones.
        runs: on each server.
    """

    file: QuestionFile
    servers: tuple[Asking, ...]
    shots: int
    count: int
    runs: int

    def settings(self) -> dict[str, Any]:
        """What finished runs must have in common with runs to come."""
        return {
            "sha256": self.file.sha256,
            "shots": self.shots,
            "num_questions": self.count,
            "runs": self.runs,
            "servers": [_plain(asking) for asking in self.servers],
        }


class KeptRuns:
    """Finished runs in a file beside the result, replaced whole each time.

    Args:
        path: None keeps nothing beyond this process.

    Raises:
        ValueError: the file has runs of another evaluation.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path = path
        self._settings = settings
        self.runs: list[Run] = []
        if path is not None and path.exists():
            try:
                kept = json.loads(path.read_text())
                found, runs = kept["settings"], [run_from_json(one) for one in kept["runs"]]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{path} has no runs of an evaluation: move it away") from None
            if found != settings:
                raise ValueError(
                    f"{path} has runs of another evaluation: finish that one, or remove the file"
                )
            self.runs = runs

    def has(self, server: str, number: int) -> bool:
        return any(run.server == server and run.number == number for run in self.runs)

    def add(self, run: Run) -> None:
        self.runs.append(run)
        if self.path is not None:
            kept = {"settings": self._settings, "runs": [run_as_json(one) for one in self.runs]}
            write_whole(self.path, json.dumps(kept) + "\n")

    def remove(self) -> None:
        """The runs are in the result now."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def run_all(
    evaluation: Evaluation, kept: KeptRuns, progress: Callable[[str, int], None] | None = None
) -> Sequence[Run]:
    """Make every run that is not kept yet, server by server.

    Args:
        progress: called with the run's name and its number of answers.

    Raises:
        RequestFailed: a request failed, and with it its run. Finished runs stay kept.
    """
    prompts = few_shot_prompts(evaluation.file.questions, evaluation.shots, evaluation.count)
    for number in range(1, evaluation.runs + 1):
        for asking in evaluation.servers:
            if kept.has(asking.base_url, number):
                continue
            name = f"{asking.base_url}, run {number}"

            def answered(done: int, name: str = name) -> None:
                if progress is not None:
                    progress(name, done)

            answered(0)
            answers, seconds = asyncio.run(ask_all(asking, prompts, answered))
            kept.add(Run(asking.base_url, number, seconds, tuple(answers)))
    return kept.runs


def run_as_json(run: Run) -> dict[str, Any]:
    """Plain values."""
    return dataclasses.asdict(run)


def run_from_json(values: dict[str, Any]) -> Run:
    """The inverse of :func:`run_as_json`; other keys are left alone."""
    answers = tuple(Answer(**one) for one in values["answers"])
    return Run(values["server"], values["number"], values["seconds"], answers)


def _plain(asking: Asking) -> dict[str, Any]:
    return {**dataclasses.asdict(asking), "stop": list(asking.stop)}
