"""The engine on a GPU: graphs, the same tokens in every arm, and no wait in a step."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from onelaunch.engine import LLM, SamplingParams

TINY = {"preset": "tiny", "block_size": 16, "max_model_len": 256, "max_num_seqs": 8, "sync_check": "error"}
PROMPTS = [[(i * j * 7 + j) % 250 for j in range(1, 2 + i * 5)] for i in range(20)]
GREEDY = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)


def tokens(**options) -> list[tuple[int, ...]]:
    llm = LLM(**{**TINY, **options})
    result = [completion.token_ids for completion in llm.generate(PROMPTS, GREEDY)]
    assert llm.core._tables.pool.num_free == llm.core.config.num_blocks - 1
    return result


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    return tokens(monokernel=False, attention="dense", enforce_eager=True)


@pytest.mark.parametrize(
    "options",
    [
        {"monokernel": True, "attention": "dense"},
        {"monokernel": True, "attention": "ragged"},
        {"monokernel": False, "attention": "dense"},
        {"monokernel": False, "attention": "ragged"},
        {"monokernel": True, "enforce_eager": True},
        {"speculative": None},
        {"speculative": '{"adaptive_verification": 0.5}'},
        {"speculative": '{"draft_sample_method": "probabilistic"}'},
        {"num_blocks": 160, "max_num_batched_tokens": 56},
    ],
    ids=str,
)
def test_greedy_tokens_are_the_same_in_every_arm(options, expected):
    assert tokens(**options) == expected


def profiled_step(llm: LLM) -> tuple[Counter[str], Counter[str]]:
    """What the host starts, and device events, of one step of decodes."""
    for i in range(3):
        llm.core.add(str(i), [i + 1] * 20, SamplingParams(max_tokens=200, temperature=0, ignore_eos=True))
    for _ in range(4):
        llm.core.step()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        llm.core.step()
        torch.cuda.synchronize()
    starts = ("Launch", "MemsetAsync", "MemcpyAsync")  # fills with zero and plain copies are not kernels
    host = Counter(
        event.name
        for event in profile.events()
        if event.device_type.name == "CPU" and any(start in event.name for start in starts)
    )
    device = Counter(e.name for e in profile.events() if e.device_type.name == "CUDA")
    return host, device


def test_a_step_with_the_one_launch_is_one_graph_that_builds_all_its_metadata():
    host, device = profiled_step(LLM(**TINY, monokernel=True))
    assert host["cudaGraphLaunch"] == 1
    built = {name: count for name, count in device.items() if "build_step" in name or "pack_topk" in name}
    assert sum(count for name, count in built.items() if "build_step" in name) == 2
    assert sum(count for name, count in built.items() if "pack_topk" in name) == 2


def test_the_usual_build_is_launched_between_graphs():
    host, _ = profiled_step(LLM(**TINY, monokernel=False))
    assert host["cudaGraphLaunch"] == 3
    # 56 of both builds' groups, a slot mapping a group and two token maps; the inputs' copy, and two that
    # bring the tokens back. The top-k's own are in the graphs.
    assert sum(host.values()) - 3 == 56 + 7 + 2 + 3


def test_seeded_samples_are_the_same_in_a_graph_and_without():
    params = [SamplingParams(max_tokens=16, temperature=0.8, seed=i, ignore_eos=True) for i in range(20)]
    results = []
    for eager in (False, True):
        llm = LLM(**TINY, enforce_eager=eager)
        results.append([completion.token_ids for completion in llm.generate(PROMPTS, params)])
    assert results[0] == results[1]
