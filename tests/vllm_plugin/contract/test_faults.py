"""A kernel that writes one wrong integer: noticed before it serves, wherever the integer is."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

import torch

from onelaunch.builder import StepBuilder
from onelaunch.proof import case_file
from onelaunch.proof.verify import run_steps
from vllm_plugin.contract.engine import DEVICE, ROCM, Batch, Engine, assert_same


def one_off(tensor: torch.Tensor, place: int) -> None:
    flat = tensor.view(-1)
    flat[place] = ~flat[place] if tensor.dtype is torch.bool else flat[place] + 1


@pytest.fixture(
    params=[
        "is_valid",
        "indices",
        "lengths",
        "lengths past the rows",
        "ragged_indices",
        "ragged_indptr",
        "map",
    ]
)
def fault(request, monkeypatch):
    """Callable that plants the fault: one wrong integer in the last group of every build by the kernel."""

    def plant() -> None:
        build = StepBuilder.build

        def wrong(self, batch, inputs):
            step = build(self, batch, inputs)
            buffers = self.buffers(self.groups[-1].name)
            if self.backend != "kernel" or not batch.num_tokens:
                return step
            if request.param == "map":
                one_off(self.token_to_request, 0)
            elif request.param == "lengths past the rows":
                one_off(buffers.lengths, buffers.lengths.shape[0] - 1)
            elif request.param != "ragged_indices" or int(buffers.ragged_indptr[batch.num_tokens]):
                one_off(getattr(buffers, request.param), 0)
            return step

        monkeypatch.setattr(StepBuilder, "build", wrong)

    return plant


def test_a_wrong_integer_is_never_served(plugin, fault, caplog, tmp_path):
    usual, engine = Engine([ROCM] * 2), Engine([ROCM] * 2)
    batch = Batch([2, 1], padded_rows=1, groups=2, missing_slots=False)
    expected = usual.build(batch)
    fault()
    plugin.register()
    with caplog.at_level(logging.INFO, "vllm.onelaunch"):
        for _ in range(4):
            assert_same(expected, engine.build(batch))
    status = plugin.status()
    assert status.disarmed is not None
    assert "kernel" not in status.counts
    assert status.counts["disarms"] == 1
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    (path,) = tmp_path.glob("onelaunch-case-*.json")
    assert str(path) in line
    steps = case_file.read(path)
    assert run_steps(steps, DEVICE), "the case replays the fault"


def test_a_fault_that_only_real_batches_meet_is_found_in_the_real_builds(plugin, monkeypatch, tmp_path):
    usual, engine = Engine([ROCM] * 2, causal=False), Engine([ROCM] * 2, causal=False)
    batch = Batch([6, 6], groups=2, missing_slots=False)
    expected = usual.build(batch)
    build = StepBuilder.build

    def wrong(self, given, inputs):
        step = build(self, given, inputs)
        if given.query_start_loc is batch.tensors.query_start_loc:
            one_off(self.buffers("group 1").indices, 3)
        return step

    monkeypatch.setattr(StepBuilder, "build", wrong)
    plugin.register()
    for _ in range(3):
        assert_same(expected, engine.build(batch))
    assert "group 1: indices[0, 0, 3]" in plugin.status().disarmed
    (path,) = tmp_path.glob("onelaunch-case-*.json")
    (case,) = case_file.read(path)
    assert [request.query_len for request in case.requests] == [6, 6]


def test_a_kernel_that_fails_leaves_the_build_to_vllm(plugin, monkeypatch):
    usual, engine, batch = Engine([ROCM] * 2), Engine([ROCM] * 2), Batch([2, 1], groups=2)
    expected = usual.build(batch)
    plugin.register()
    for _ in range(3):
        engine.build(batch)

    def broken(self, batch, inputs):
        raise RuntimeError("no ptxas")

    monkeypatch.setattr(StepBuilder, "build", broken)
    assert_same(expected, engine.build(batch))
    assert plugin.status().disarmed == "RuntimeError: no ptxas"


def test_an_update_that_is_wrong_is_never_served(plugin, monkeypatch):
    usual, engine, batch = Engine([ROCM] * 2), Engine([ROCM] * 2), Batch([2, 1], groups=2)
    expected = usual.build(batch)
    plugin.register()
    got = engine.build(batch)
    build = StepBuilder.build

    def wrong(self, given, inputs):
        step = build(self, given, inputs)
        one_off(self.buffers("group 0").lengths, 60)
        return step

    monkeypatch.setattr(StepBuilder, "build", wrong)
    engine.update(got)
    assert "lengths[60]" in plugin.status().disarmed
    assert_same(expected, got)
    assert not engine.builders[0].decode_swa_lens[3:].any()
