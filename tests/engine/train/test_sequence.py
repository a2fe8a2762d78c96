"""What training computes is what serving does."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine.plain import PlainMemory
from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.model import PRESETS
from onelaunch.engine.model.weights import random_model, untrained_model
from onelaunch.engine.train.draft import draft_loss
from onelaunch.engine.train.sequence import BlockMemory, SequenceMemory
from onelaunch.engine.train.target import target_loss

CONFIG = PRESETS["tiny"]


@pytest.fixture(scope="module")
def model():
    return untrained_model(CONFIG, 0, torch.device("cpu"))


def test_whole_sequences_equal_row_by_row_attention(model):
    length = 2 * CONFIG.sliding_window
    ids = torch.randint(0, 256, (2, length), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(length)
    got, read = model(ids.flatten(), positions.repeat(2), SequenceMemory(CONFIG, 2, length))
    for row in range(2):
        want, want_read = model(ids[row], positions, PlainMemory(CONFIG))
        torch.testing.assert_close(got.view(2, length, -1)[row], want, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(read.view(2, length, -1)[row], want_read, atol=1e-4, rtol=1e-4)


def test_a_length_that_is_no_multiple_of_the_window_is_refused():
    with pytest.raises(ValueError, match="length is 33: it must be a multiple of the window 32"):
        SequenceMemory(CONFIG, 1, 33)


@pytest.mark.parametrize("length", [40, 9])
def test_a_block_drafts_what_the_engine_drafts(model, length):
    """The engine's draft after a prompt and one token, against the block of training."""
    k = 6
    llm = LLM(preset="tiny", device="cpu", block_size=16, max_model_len=128, max_num_seqs=1)
    prompt = torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(2)).tolist()
    llm.core.add("one", prompt, SamplingParams(max_tokens=9, temperature=0, ignore_eos=True))
    [first] = llm.core.step()[0].token_ids
    drafted = llm.core._runner._state.draft_tokens[0].tolist()

    padded = torch.tensor([*prompt, first, *[0] * (64 - length - 1)])
    _, read = model(padded, torch.arange(64), SequenceMemory(CONFIG, 1, 64))
    turns = model.rotary.turns(torch.arange(64 + k))
    keys = [one[None] for one in model.draft.context_keys(model.draft.context(read), turns[:64])]
    start = torch.tensor([length])
    blocks = BlockMemory(CONFIG, keys, torch.tensor([0]), start, k, CONFIG.num_hidden_layers)
    rows = torch.tensor([first, *[CONFIG.noise_token_id] * (k - 1)])
    base = model.draft_logits(model.draft(model.embed(rows), turns[length : length + k], blocks))
    previous, expected = torch.tensor([first]), []
    for step in range(k):
        previous = (base[step : step + 1] + model.draft.bias(previous)).argmax(-1)
        expected.append(int(previous))
    assert drafted == expected


def test_a_few_steps_lower_both_losses():
    torch.manual_seed(0)
    trained = random_model(dataclasses.replace(CONFIG, initializer_range=0.05), 0, torch.device("cpu"))
    ids = torch.arange(129).repeat(2, 1) % 7
    weights = torch.ones(2, 129)

    def fall(parameters, loss_of):
        trained.requires_grad_(False).train()
        for parameter in parameters:
            parameter.requires_grad_(True)
        optimizer = torch.optim.AdamW(parameters, 3e-3)
        seen = []
        for _ in range(12):
            losses = loss_of()
            optimizer.zero_grad()
            losses["total"].backward()
            optimizer.step()
            seen.append(float(losses["total"].detach()))
        return seen[-1] / seen[0]

    named = dict(trained.named_parameters())
    target = [p for name, p in named.items() if not name.startswith("draft.")]
    draft = [p for name, p in named.items() if name.startswith("draft.")]
    assert fall(target, lambda: target_loss(trained, ids, weights)) < 0.7
    assert fall(draft, lambda: draft_loss(trained, ids, weights, 6)) < 0.8
