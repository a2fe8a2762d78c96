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
    other = SimpleNamespace(get_metadata_builder=lambda: object())
    tables = [*batch.tensors.block_tables, batch.tensors.block_tables[1]]
    keyed = _on_one_branch([*engine.attn_groups, [other]], tables)
    assert keyed[0] is keyed[2] is tables[0]
    assert keyed[1] is keyed[3] is tables[1]


def test_a_recording_takes_vllms_launches_until_the_kernel_has_been_compared(plugin, monkeypatch):
    from onelaunch.vllm_plugin import step

    engine, batch = Engine([V41] * 2), Batch([3, 2], groups=2)
    plugin.register()
    capturing = mock.Mock(return_value=True)
    monkeypatch.setattr(step, "_capturing", capturing)
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
