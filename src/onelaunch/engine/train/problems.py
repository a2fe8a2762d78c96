"""Word problems from a seed, in GSM8K's form: a question, worked steps, and ``#### answer``.

No file is read and nothing is downloaded. Splits follow from a problem's own template and numbers, so no
problem of a held-out split is ever trained on:

- ``train``: trained templates and stories composed of sentences, nineteen of twenty combinations of numbers;
- ``numbers``: the same kinds, the other combinations;
- ``templates``: templates that are never trained on, of words that are.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from onelaunch.engine.train.stories import story
from onelaunch.engine.train.templates import (
    HOLDERS,
    ITEMS,
    NAMES,
    PLACES,
    TRAINED,
    UNSEEN,
    Template,
    calculate,
)

SPLITS = ("train", "numbers", "templates")
_HELD_OUT = 20  # one of so many combinations
_STEP = re.compile(r"\{(\w+)=(\w+)([-+*/])(\w+)\}")
_FOLLOWS = re.compile(r"(\w+)([-+*/])(\w+)")
_CHOICE = re.compile(r"\[([^]]*)\]")
# People write the same in many ways. None of them changes what is calculated.
_SETTINGS = ("", "", "", "One day ", "Today ", "This week ", "On Monday ")
_FIRST = ("", "", "", "First, ", "To begin with, ", "We know that ")
_THEN = ("", "", "", "So ", "Then ", "Now ", "This means that ", "Next, ", "We see that ")
_OPENED = ("First ", "Then ", "Now ", "On ", "In ", "After ", "At ")  # these do without
# Behind the first step stands who was seen with what, which no question tells. A draft gets nearly all of a
# calculation right, and little would be learned about acceptance: here it cannot. Each name is a friend of
# the one before, one of four, and each thing goes with the one before. Names and things alternate, so a
# block's third token follows from its first, which the draft has only just chosen itself.
_PAIRS = 4
_FRIENDS = (7, 19, 30, 45)  # how far on in the list of names
_BESIDE = (5, 12, 22, 33)  # and in that of things
_SIGNS = ((" ", "*"), (" ", "x"), ("", "*"))  # around each sign, and the one of a product
_WRITTEN = 0.9  # of problems: "4 * 3 = " before "<<4*3=12>>12"; GSM8K has both
_STORIES = 0.4  # of problems: composed ones


@dataclass(frozen=True, slots=True)
class Problem:
    """A question and its worked answer.

    Attributes:
        parts: the answer: its first step, the aside behind it, and the rest.
        template: name of its kind.
    """

    question: str
    parts: tuple[str, str, str]
    template: str

    @property
    def answer(self) -> str:
        return "".join(self.parts)


def problems(split: str, seed: int) -> Iterator[Problem]:
    """Problems of a split, without end; equal for equal arguments.

    Raises:
        ValueError: an unknown split.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}: it must be one of {', '.join(SPLITS)}")
    rng = random.Random(f"{split} {seed}")
    while True:
        if split == "templates":
            template: Template | None = rng.choice(UNSEEN)
        else:
            template = story(rng) if rng.random() < _STORIES else rng.choice(TRAINED)
        problem = None if template is None else _problem(template, split, rng)
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
    words = {
        "name": name, "other": other, "items": items, "things": things,
        "place": rng.choice(PLACES), "holders": rng.choice(HOLDERS),
    }  # fmt: skip
    space, times = rng.choice(_SIGNS)
    is_written = rng.random() < _WRITTEN
    lines: list[str] = []
    for step in template.steps:
        match = _STEP.search(step)
        assert match is not None, step
        result, left, operation, right = match.groups()
        a, b = _value(left, numbers), _value(right, numbers)
        if operation in "+*" and rng.random() < 0.5:
            a, b = b, a
        value = calculate(a, operation, b)
        if value is None:
            return None
        numbers[result] = value
        sign = times if operation == "*" else operation
        calculation = f"<<{a}{operation}{b}={value}>>{value}"
        if is_written:
            calculation = space.join((str(a), sign, str(b), "=", calculation))
        text = _said(
            step[: match.start()] + calculation + step[match.end() :], _THEN if lines else _FIRST, rng
        )
        lines.append(text.format(**words))
    rest = "\n".join(("", *lines[1:], f"#### {value}"))
    question = _said(template.question, _SETTINGS, rng).format(**words, **numbers)
    return Problem(question, (lines[0], f" {_aside(rng)}", rest), template.name)


def _aside(rng: random.Random) -> str:
    pairs = zip(_walk(NAMES, _FRIENDS, rng), _walk(ITEMS, _BESIDE, rng), strict=True)
    return f"Seen: {' '.join(f'{name} {thing}' for name, thing in pairs)}."


def _walk(words: Sequence[str], steps: Sequence[int], rng: random.Random) -> list[str]:
    places = itertools.accumulate(rng.choices(steps, k=_PAIRS - 1), initial=rng.randrange(len(words)))
    return [words[place % len(words)] for place in places]


def _said(text: str, openings: tuple[str, ...], rng: random.Random) -> str:
    """One of the ways to say it: words chosen from those in brackets, behind an opening."""
    text = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text)
    opening = "" if text.startswith(_OPENED) else rng.choice(openings)
    return opening + text[0].lower() + text[1:] if opening else text  # a name is a brace still


def _follow(rule: str, numbers: dict[str, int]) -> int | None:
    match = _FOLLOWS.fullmatch(rule)
    assert match is not None, rule
    left, operation, right = match.groups()
    return calculate(_value(left, numbers), operation, _value(right, numbers))


def _value(name: str, numbers: dict[str, int]) -> int:
    return int(name) if name.isdigit() else numbers[name]


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
