"""vLLM's recorded builds (NVIDIA specialized decode), and what may go into a graph."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

from vllm.models.deepseek_v41.nvidia.specialized_decode.runtime import metadata_graphs

from vllm_plugin.contract.engine import FLASHINFER, V41, Batch, Engine, assert_same, counted


def forked(engine: Engine, batch: Batch) -> list:
    """vLLM's forked build of the engine's groups, its streams without a GPU."""
    graphs = metadata_graphs.AttnMetadataCudaGraphs(mock.Mock(), 7)
    assert graphs.can_record(engine.attn_groups)
    built = {}

    def build(groups):
        layers = [group.layer_names[0] for one in groups for group in one]
        return dict(zip(layers, engine.build(batch, attn_groups=groups), strict=True))

    with (
        mock.patch("torch.cuda.Stream", mock.Mock),
        mock.patch("torch.cuda.stream", lambda stream: nullcontext()),
        mock.patch.object(metadata_graphs, "current_stream", mock.Mock),
    ):
        built = graphs._forked_build(engine.attn_groups, batch.tensors.block_tables, build)
    return list(built.values())


def test_recorded_builds_still_record_and_are_one_launch_for_all_branches(plugin):
    usual, engine = Engine([FLASHINFER] * 3), Engine([FLASHINFER] * 3)
    batch = Batch([7, 7], groups=3)
    expected = forked(usual, batch)
    plugin.register()
    for _ in range(2):
        assert_same(expected, forked(engine, batch))
    with counted() as launches:
        assert_same(expected, forked(engine, batch))
    assert launches == ["build_step_kernel"]


def test_a_window_group_stays_on_the_branch_of_the_builder_that_shares_its_table(plugin):
    from onelaunch.vllm_plugin.patches import _on_one_branch

    plugin.register()
    engine, batch = Engine([FLASHINFER] * 3), Batch([1], groups=3)
    other = SimpleNamespace(get_metadata_builder=lambda ubatch_idx=0: object())
    tables = [*batch.tensors.block_tables, batch.tensors.block_tables[1]]
    keyed = _on_one_branch([*engine.attn_groups, [other]], tables)
    assert keyed[0] is keyed[2] is tables[0]
    assert keyed[1] is keyed[3] is tables[1]


def test_a_recording_takes_vllms_launches_until_the_kernel_has_been_compared(plugin, monkeypatch):
    from onelaunch.vllm_plugin import step

    engine, batch = Engine([V41] * 2), Batch([3, 2], groups=2)
    plugin.register()
    capturing = mock.Mock(return_value=True)
    monkeypatch.setattr(step, "capturing", capturing)
    with counted() as launches:
        first = engine.build(batch)
    assert "build_step_kernel" not in launches
    capturing.return_value = False
    engine.build(batch)  # rehearsed, and compared once
    capturing.return_value = True
    with counted() as launches:
        recorded = engine.build(batch)
    assert launches == ["build_step_kernel"]
    assert_same(first, recorded)
    with counted() as launches:  # no update has been compared yet
        engine.update(recorded)
    assert "build_step_kernel" not in launches


def test_branches_stay_apart_where_the_plugin_builds_nothing(plugin, monkeypatch):
    from onelaunch.platform import Platform
    from onelaunch.vllm_plugin.patches import _on_one_branch

    monkeypatch.setattr("onelaunch._triton.interpreted", lambda: False)
    monkeypatch.setattr("onelaunch.vllm_plugin.plan.detect", lambda device: Platform("nvidia", "sm_75"))
    plugin.register()
    engine, batch = Engine([FLASHINFER] * 3), Batch([1], groups=3)
    tables = _on_one_branch(engine.attn_groups, batch.tensors.block_tables)
    assert all(one is other for one, other in zip(tables, batch.tensors.block_tables, strict=True))


def test_a_window_group_whose_table_is_made_late_keeps_its_branch(plugin):
    from onelaunch.vllm_plugin.patches import _on_one_branch

    plugin.register()
    engine, batch = Engine([FLASHINFER] * 3), Batch([1], groups=3)
    engine.attn_groups[1][0].kernel_block_size = 64
    tables = _on_one_branch(engine.attn_groups, batch.tensors.block_tables)
    assert tables[0] is tables[2] is batch.tensors.block_tables[0]
    assert tables[1] is batch.tensors.block_tables[1]


def test_a_recorded_build_is_not_replayed_after_a_disarm(plugin):
    from onelaunch.vllm_plugin import guard

    plugin.register()
    graphs = metadata_graphs.AttnMetadataCudaGraphs(mock.Mock(), 7)
    recorded, built = mock.Mock(), {"layer.0": object()}
    graphs._graphs[1, 1, 7, 7] = recorded, built
    assert graphs.replay((1, 1, 7, 7)) is built
    guard.disarm("a test")
    assert graphs.replay((1, 1, 7, 7)) is None  # vLLM builds it then
    assert recorded.replay.call_count == 1
