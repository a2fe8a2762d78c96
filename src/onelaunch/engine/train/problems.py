"""Word problems from a seed, in GSM8K's form: a question, worked steps, and ``#### answer``.

No file is read and nothing is downloaded. Splits follow from a problem's own template and numbers, so no
problem of a held-out split is ever trained on:

- ``train``: trained templates, nineteen of twenty combinations of numbers;
- ``numbers``: the same templates, the other combinations;
- ``templates``: templates that are never trained on.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from onelaunch.engine.train.templates import ITEMS, NAMES, PLACES, TRAINED, UNSEEN, Template

SPLITS = ("train", "numbers", "templates")
_LARGEST = 9999
_HELD_OUT = 20  # one of so many combinations
_STEP = re.compile(r"\{(\w+)=(\w+)([-+*/])(\w+)\}")
_FOLLOWS = re.compile(r"(\w+)([-+*/])(\w+)")
_CHOICE = re.compile(r"\[([^]]*)\]")
# People write the same in many ways. None of them changes what is calculated.
_SETTINGS = ("", "", "", "One day ", "Today ", "This week ", "On Monday ")
_FIRST = ("", "", "", "First, ", "To begin with, ", "We know that ")
_THEN = ("", "", "", "So ", "Then ", "Now ", "This means that ", "Next, ", "We see that ")
# What else happens meanwhile: with which name, place and things nobody can know. Of text that follows from
# what was said before a draft gets nearly all right, and nothing would be learned about acceptance.
_ASIDES = (
    "Meanwhile {friend} looks for {wares} in the {spot}.",
    "{friend} waits at the {spot} with some {wares}.",
    "In the {spot}, {friend} paints {wares}.",
    "That day {friend} also saw {wares} at the {spot}.",
    "Later {friend} came to the {spot} for {wares}.",
    "For {friend} there were {wares} in the {spot}.",
)
_SIGNS = ((" ", "*"), (" ", "x"), ("", "*"))  # around each sign, and the one of a product


@dataclass(frozen=True, slots=True)
class Problem:
    """A question and its worked answer."""

    question: str
    answer: str
    template: str


def problems(split: str, seed: int) -> Iterator[Problem]:
    """Problems of a split, without end; equal for equal arguments.

    Raises:
        ValueError: an unknown split.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}: it must be one of {', '.join(SPLITS)}")
    rng = random.Random(f"{split} {seed}")
    templates = UNSEEN if split == "templates" else TRAINED
    while True:
        problem = _problem(rng.choice(templates), split, rng)
        if problem is not None:
            yield problem


def _problem(template: Template, split: str, rng: random.Random) -> Problem | None:
    """One try: None when its numbers are not of the split, or lead out of 1 to 9,999."""
    numbers: dict[str, int] = {}
    for name, given in template.numbers.items():
        value = rng.randint(*given) if isinstance(given, tuple) else _follow(given, numbers)
        if value is None:
            return None
        numbers[name] = value
    if split != "templates" and _is_held_out(template, numbers) != (split == "numbers"):
        return None
    name, other = rng.sample(NAMES, 2)
    items, things = rng.sample(ITEMS, 2)
    words = {"name": name, "other": other, "items": items, "things": things, "place": rng.choice(PLACES)}
    space, times = rng.choice(_SIGNS)
    lines: list[str] = []
    for step in template.steps:
        match = _STEP.search(step)
        assert match is not None, step
        result, left, operation, right = match.groups()
        a, b = _value(left, numbers), _value(right, numbers)
        if operation in "+*" and rng.random() < 0.5:
            a, b = b, a
        value = _calculate(a, operation, b)
        if value is None:
            return None
        numbers[result] = value
        sign = times if operation == "*" else operation
        written = space.join((str(a), sign, str(b), "=", f"<<{a}{operation}{b}={value}>>{value}"))
        text = _said(step[: match.start()] + written + step[match.end() :], _THEN if lines else _FIRST, rng)
        lines.append(f"{text.format(**words)} {_aside(rng)}")
    lines.append(f"#### {value}")
    question = _said(template.question, _SETTINGS, rng).format(**words, **numbers)
    return Problem(question, "\n".join(lines), template.name)


def _aside(rng: random.Random) -> str:
    return rng.choice(_ASIDES).format(
        friend=rng.choice(NAMES), wares=rng.choice(ITEMS), spot=rng.choice(PLACES)
    )


def _said(text: str, openings: tuple[str, ...], rng: random.Random) -> str:
    """One of the ways to say it: words chosen from those in brackets, behind an opening."""
    text = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text)
    opening = rng.choice(openings)
    return opening + text[0].lower() + text[1:] if opening else text  # a name is a brace still


def _follow(rule: str, numbers: dict[str, int]) -> int | None:
    match = _FOLLOWS.fullmatch(rule)
    assert match is not None, rule
    left, operation, right = match.groups()
    return _calculate(_value(left, numbers), operation, _value(right, numbers))


def _value(name: str, numbers: dict[str, int]) -> int:
    return int(name) if name.isdigit() else numbers[name]


def _calculate(a: int, operation: str, b: int) -> int | None:
    """None when the result is not a whole number from 1 to 9,999."""
    if operation == "/":
        return a // b if a % b == 0 else None
    value = a + b if operation == "+" else a - b if operation == "-" else a * b
    return value if 1 <= value <= _LARGEST else None


def _is_held_out(template: Template, numbers: dict[str, int]) -> bool:
    drawn = [numbers[name] for name in template.numbers]
    digest = hashlib.sha256(f"{template.name} {drawn}".encode()).digest()
    return digest[0] * 256 + digest[1] < 65536 // _HELD_OUT


def _write(
    split: Annotated[str, typer.Option(help=f"One of {', '.join(SPLITS)}.")] = "numbers",
    count: Annotated[int, typer.Option(min=1, help="Problems.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides them all.")] = 0,
) -> None:
    """Write problems to standard output, a JSON object a line with "question" and "answer", as GSM8K's files
    are.
    """
    stream = problems(split, seed)
    for _ in range(count):
        problem = next(stream)
        sys.stdout.write(json.dumps({"question": problem.question, "answer": problem.answer}) + "\n")


if __name__ == "__main__":
    typer.run(_write)
