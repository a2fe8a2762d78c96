"""Generated word problems: right, repeatable, and held-out ones never trained on."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys

import pytest

from onelaunch.engine.train.data import batches, completion, prompt, train_tokenizer, weighed
from onelaunch.engine.train.problems import SPLITS, problems
from onelaunch.engine.train.stories import ENDS, EVENTS
from onelaunch.engine.train.templates import TRAINED, UNSEEN


def some(split: str, count: int, seed: int = 0):
    return list(itertools.islice(problems(split, seed), count))


@pytest.mark.parametrize("split", SPLITS)
def test_every_calculation_is_right_and_uses_what_is_known(split):
    for problem in some(split, 2000):
        known = set(map(int, re.findall(r"\d+", problem.question))) | {1, 2}
        assert not set("<\n0123456789") & set(problem.parts[1])
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
    kinds = {t.name for t in TRAINED}
    assert kinds < {one.template for one in trained}
    assert kinds < {one.template for one in numbers}
    assert {one.template for one in templates} == {t.name for t in UNSEEN}
    assert not {one.template for one in (*trained, *numbers)} & {t.name for t in UNSEEN}
    assert {one.answer.count("<<") for one in trained} == {1, 2, 3, 4}


def test_stories_are_of_many_kinds():
    stories = {one.template for one in some("train", 5000)} - {t.name for t in TRAINED}
    assert len(stories) > 400
    told = {name for kind in stories for name in kind.split("-")}
    assert told == {"have", "holders", *(sentence.name for sentence in (*EVENTS, *ENDS))}


def test_unseen_templates_are_made_of_words_that_are_trained():
    def words_of(split):
        return {word for one in some(split, 5000) for word in re.findall(r"[A-Za-z]+", one.question)}

    assert words_of("templates") <= words_of("train")


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
        # Pieces' tokens are those of the whole: what training sees is what serving does.
        pieces = [tokenizer.encode(piece, add_special_tokens=False).ids for piece, _ in weighed(problem)]
        assert [token for piece in pieces for token in piece] == encoded.ids


def test_worked_steps_count_more_than_asides_and_asides_more_than_questions():
    tokenizer = train_tokenizer(600)
    ids, weights = next(batches(tokenizer.to_str(), 4, 255, 3, workers=0))
    assert ids.shape == weights.shape == (4, 256)

    def text_of(chosen):
        return tokenizer.decode(ids[chosen].tolist())

    kinds = sorted(set(weights.unique().tolist()))
    assert len(kinds) == 3
    question, aside, worked = (text_of(weights == kind) for kind in kinds)
    assert "Question:" in question
    assert "<<" not in question + aside
    assert "####" in worked
    assert "Seen" in aside
    assert "Seen" not in worked
