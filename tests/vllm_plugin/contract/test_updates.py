"""Draft updates: metadata refreshed in place between draft steps, as vLLM records it in the draft's graph."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

from vllm_plugin.contract.engine import (
    BASE,
    FLASHINFER,
    ROCM,
    V41,
    Batch,
    Engine,
    assert_same,
    counted,
    rocm_v41,
)


def advance(batch: Batch) -> None:
    """The next draft step: positions move on, the last request is done, and its rows become padding."""
    t = batch.tensors
    t.seq_lens += 1
    t.query_start_loc[-1] = t.query_start_loc[-2]
    t.slot_mappings[:, int(t.query_start_loc[-1]) :] = -1


def usual_update(engine: Engine, metadata: list) -> None:
    """vLLM's own; on ROCm, where it has none, the base class's and the functions of ROCm's build."""
    engine.update(metadata)
    if isinstance(engine.builders[0], ROCM):
        for builder, m in zip(engine.builders, metadata, strict=True):
            ragged = rocm_v41.build_ragged_indices_from_dense(
                m.decode_swa_indices.reshape(m.num_decode_tokens, -1), m.decode_swa_lens
            )
            rocm_v41._copy_ragged_to_graph_buffers(
                *ragged,
                builder.decode_swa_ragged_indices_buffer,
                builder.decode_swa_ragged_indptr_buffer,
                m.num_decode_tokens,
                m.decode_swa_width,
            )


@pytest.mark.parametrize(
    ("cls", "causal", "launches"),
    # For 3 groups: one, then vLLM's own token map, which is padded differently. FlashInfer adds its two.
    [(V41, True, 2), (V41, False, 2), (FLASHINFER, False, 2 + 2 * 3), (ROCM, True, 2), (ROCM, False, 2)],
)
def test_updates_equal_vllms_own_while_verifying_and_once_armed(plugin, cls, causal, launches):
    from onelaunch.vllm_plugin import patches

    usual, engine = Engine([cls] * 3, causal=causal), Engine([cls] * 3, causal=causal)
    batch = Batch([3, 1, 2], padded_rows=2, groups=3)
    expected = usual.build(batch)
    plugin.register()
    got = engine.build(batch)
    for step in range(4):
        advance(batch)
        patches.remove()
        usual_update(usual, expected)
        plugin.register()
        with counted() as made:
            engine.update(got)
        assert_same(expected, got)
        if step >= 2:
            assert len(made) == launches, made
    assert plugin.status().disarmed is None


def test_an_update_of_one_builder_alone_is_taken_too(plugin):
    from onelaunch.vllm_plugin import patches

    usual, engine, batch = Engine([V41]), Engine([V41]), Batch([2, 2])
    (expected,) = usual.build(batch)
    plugin.register()
    (got,) = engine.build(batch)
    for _ in range(3):
        advance(batch)
        patches.remove()
        usual.builders[0].update_draft_decode_metadata(expected)
        plugin.register()
        engine.builders[0].update_draft_decode_metadata(got)
        assert_same([expected], [got])
    assert plugin.status().counts["kernel"] == 1


def test_rocm_offers_updates_only_when_asked_to(plugin, monkeypatch):
    assert not ROCM.supports_draft_decode_metadata_update
    plugin.register()
    assert ROCM.supports_draft_decode_metadata_update
    from onelaunch.vllm_plugin import patches

    patches.remove()
    monkeypatch.delenv("ONELAUNCH_ROCM_DRAFT_UPDATE")
    plugin.register()
    assert not ROCM.supports_draft_decode_metadata_update
    assert BASE.supports_draft_decode_metadata_update
