"""Metadata builds of vLLM's own window builders, with the plug-in and without."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

import torch

from vllm_plugin.contract.engine import (
    BASE,
    DEVICE,
    FLASHINFER,
    FLASHMLA,
    RAGGED,
    ROCM,
    ROCM_V4,
    V41,
    Batch,
    Engine,
    assert_same,
    counted,
)

# One row, a full draft of one request, mixed lengths, padding requests and rows, rows that pad the slot
# mapping alone (eager steps), and 48 rows: past the 32 of vLLM's own one-launch build.
BATCHES = (
    {"query_lens": [1]},
    {"query_lens": [7]},
    {"query_lens": [7, 1, 3], "replay": True},
    {"query_lens": [2, 5, 0, 0], "padded_rows": 3, "replay": True},
    {"query_lens": [1, 1], "padded_rows": 6, "eager": True},
    {"query_lens": [7, 7, 7, 7, 7, 6, 7], "missing_slots": False},
)


def batches(groups: int):
    return [Batch(**fields, groups=groups, seed=seed) for seed, fields in enumerate(BATCHES)]


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "draft"])
@pytest.mark.parametrize("cls", [BASE, V41, FLASHMLA, FLASHINFER, ROCM, ROCM_V4])
def test_every_field_equals_vllms_own_while_verifying_and_once_armed(plugin, cls, causal):
    usual, engine = Engine([cls] * 3, causal=causal), Engine([cls] * 3, causal=causal)
    for number, batch in enumerate(batches(3)):
        expected = usual.build(batch)
        plugin.register()
        before = plugin.status().counts
        assert_same(expected, engine.build(batch))
        after = plugin.status().counts
        path = "verify" if number < 2 else "kernel"
        assert after[path] == before.get(path, 0) + 3
        from onelaunch.vllm_plugin import patches

        patches.remove()
    assert plugin.status().disarmed is None


@pytest.mark.parametrize(
    ("cls", "causal", "usual_launches", "armed_launches"),
    # Of 3 groups, the token map included. FlashInfer's own two for a draft's lengths stay.
    [
        (V41, True, 3 * 3 + 1, 1),
        (V41, False, 3 * 3 + 1, 1),
        (FLASHINFER, True, 3 * 3 + 1, 1),
        (FLASHINFER, False, 5 * 3 + 1, 1 + 2 * 3),
        (ROCM, True, 8 * 3 + 1, 1),
        (ROCM, False, 8 * 3 + 1, 1),
    ],
)
def test_a_step_of_three_groups_is_one_launch(plugin, cls, causal, usual_launches, armed_launches):
    engine, batch = Engine([cls] * 3, causal=causal), Batch([7, 2, 0], padded_rows=2, groups=3)
    engine.build(batch)  # vLLM makes the draft's buffer on first use
    with counted() as launches:
        engine.build(batch)
    assert len(launches) == usual_launches, launches
    plugin.register()
    for _ in range(2):
        engine.build(batch)
    with counted() as launches:
        engine.build(batch)
    assert len(launches) == armed_launches, launches


@pytest.mark.parametrize("groups", [3, 7, 15])
def test_any_number_of_groups_is_one_launch(plugin, groups):
    # 4 target and 3 draft groups at 7, each kind by its own causal flag.
    causal = {i: i % 2 == 0 for i in range(groups)}
    usual, engine = Engine([ROCM] * groups, causal=causal), Engine([ROCM] * groups, causal=causal)
    batch = Batch([3, 4], groups=groups)
    expected = usual.build(batch)
    plugin.register()
    for _ in range(2):
        assert_same(expected, engine.build(batch))
    with counted() as launches:
        got = engine.build(batch)
    assert launches == ["build_step_kernel"]
    assert_same(expected, got)


@pytest.mark.parametrize("cls", [V41, ROCM])
def test_buffers_keep_their_addresses(plugin, cls):
    engine, batch = Engine([cls] * 2), Batch([7, 7], groups=2)
    tensors = [name for name, value in vars(engine.builders[0]).items() if isinstance(value, torch.Tensor)]
    addresses = [[getattr(b, name).data_ptr() for name in tensors] for b in engine.builders]
    plugin.register()
    for _ in range(3):
        built = engine.build(batch)
    assert plugin.status().counts["kernel"] == 2
    assert [[getattr(b, name).data_ptr() for name in tensors] for b in engine.builders] == addresses
    first = engine.builders[0].token_to_req_indices.data_ptr()
    for builder, metadata in zip(engine.builders, built, strict=True):
        assert metadata.decode_swa_indices.data_ptr() == builder.decode_swa_indices.data_ptr()
        assert metadata.decode_swa_lens.data_ptr() == builder.decode_swa_lens.data_ptr()
        assert metadata.is_valid_token.data_ptr() == builder.is_valid_token.data_ptr()
        assert metadata.token_to_req_indices.data_ptr() == first
        assert metadata.replay_start is builder.no_replay_start
        if cls in RAGGED:
            ragged = builder.decode_swa_ragged_indices_buffer.data_ptr()
            assert metadata.decode_swa_ragged_indices.data_ptr() == ragged


@pytest.mark.parametrize("query_lens", [[8], [1, 9]], ids=["prefill", "mixed"])
def test_prefill_and_mixed_batches_keep_vllms_build(plugin, query_lens):
    usual, engine = Engine([V41] * 2), Engine([V41] * 2)
    batch = Batch(query_lens, groups=2)
    expected = usual.build(batch)
    plugin.register()
    assert_same(expected, engine.build(batch))
    assert plugin.status().counts == {"vllm": 2}


def test_a_builder_called_on_its_own_gets_a_launch_of_its_own(plugin):
    from vllm.v1.attention.backend import CommonAttentionMetadata

    def build(engine):
        t = batch.tensors
        common = CommonAttentionMetadata(
            query_start_loc=t.query_start_loc,
            query_start_loc_cpu=t.query_start_loc_cpu,
            seq_lens=t.seq_lens,
            num_reqs=2,
            num_actual_tokens=batch.num_tokens,
            max_query_len=3,
            max_seq_len=batch.longest,
            block_table_tensor=t.block_tables[0],
            slot_mapping=t.slot_mappings[0],
        )
        return [engine.builders[0].build(common_prefix_len=0, common_attn_metadata=common)]

    usual, engine, batch = Engine([V41]), Engine([V41]), Batch([3, 2])
    expected = build(usual)
    plugin.register()
    for _ in range(2):
        assert_same(expected, build(engine))
    with counted() as launches:
        assert_same(expected, build(engine))
    assert launches == ["build_step_kernel"]


def test_groups_whose_block_table_is_not_known_ahead_are_built_alone(plugin):
    usual, engine, batch = Engine([V41] * 3), Engine([V41] * 3), Batch([3, 2], groups=3)
    other = mock.Mock(supports_update_block_table=False)
    for e in (usual, engine):
        kernel_blocks = e.attn_groups[1][0]  # its table is mapped to smaller blocks just before its build
        kernel_blocks.kernel_block_size = 64
        kernel_blocks.kernel_block_offsets = torch.arange(2, dtype=torch.int32, device=DEVICE)
        kernel_blocks.kv_cache_spec = SimpleNamespace(block_size=128)
        columns = 2 * batch.tensors.block_tables[1].shape[1]
        kernel_blocks.kernel_block_table = torch.zeros(1, 2, columns, dtype=torch.int32, device=DEVICE)
        # This one comes after a builder of another kind in its KV-cache group.
        e.attn_groups[2].insert(0, mock.Mock(kernel_block_size=None, layer_names=["other"]))
        e.attn_groups[2][0].get_metadata_builder.return_value = other
    expected = usual.build(batch)
    plugin.register()
    for _ in range(2):
        assert_same(expected, engine.build(batch))
    with counted() as launches:
        assert_same(expected, engine.build(batch))
    assert launches.count("build_step_kernel") == 3


def test_a_replay_start_of_the_real_requests_alone_serves_the_padded_ones(plugin):
    usual, engine = Engine([V41] * 2), Engine([V41] * 2)
    batch = Batch([3, 2, 0, 0], padded_rows=2, groups=2, replay=True)
    # vLLM uploads the real requests' starts into a longer buffer and passes a view of those.
    batch.tensors.replay_start = batch.tensors.replay_start[:2]
    expected = usual.build(batch)
    plugin.register()
    for _ in range(3):
        assert_same(expected, engine.build(batch))
    assert plugin.status().counts["kernel"] == 2


def test_the_device_may_split_the_rows_otherwise_than_the_host_says(plugin):
    # Adaptive verification: the host's query lengths are bounds, the device's are the truth.
    usual, engine, batch = Engine([ROCM] * 2), Engine([ROCM] * 2), Batch([4, 4, 4], groups=2)
    batch.tensors.query_start_loc.copy_(torch.tensor([0, 7, 8, 12]))
    batch.tensors.seq_lens.add_(7)
    expected = usual.build(batch, max_query_len=7)
    plugin.register()
    for _ in range(3):
        assert_same(expected, engine.build(batch, max_query_len=7))
    assert plugin.status().counts["kernel"] == 2


@pytest.mark.parametrize("first", [True, False], ids=["inside first", "outside first"])
def test_builds_inside_and_outside_of_inference_mode_mix(plugin, first):
    usual, engine = Engine([V41] * 2, causal=False), Engine([V41] * 2, causal=False)
    batch = Batch([3, 2], groups=2)
    expected = usual.build(batch)
    plugin.register()
    for inside in (first, not first, first, not first):
        with torch.inference_mode(inside):
            assert_same(expected, engine.build(batch))
    assert plugin.status().disarmed is None
    assert plugin.status().counts["kernel"] == 4


def test_a_replay_start_too_short_for_the_padding_requests_is_left_to_vllm(plugin):
    usual, engine = Engine([V41] * 2), Engine([V41] * 2)
    batch = Batch([3, 2, 0], padded_rows=2, groups=2, replay=True)
    batch.tensors.replay_start = batch.tensors.replay_start[:2].clone()
    expected = usual.build(batch)
    plugin.register()
    assert_same(expected, engine.build(batch))
    assert plugin.status().counts == {"vllm": 2}
    assert plugin.status().disarmed is None
