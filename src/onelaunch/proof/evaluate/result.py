"""Runs and an earlier evaluation's runs as one result: accuracies, errors, differences."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onelaunch.proof.evaluate.runs import Evaluation, Run, run_as_json, run_from_json
from onelaunch.proof.evaluate.scoring import SCORES, is_right
from onelaunch.proof.evaluate.statistics import accuracy, mcnemar, paired_difference

# Of settings: what must be equal for two evaluations to have asked the same.
_SAME = ("sha256", "shots", "num_questions")
_SAME_ASKING = ("max_tokens", "temperature", "stop")


def make_result(
    evaluation: Evaluation, runs: Sequence[Run], score: str, before: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Plain values: every answer, and what follows from them.

    Args:
        score: the rule of "accuracy"; all rules are in "scores".
        before: the result to compare with.
    """
    answers = [question.answer for question in evaluation.file.questions[: evaluation.count]]
    result = {
        "benchmark": "gsm8k",
        "data": str(evaluation.file.path),
        **evaluation.settings(),
        "score": score,
        **_scores(answers, runs, evaluation.shots, score),
        "pairs": _pairs(answers, [(name_of(run), run) for run in runs]),
    }
    if before is not None:
        earlier = [run_from_json(one) for one in before["runs_made"]]
        result["against"] = _against(answers, earlier, runs, score)
        for name in ("scores", "accuracy"):
            result["against"][f"before_{name}"] = _scores(answers, earlier, evaluation.shots, score)[name]
    result["runs_made"] = [run_as_json(run) for run in runs]
    return result


def read_result(path: Path, evaluation: Evaluation) -> dict[str, Any]:
    """An earlier result that asked the same questions in the same way.

    Raises:
        ValueError: it is no result, or asked something else; the message says what.
        OSError: it can't be read.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text())
        asked = {name: result[name] for name in _SAME}
        asking = {name: result["servers"][0][name] for name in _SAME_ASKING}
        for one in result["runs_made"]:
            run_from_json(one)
    except (ValueError, KeyError, TypeError, IndexError):
        raise ValueError(f"against is {path}: it must be a result of onelaunch evaluate gsm8k") from None
    settings = evaluation.settings()
    wanted = {name: settings[name] for name in _SAME}
    wanted_asking = {name: settings["servers"][0][name] for name in _SAME_ASKING}
    for name, value in {**wanted, **wanted_asking}.items():
        if {**asked, **asking}[name] != value:
            raise ValueError(
                f"against is {path}: its {name} is {({**asked, **asking})[name]!r}: "
                f"to be compared it must be {value!r}, as here"
            )
    return result


def name_of(run: Run) -> str:
    """As tables name it."""
    return f"{run.server} #{run.number}"


def _right(answers: Sequence[str], run: Run, score: str) -> list[bool]:
    return [is_right(said.text, answer, score) for said, answer in zip(run.answers, answers, strict=True)]


def _scores(answers: Sequence[str], runs: Sequence[Run], shots: int, score: str) -> dict[str, Any]:
    scores = {}
    for rule in SCORES:
        right = [_right(answers, run, rule) for run in runs]
        scores[rule] = {
            **dataclasses.asdict(accuracy(right, [run.server for run in runs])),
            "runs": [sum(one) / len(one) for one in right],
            # Those that the prompt answers are left out.
            "mean_without_examples": _mean([_share(one[shots:]) for one in right])
            if shots < len(answers)
            else None,
        }
    return {
        "accuracy": scores[score]["mean"],
        "scores": scores,
        "truncated": sum(answer.finish_reason == "length" for run in runs for answer in run.answers),
        "output_tokens": sum(answer.tokens for run in runs for answer in run.answers),
        "seconds": sum(run.seconds for run in runs),
    }


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _pairs(answers: Sequence[str], runs: Sequence[tuple[str, Run]]) -> list[dict[str, Any]]:
    return [_pair(answers, first, second) for first, second in itertools.combinations(runs, 2)]


def _pair(answers: Sequence[str], first: tuple[str, Run], second: tuple[str, Run]) -> dict[str, Any]:
    texts = zip(first[1].answers, second[1].answers, strict=True)
    pair: dict[str, Any] = {
        "first": first[0],
        "second": second[0],
        "texts_differ": sum(a.text != b.text for a, b in texts),
    }
    for rule in SCORES:
        found = mcnemar(_right(answers, first[1], rule), _right(answers, second[1], rule))
        pair[rule] = dataclasses.asdict(found)
    return pair


def _against(answers: Sequence[str], before: Sequence[Run], now: Sequence[Run], score: str) -> dict[str, Any]:
    delta, error = paired_difference(
        [_right(answers, run, score) for run in before], [_right(answers, run, score) for run in now]
    )
    return {
        "delta": delta,
        "paired_error": error,
        "pairs": [_pair(answers, (f"before: {name_of(a)}", a), (name_of(b), b)) for a in before for b in now],
    }
