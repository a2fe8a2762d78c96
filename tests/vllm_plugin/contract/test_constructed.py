"""Builders from vLLM's own constructors, with its tile schedules: nothing here is made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

from vllm.v1.attention.backends.mla import sparse_swa
from vllm.v1.kv_cache_interface import SlidingWindowMLASpec
from vllm.v1.worker.utils import AttentionGroup

from vllm_plugin.contract.engine import (
    DEVICE,
    FLASHINFER,
    FLASHMLA,
    MAX_REQUESTS,
    MAX_TOKENS,
    ROCM,
    Batch,
    Engine,
    assert_same,
)


def constructed(cls: type, causal: bool) -> Engine:
    """An engine whose groups make their builders as the runner has them do."""
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=4096, hf_config=SimpleNamespace(sliding_window=128, compress_ratios=[0, 1, 2])
        ),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=MAX_TOKENS, max_num_seqs=MAX_REQUESTS),
        parallel_config=SimpleNamespace(prefill_context_parallel_size=1),
        speculative_config=SimpleNamespace(
            num_speculative_tokens=6, use_dspark=lambda: True, parallel_drafting=True
        ),
        use_v2_model_runner=True,
        kv_transfer_config=None,
    )
    spec = mock.Mock(spec=SlidingWindowMLASpec, head_size=512, tokens_per_state=1, block_size=64)
    backend = SimpleNamespace(get_builder_cls=lambda: cls)
    engine = Engine([], causal=causal)
    for i in range(2):
        group = AttentionGroup(backend, [f"layer.{i}"], spec, i)
        group.create_metadata_builders(config, DEVICE)
        engine.attn_groups.append([group])
        engine.builders.append(group.get_metadata_builder())
    engine.kv_cache_config.kv_cache_groups = [None, None]
    return engine


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "draft"])
@pytest.mark.parametrize("cls", [FLASHMLA, FLASHINFER, ROCM])
def test_a_constructed_builder_returns_the_same_metadata(plugin, monkeypatch, cls, causal):
    schedule = sparse_swa.FlashMLASchedMeta
    monkeypatch.setattr(sparse_swa, "get_mla_metadata", lambda: (schedule(), None))
    usual, engine = constructed(cls, causal), constructed(cls, causal)
    batch = Batch([7, 3, 0], padded_rows=4, groups=2, replay=causal)
    expected = usual.build(batch)
    assert isinstance(expected[0].tile_sched_c2a, schedule)
    plugin.register()
    for _ in range(3):
        got = engine.build(batch)
        assert_same(expected, got)
    assert plugin.status().counts["kernel"] == 2
    assert plugin.status().disarmed is None
    first = got[0].tile_sched_c2a
    engine.update(got)
    assert got[0].tile_sched_c2a is not first
