"""The readers' kernels, compiled: against float64 attention, and inside a CUDA graph."""

from __future__ import annotations

import pytest
import torch

from engine.attention.cases import make
from onelaunch.engine.attention import dense_attention, ragged_attention

SHAPES = [
    (5, 4, 32, 40, 24),  # the tiny preset's
    (14, 32, 128, 128, 512),  # the bench preset's
    (7, 20, 64, 192, 0),  # heads that fill no block, a draft's width
    (7, 64, 512, 128, 512),  # DeepSeek-V4.1's own
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_equal_float64_attention(shape, dtype):
    if dtype is torch.float32 and shape[2] == 512:
        pytest.skip("float32 caches of this size are nobody's, and take a minute to compile")
    case = make(*shape, dtype=dtype, device="cuda")
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for got in (dense_attention(*case.dense), ragged_attention(*case.ragged)):
        assert got.dtype is dtype
        torch.testing.assert_close(got.double().cpu(), case.expected, atol=tolerance, rtol=0)
        assert not got[0].any()


def test_a_captured_reader_reads_what_is_there_when_it_is_replayed():
    case = make(14, 32, 128, 128, 512, dtype=torch.bfloat16, device="cuda")
    eager = dense_attention(*case.dense).clone(), ragged_attention(*case.ragged).clone()
    kept = case.query.clone()
    graph = torch.cuda.CUDAGraph()
    case.query.zero_()
    with torch.cuda.graph(graph):
        captured = dense_attention(*case.dense), ragged_attention(*case.ragged)
    case.query.copy_(kept)
    graph.replay()
    for got, want in zip(captured, eager, strict=True):
        assert torch.equal(got, want)
