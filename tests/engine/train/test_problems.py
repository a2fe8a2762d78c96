"""Generated word problems: right, repeatable, and held-out ones never trained on."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys

import pytest

from onelaunch.engine.train.data import completion, prompt, train_tokenizer
from onelaunch.engine.train.problems import SPLITS, problems
from onelaunch.engine.train.templates import TRAINED, UNSEEN


def some(split: str, count: int, seed: int = 0):
    return list(itertools.islice(problems(split, seed), count))


@pytest.mark.parametrize("split", SPLITS)
def test_every_calculation_is_right_and_uses_what_is_known(split):
    for problem in some(split, 2000):
        known = set(map(int, re.findall(r"\d+", problem.question))) | {1, 2}
        *steps, last = problem.answer.split("\n")
        for step in steps:
            [(a, operation, b, value)] = re.findall(r"<<(\d+)([-+*/])(\d+)=(\d+)>>\4", step)
            a, b, value = int(a), int(b), int(value)
            assert {a, b} <= known
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operation] == value
            assert 1 <= value <= 9999
            known.add(value)
        assert last == f"#### {value}"
        assert not set("{}[]|") & set(problem.question + problem.answer)


def test_problems_follow_from_the_seed():
    assert some("train", 50) == some("train", 50)
    assert some("train", 50) != some("train", 50, seed=1)


def test_splits_share_no_problem_and_cover_their_templates():
    trained, numbers, templates = (some(split, 5000) for split in SPLITS)

    def numbers_of(problem):
        return problem.template, tuple(re.findall(r"\d+", problem.question))

    assert not {numbers_of(one) for one in trained} & {numbers_of(one) for one in numbers}
    assert {one.template for one in trained} == {one.template for one in numbers} == {t.name for t in TRAINED}
    assert {one.template for one in templates} == {t.name for t in UNSEEN}
    assert not {t.name for t in TRAINED} & {t.name for t in UNSEEN}
    assert {len(t.steps) for t in TRAINED} == {1, 2, 3, 4}


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split is 'test': it must be one of train, numbers, templates"):
        next(problems("test", 0))


def test_the_command_writes_a_file_of_gsm8ks_form():
    command = [sys.executable, "-m", "onelaunch.engine.train.problems", "--split", "numbers", "--count", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"question": one.question, "answer": one.answer} for one in some("numbers", 3)]


def test_digits_are_tokens_and_texts_come_back():
    tokenizer = train_tokenizer(600)
    for problem in some("numbers", 50):
        text = prompt(problem) + completion(problem)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(encoded.ids) == text
        assert all(len(token) == 1 for token in encoded.tokens if any(c.isdigit() for c in token))
        # An answer's tokens are the same after its prompt as alone: what training sees is what serving does.
        parts = [
            tokenizer.encode(part, add_special_tokens=False).ids
            for part in (prompt(problem), completion(problem))
        ]
        assert parts[0] + parts[1] == encoded.ids
