"""A result as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onelaunch.proof.evaluate.scoring import SCORES
from onelaunch.proof.evaluate.statistics import SURE, wilson
from onelaunch.proof.markdown import markdown_table


def markdown(result: Mapping[str, Any]) -> str:
    """Accuracies by rule and run, their errors, and how runs differ."""
    runs, score = result["runs_made"], result["score"]
    lines = [
        f"{headline(result)}",
        "",
        f"{result['num_questions']:,} questions, {result['shots']} examples, temperature "
        f"{result['servers'][0]['temperature']:g}, at most {result['servers'][0]['max_tokens']} tokens; "
        f"{len(runs)} run{'s' * (len(runs) != 1)}; {result['truncated']:,} answers cut off at their length.",
        "",
        *_scores(result["scores"]),
    ]
    if result["shots"]:
        asked = (
            "first question is its own example"
            if result["shots"] == 1
            else (f"first {result['shots']} questions are their own examples")
        )
        lines += ["", f"The {asked}; 'without' leaves that out."]
    if result["pairs"]:
        lines += ["", *_pairs(result["pairs"], score)]
    if "against" in result:
        lines += ["", "Before:", "", *_scores(result["against"]["before_scores"])]
        lines += ["", *_pairs(result["against"]["pairs"], score)]
    return "\n".join(lines) + "\n"


def headline(result: Mapping[str, Any]) -> str:
    """The result in a sentence."""
    count = result["num_questions"]
    mean = result["scores"][result["score"]]["mean"]
    interval = " to ".join(map(_percent, wilson(mean, count)))
    said = f"GSM8K ({result['score']}): {_percent(mean)} of {count:,} questions ({interval})"
    if "against" not in result:
        return said
    against = result["against"]
    delta = f"{100 * against['delta']:+.2f} points against {_percent(against['before_accuracy'])} before"
    error = against["paired_error"]
    if error is None:
        return f"{said}; {delta}"
    differ = max(pair["texts_differ"] for pair in against["pairs"])
    if not differ:
        return f"{said}; {delta}: every answer is the same text"
    if not error and not against["delta"]:
        return f"{said}; {delta}: up to {differ:,} answers are other texts, but no question's score differs"
    inside = abs(against["delta"]) <= SURE * error
    verdict = "inside the noise" if inside else "a difference"
    return f"{said}; {delta}, give or take {100 * SURE * error:.2f}: {verdict}"


def _scores(scores: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            rule,
            _percent(scores[rule]["mean"]),
            _optional(scores[rule]["mean_without_examples"]),
            _percent(scores[rule]["binomial_error"]),
            _optional(scores[rule]["run_error"]),
            _optional(scores[rule]["server_error"]),
            ", ".join(_percent(value) for value in scores[rule]["runs"]),
        ]
        for rule in SCORES
    ]
    header = ["score", "accuracy", "without", "binomial error", "error of runs", "of servers", "runs"]
    return markdown_table(header, rows, left=1)


def _pairs(pairs: Sequence[Mapping[str, Any]], score: str) -> list[str]:
    rows = [
        [
            pair["first"],
            pair["second"],
            f"{pair['texts_differ']:,}",
            f"{pair[score]['only_first']:,}",
            f"{pair[score]['only_second']:,}",
            f"{pair[score]['p']:.3f}",
        ]
        for pair in pairs
    ]
    header = ["first", "second", "answers differ", "only first right", "only second right", "McNemar p"]
    return markdown_table(header, rows, left=2)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _optional(share: float | None) -> str:
    return "-" if share is None else _percent(share)
