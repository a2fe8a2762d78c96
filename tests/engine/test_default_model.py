"""The trained model of the package: it answers held-out problems, and its drafts are accepted."""

from __future__ import annotations

import itertools

import pytest

from machine import DEVICE
from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.config import DEFAULT_MODEL
from onelaunch.engine.train.data import completion, prompt
from onelaunch.engine.train.problems import problems

GREEDY = SamplingParams(max_tokens=300, temperature=0, stop=("\n\n",))


@pytest.fixture(scope="module")
def few_shot() -> tuple[list[str], list[str]]:
    """Prompts of 4 examples and a question, and the last lines of right answers."""
    stream = problems("numbers", 2026)
    examples = "".join(prompt(one) + completion(one) for one in itertools.islice(stream, 4))
    asked = list(itertools.islice(stream, 20))
    return [examples + prompt(one) for one in asked], [one.answer.split("\n")[-1] for one in asked]


@pytest.fixture(scope="module")
def usual(few_shot):
    llm = LLM(device=DEVICE, monokernel=False, attention="dense", max_model_len=1536)
    return llm.generate(few_shot[0], GREEDY), llm.core.stats


def test_it_answers_problems_with_numbers_that_it_was_not_trained_on(usual, few_shot):
    right = sum(one.text.rstrip().endswith(last) for one, last in zip(usual[0], few_shot[1], strict=True))
    assert right >= 18  # of 20


def test_its_drafts_are_accepted(usual):
    stats = usual[1]
    assert 1 + stats.num_accepted_tokens / stats.num_drafts >= 3.5


def test_the_one_launch_gives_the_same_answer(usual, few_shot):
    llm = LLM(device=DEVICE, monokernel=True, max_model_len=1536)
    [one] = llm.generate(few_shot[0][:1], SamplingParams(max_tokens=40, temperature=0, stop=("\n\n",)))
    assert len(one.token_ids) > 20
    assert one.token_ids == usual[0][0].token_ids[: len(one.token_ids)]


def test_the_checkpoint_is_small_and_has_a_card():
    sizes = {path.name: path.stat().st_size for path in DEFAULT_MODEL.iterdir()}
    assert sizes.keys() == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert sizes["model.safetensors"] <= 14_000_000
