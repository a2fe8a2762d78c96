"""Both readers against attention in float64: PyTorch, and the kernels in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from engine.attention.cases import make
from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup
from onelaunch._triton import interpreted
from onelaunch.engine.attention import dense_attention, kernels, ragged_attention
from onelaunch.engine.attention.torch_readers import dense_torch, ragged_torch
from onelaunch.launches import counting

# Entries that fill no block, one and several; heads below and above a matrix unit's; with and without top-k.
SHAPES = [(5, 4, 32, 40, 24), (3, 20, 64, 130, 140), (4, 2, 16, 32, 0)]


@pytest.mark.parametrize("shape", [*SHAPES, (300, 4, 32, 32, 16)], ids=str)
def test_pytorch_readers_equal_float64_attention(shape):
    case = make(*shape)
    for got in (dense_torch(*case.dense), ragged_torch(*case.ragged)):
        torch.testing.assert_close(got.double(), case.expected, atol=3e-6, rtol=0)
        assert not got[0].any()


@pytest.mark.skipif(not interpreted(), reason="on a GPU tests/gpu has these, compiled")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_equal_float64_attention(shape):
    case = make(*shape)
    for got in (kernels.dense_triton(*case.dense), kernels.ragged_triton(*case.ragged)):
        torch.testing.assert_close(got.double(), case.expected, atol=3e-6, rtol=0)
        assert not got[0].any()


@pytest.mark.parametrize("spread", [30.0, 300.0])
def test_large_scores_do_not_overflow(spread):
    case = make(4, 4, 32, 40, 8, spread=spread)
    for got in (dense_torch(*case.dense), ragged_torch(*case.ragged)):
        torch.testing.assert_close(got.double(), case.expected, atol=2e-3, rtol=0)


def test_long_prompts_are_read_in_parts(monkeypatch):
    case = make(33, 4, 32, 40, 24)
    whole = dense_torch(*case.dense)
    monkeypatch.setattr("onelaunch.engine.attention.torch_readers._VALUES_AT_ONCE", 5 * 64 * 32)
    torch.testing.assert_close(dense_torch(*case.dense), whole, atol=1e-6, rtol=0)


def test_no_rows_give_no_output():
    case = make(2, 4, 32, 40, 24)
    none = torch.zeros(1, dtype=torch.int32)
    for got in (
        dense_torch(case.query[:0], case.cache, case.indices[:0], case.lengths[:0], case.sink, 1.0),
        ragged_torch(case.query[:0], case.cache, none, none, case.sink, 1.0),
    ):
        assert got.shape == (0, 4, 32)


def test_both_read_the_same_from_what_a_builder_builds():
    groups = [
        WindowGroup("target", window=32, block_size=16),
        WindowGroup("draft", window=32, block_size=16, causal=False, draft_tokens=3),
    ]
    batch = DecodeBatch(
        torch.tensor([0, 3, 6, 6], dtype=torch.int32), torch.tensor([70, 5, 9], dtype=torch.int32), 8
    )
    table = torch.arange(1, 25, dtype=torch.int32).view(3, 8)
    table[0, 3] = -1
    slots = torch.tensor([1, 2, 3, 4, 5, 6, -1, -1])
    cache, query, sink = torch.randn(400, 32), torch.randn(8, 4, 32), torch.randn(4)
    for group in groups:
        builder = StepBuilder([group], max_tokens=8, max_requests=3, device="cpu", backend="reference")
        made = builder.build(batch, {group.name: GroupInputs(table, slots)})[group.name]
        dense = dense_attention(query, cache, made.indices, made.lengths, sink, 0.2)
        ragged = ragged_attention(query, cache, made.ragged_indices, made.ragged_indptr, sink, 0.2)
        torch.testing.assert_close(dense, ragged, atol=1e-6, rtol=0)
        assert not dense[6:].any()
        assert dense[:6].any(-1).all()


@pytest.mark.skipif(not interpreted(), reason="on a GPU a profiler counts them")
def test_launches_are_counted():
    case = make(2, 2, 16, 32, 0)
    with counting() as launches:
        kernels.dense_triton(*case.dense)
        kernels.ragged_triton(*case.ragged)
    assert launches == {"dense_attention": 1, "ragged_attention": 1, "combine_splits": 1}


def test_a_head_dimension_that_no_kernel_takes_is_refused():
    case = make(2, 2, 24, 32, 0)
    with pytest.raises(ValueError, match="query has head dimension 24: it must be a power of two"):
        kernels.dense_triton(*case.dense)
