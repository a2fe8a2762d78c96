"""The two ways to build metadata, through the whole engine: same tokens, whatever runs beside what."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from scipy import stats

from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.scheduler import Scheduled, split_decodes_and_prefills


def requests(count: int) -> tuple[list[list[int]], list[SamplingParams]]:
    """Prompts of 1 to 60 tokens, a third of them behind a shared beginning; 1 to 6 tokens of output."""
    rng = random.Random(1)
    shared = [rng.randrange(256) for _ in range(32)]
    prompts, params = [], []
    for i in range(count):
        prompt = [rng.randrange(256) for _ in range(rng.randint(1, 60))]
        prompts.append(shared + prompt[:20] if i % 3 == 0 else prompt)
        params.append(SamplingParams(max_tokens=rng.randint(1, 6), temperature=0, ignore_eos=True))
    return prompts, params


@pytest.fixture(scope="module")
def usual() -> list[tuple[int, ...]]:
    return run(attention="ragged", monokernel=False)


def run(**options) -> list[tuple[int, ...]]:
    llm = LLM(
        preset="tiny",
        device="cpu",
        block_size=16,
        max_model_len=128,
        max_num_seqs=48,
        num_blocks=700,
        **options,
    )
    done = llm.generate(*requests(200))
    assert llm.core._tables.pool.num_free == 699
    return [completion.token_ids for completion in done]


@pytest.mark.parametrize(
    ("monokernel", "attention"), [(False, "dense"), (True, "dense"), (True, "ragged")], ids=str
)
def test_two_hundred_mixed_requests_get_the_same_tokens(monokernel, attention, usual):
    assert run(monokernel=monokernel, attention=attention) == usual


def test_a_padded_step_gives_the_same_tokens_and_touches_no_slot_of_others():
    """What a captured graph runs: three requests in a step made for eight."""
    prompts = [[i * 7 + j for j in range(20 + i)] for i in range(3)]
    params = SamplingParams(max_tokens=30, temperature=0, ignore_eos=True)

    def fresh():
        llm = LLM(preset="tiny", device="cpu", block_size=16, max_model_len=128, max_num_seqs=8)
        for i, prompt in enumerate(prompts):
            llm.core.add(str(i), prompt, params)
        llm.core.step()
        return llm.core._runner, llm.core._scheduler.schedule()

    runner, batch = fresh()
    want = runner.step(batch)
    caches = [tensor for _, tensor in runner._step._memory._window.values()]
    want_caches = [tensor.clone() for tensor in caches]

    runner, batch = fresh()
    tensors = runner._send(batch, 8)
    tensors.num_rows = 8 * 7
    caches = [tensor for _, tensor in runner._step._memory._window.values()]
    for tensor in caches:
        tensor[:16] = float("nan")  # the null block, which padded rows write: nobody may read it
    runner._run(tensors)
    got = runner._read(batch, tensors)
    assert got.token_ids.tolist() == want.token_ids.tolist()
    for tensor, expected in zip(caches, want_caches, strict=True):
        # A product's rounding depends on how many rows there are; whether a slot was written does not.
        assert (tensor[16:] != 0).equal(expected[16:] != 0)
        torch.testing.assert_close(tensor[16:], expected[16:], atol=1e-4, rtol=1e-4)


def test_decodes_are_told_from_prefills_by_what_they_did():
    class Request:
        def __init__(self, decoding):
            self.decoding = decoding

    batch = [Scheduled(Request(decoding), 1, 0, True) for decoding in (True, False, True)]
    decodes, prefills = split_decodes_and_prefills(batch)
    assert decodes == [batch[0], batch[2]]
    assert prefills == [batch[1]]


@pytest.fixture(scope="module")
def without_drafts() -> Counter[tuple[int, ...]]:
    return sampled(None, first_seed=10_000)


@pytest.mark.parametrize(
    ("method", "draft"), [("block", "greedy"), ("block", "probabilistic"), ("standard", "probabilistic")]
)
def test_sampled_outputs_are_distributed_as_without_drafts(method, draft, without_drafts):
    """A chi-square test of two samples of sequences, over several steps each."""
    speculative = f'{{"rejection_sample_method": "{method}", "draft_sample_method": "{draft}"}}'
    counts = [sampled(speculative, first_seed=0), without_drafts]
    common = [key for key in counts[1] if counts[0][key] + counts[1][key] >= 20]
    table = [[count[key] for key in common] for count in counts]
    for row, count in zip(table, counts, strict=True):
        row.append(count.total() - sum(row))
    assert len(common) > 20
    assert stats.chi2_contingency(table).pvalue > 1e-3


def sampled(speculative: str | None, first_seed: int, count: int = 1500) -> Counter[tuple[int, ...]]:
    """Outputs of one prompt under many seeds; of few candidates, so that sequences repeat."""
    llm = LLM(
        preset="tiny", device="cpu", block_size=16, max_model_len=64, max_num_seqs=64, speculative=speculative
    )
    with torch.no_grad():  # six tokens that target and draft can agree on, as trained ones do
        llm.core._runner._model.lm_head.weight[6:] = 0
        llm.core._runner._model.draft.markov_bias.weight[6:] = 0
    params = [
        SamplingParams(max_tokens=5, temperature=1.5, top_k=3, seed=first_seed + i, ignore_eos=True)
        for i in range(count)
    ]
    done = llm.generate([[1, 2, 3]] * count, params)
    if speculative is not None:
        assert llm.core.stats.num_accepted_tokens > count / 10
    return Counter(completion.token_ids for completion in done)
