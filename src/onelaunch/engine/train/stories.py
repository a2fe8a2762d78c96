"""Word problems composed of sentences: a number of things changes, is shared, sold or compared.

There are some thousand kinds of stories. Templates alone teach their own wording, and little of what words
mean.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from onelaunch.engine.train.templates import Range, Template, calculate

_IN_HOLDERS = 0.5  # of stories
_ENDING = 0.7
_MOST = 999  # things before the last sentence
_CALCULATION = re.compile(r"\{([vn])([-+*/])([vn])\}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What happens to v things, with n of it.

    Attributes:
        name: names the story's kind, with those of the others.
        text: with {n}; without it n is in the words, as in "half".
        draw: n for v things; None when no number suits them.
        step: what a worked answer says, with {v+n} and the like.
        question: of a sentence that ends a story.
    """

    name: str
    text: str
    draw: Callable[[random.Random, int], int | None]
    step: str
    question: str = ""


def _some(rng: random.Random, things: int) -> int:
    return rng.randint(2, 149)


def _part(rng: random.Random, things: int) -> int | None:
    return rng.randint(2, min(things - 1, 149)) if things > 2 else None


def _few(rng: random.Random, things: int) -> int | None:
    most = min(24 if things < 100 else 9, _MOST // things)
    return rng.randint(2, most) if most >= 2 else None


def _price(rng: random.Random, things: int) -> int:
    return rng.randint(2, 34 if things < 100 else 9)


def _divisor(rng: random.Random, things: int) -> int | None:
    fitting = [n for n in range(2, 35) if things % n == 0 and things > n]
    return rng.choice(fitting) if fitting else None


def _two(rng: random.Random, things: int) -> int | None:
    return 2 if things % 2 == 0 else None


def _above(rng: random.Random, things: int) -> int:
    return things + rng.randint(2, 149)


_NOW = "[Now there are|That makes|Then {name} has|{name} now has|In all there are] {v+n} {items}."
_GROWN = _NOW.replace("{v+n}", "{v*n}")
_STILL = "[There are still|That leaves|Then {name} has|{name} keeps|What remains is] {v-n} {items}."
_HALVED = _STILL.replace("{v-n}", "{v/n}")
EVENTS = (
    Sentence("find", "{name} [finds|picks|gets|wins] {n} more.", _some, _NOW),
    Sentence("make", "[On Tuesday|In the evening|Later] {name} [makes|buys|collects] {n} more {items}.", _some, _NOW),
    Sentence("given", "{other} [gives|brings|sends] {name} {n} {items}.", _some, _NOW),
    Sentence("add", "Then {other} adds {n} [new ones|more].", _some, _NOW),
    Sentence("give", "{name} [gives|lends|sends|sells] {n} of them to {other}.", _part, _STILL),
    Sentence("take", "{other} [takes|borrows] {n} of the {items}.", _part, _STILL),
    Sentence("break", "{n} of them [break|burn|go bad|fall into the water].", _part, _STILL),
    Sentence("use", "{name} [uses|needs|loses] {n} {items} [at|in] the {place}.", _part, _STILL),
    Sentence("double", "Then the number of {items} doubles.", lambda rng, things: 2, _GROWN),
    Sentence("grow", "[A year|A week] later {name} has {n} [times as many|times that number].", _few, _GROWN),
    Sentence("half", "{name} [gives|sends|sells] half of them to {other}.", _two, _HALVED),
)  # fmt: skip
ENDS = (
    Sentence(
        "share", "{name} shares [what is there|all of them] [equally among|evenly among|in equal parts with] {n} [friends|children].",
        _divisor, "[Each friend gets|Each of them gets|For each that is|Everyone has] {v/n} {items}.",
        "[How many {items} does each get?|How many {items} is that for each?]",
    ),
    Sentence(
        "pack", "{name} [packs|puts] them into {holders} of {n}.", _divisor,
        "[That is|That makes|This comes to|We get] {v/n} {holders}.",
        "[How many {holders} is that?|How many {holders} are there?|How many {holders} does {name} need?]",
    ),
    Sentence(
        "sell", "{name} sells [them|all of them] for {n} dollars each.", _price,
        "[{name} gets|That is|They bring|{name} earns] {v*n} dollars.",
        "[How many dollars does {name} get?|How much money is that?|How many dollars is that in all?]",
    ),
    Sentence(
        "more", "{other} has {n} more {items}.", _some, "{other} [has|owns|must have] {v+n} {items}.",
        "How many {items} does {other} have?",
    ),
    Sentence(
        "fewer", "{other} has {n} fewer {items}.", _part, "{other} [has|owns|must have] {v-n} {items}.",
        "How many {items} does {other} have?",
    ),
    Sentence(
        "times", "{other} has {n} [times as many|times that number].", _few,
        "{other} [has|owns|must have] {v*n} {items}.", "How many {items} does {other} have?",
    ),
    Sentence(
        "together", "{other} has {n} {items}.", _some,
        "[Together they have|Both have|Altogether they have|They have] {v+n} {items}.",
        "[How many {items} do they have together?|How many {items} do both have?]",
    ),
    Sentence(
        "wanted", "{name} wants to have {n} {items}.", _above,
        "[There are still|{name} still needs|What is missing is] {n-v} {items}.",
        "[How many {items} does {name} still need?|How many {items} are missing?]",
    ),
)  # fmt: skip
_STARTS = (
    "{name} [has|owns|keeps|starts with] {a} {items}.",
    "There are {a} {items} in the {place}, and they are {name}'s.",
    "{name} [carries|buys|brings|collects] {a} {items}.",
)
_STARTS_IN_HOLDERS = (
    "{name} [has|carries|brings|fills] {a} {holders} with {b} {items} [each|in each|in each of them].",
    "There are {a} {holders}. Each [holds|has] {b} {items}, and they are {name}'s.",
)
_AT_FIRST = "[That is|That makes|At first there are|{name} has] {v0=a*b} {items}."
_QUESTIONS = (
    "How many {items} does {name} have [now|then|in the end]?",
    "How many {items} does {name} end up with?",
    "How many {items} is that?",
)


def story(rng: random.Random) -> Template | None:
    """One try at a template of one to four steps, its numbers drawn: None when none suit."""
    teller = _Teller(rng)
    sentences = rng.sample(EVENTS, rng.choice((0, 1, 1, 2)))
    if rng.random() < _ENDING or not (sentences or teller.steps):
        sentences.append(rng.choice(ENDS))
    if not all(teller.tell(sentence) for sentence in sentences):
        return None
    question = sentences[-1].question if sentences else ""
    text = " ".join((*teller.texts, question or rng.choice(_QUESTIONS)))
    numbers: dict[str, Range | str] = {name: (n, n) for name, n in teller.numbers.items()}
    return Template("-".join(teller.names), text, numbers, tuple(teller.steps))


class _Teller:
    """A story as far as it is told."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        if rng.random() < _IN_HOLDERS:
            a, b = rng.randint(2, 29), rng.randint(2, 29)
            self.names, self.texts = ["holders"], [rng.choice(_STARTS_IN_HOLDERS)]
            self.numbers, self.steps = {"a": a, "b": b}, [_AT_FIRST]
            self._things, self._value = a * b, "v0"
        else:
            a = rng.randint(4, 249)
            self.names, self.texts = ["have"], [rng.choice(_STARTS)]
            self.numbers, self.steps = {"a": a}, []
            self._things, self._value = a, "a"

    def tell(self, sentence: Sentence) -> bool:
        """False when no number suits it."""
        n = sentence.draw(self._rng, self._things) if self._things <= _MOST else None
        if n is None:
            return False
        place = len(self.texts)
        named = {"v": self._value, "n": f"n{place}" if "{n}" in sentence.text else str(n)}
        match = _CALCULATION.search(sentence.step)
        assert match is not None, sentence.step
        left, operation, right = match.groups()
        values = {"v": self._things, "n": n}
        things = calculate(values[left], operation, values[right])
        if things is None:
            return False
        self._things, self._value = things, f"v{place}"
        calculation = f"{{{self._value}={named[left]}{operation}{named[right]}}}"
        self.steps.append(sentence.step.replace(match[0], calculation))
        self.names.append(sentence.name)
        self.texts.append(sentence.text.replace("{n}", f"{{n{place}}}"))
        if "{n}" in sentence.text:
            self.numbers[f"n{place}"] = n
        return True
