"""The readers in Triton: one pass over a row's entries with a running softmax (Milakov and Gimelshein, 2018).

Keys are values, so each is loaded once and used twice. Entries come as slots in any order: their keys are
gathered, a block of entries at a time. Products are of matrix units: heads of one row against a block of
keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from onelaunch._triton import tl, triton
from onelaunch.engine.attention.compressed import Compressed
from onelaunch.launches import launched

_LOG2E = tl.constexpr(1.4426950408889634)
_NOTHING = tl.constexpr(-1.0e30)  # a running maximum before the first entry: finite, so that differences are

_SPLIT = 128  # entries of a program of the ragged reader, as in AMD's sparse decode attention
_MIN_HEADS = 16  # rows of the smallest matrix product


@triton.jit
def _read(
    query,
    cache_ptr,
    indices_ptr,
    start,
    end,
    top,
    total,
    acc,
    scale,
    DIM: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """Go on with a running softmax over the entries ``indices_ptr[start:end]``."""
    dim = tl.arange(0, DIM)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        slot = tl.load(indices_ptr + entry, mask=entry < end, other=-1)
        there = slot >= 0
        at = tl.where(there, slot, 0).to(tl.int64)[:, None] * DIM + dim[None, :]
        keys = tl.load(cache_ptr + at, mask=there[:, None], other=0.0)
        score = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        score = tl.where(there[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - new_top[:, None])
        fade = tl.exp2(top - new_top)
        total = total * fade + tl.sum(weight, 1)
        acc = acc * fade[:, None] + tl.dot(weight.to(keys.dtype), keys, input_precision="ieee")
        top = new_top
    return top, total, acc


@triton.jit(do_not_specialize=["width", "scale"])
def _dense_kernel(
    query_ptr,
    cache_ptr,
    indices_ptr,
    lengths_ptr,
    compressed_ptr,
    compressed_indices_ptr,
    compressed_indptr_ptr,
    sink_ptr,
    out_ptr,
    width,
    scale,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    ENTRIES: tl.constexpr,
    HAS_COMPRESSED: tl.constexpr,
):
    """One row and a block of its heads: the softmax starts from the sink."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    own = (row * HEADS + head)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    query = tl.load(query_ptr + own, mask=(head < HEADS)[:, None], other=0.0)
    top = tl.load(sink_ptr + head, mask=head < HEADS, other=0.0) * _LOG2E
    total = tl.full((BLOCK_HEADS,), 1.0, tl.float32)
    acc = tl.zeros((BLOCK_HEADS, DIM), tl.float32)
    end = tl.minimum(tl.load(lengths_ptr + row), width)
    top, total, acc = _read(
        query, cache_ptr, indices_ptr + row * width, 0, end, top, total, acc, scale, DIM, ENTRIES
    )
    if HAS_COMPRESSED:
        start = tl.load(compressed_indptr_ptr + row)
        end = tl.load(compressed_indptr_ptr + row + 1)
        top, total, acc = _read(
            query, compressed_ptr, compressed_indices_ptr, start, end, top, total, acc, scale, DIM, ENTRIES
        )
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + own, out, mask=(head < HEADS)[:, None])


@triton.jit(do_not_specialize=["scale"])
def _ragged_kernel(
    query_ptr,
    cache_ptr,
    indices_ptr,
    indptr_ptr,
    compressed_ptr,
    compressed_indices_ptr,
    compressed_indptr_ptr,
    tops_ptr,
    totals_ptr,
    accs_ptr,
    scale,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    ENTRIES: tl.constexpr,
    SPLIT: tl.constexpr,
    WINDOW_SPLITS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """One row, a block of its heads and one split of its entries: the window's splits come first."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(2)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    is_head = head < HEADS
    dim = tl.arange(0, DIM)
    own = row * HEADS + head
    query = tl.load(query_ptr + own[:, None] * DIM + dim[None, :], mask=is_head[:, None], other=0.0)
    top = tl.full((BLOCK_HEADS,), _NOTHING, tl.float32)
    total = tl.zeros((BLOCK_HEADS,), tl.float32)
    acc = tl.zeros((BLOCK_HEADS, DIM), tl.float32)
    if split < WINDOW_SPLITS:
        start = tl.load(indptr_ptr + row) + split * SPLIT
        end = tl.minimum(tl.load(indptr_ptr + row + 1), start + SPLIT)
        top, total, acc = _read(
            query, cache_ptr, indices_ptr, start, end, top, total, acc, scale, DIM, ENTRIES
        )
    else:
        start = tl.load(compressed_indptr_ptr + row) + (split - WINDOW_SPLITS) * SPLIT
        end = tl.minimum(tl.load(compressed_indptr_ptr + row + 1), start + SPLIT)
        top, total, acc = _read(
            query, compressed_ptr, compressed_indices_ptr, start, end, top, total, acc, scale, DIM, ENTRIES
        )
    part = own * SPLITS + split
    tl.store(tops_ptr + part, top, mask=is_head)
    tl.store(totals_ptr + part, total, mask=is_head)
    tl.store(accs_ptr + part[:, None] * DIM + dim[None, :], acc, mask=is_head[:, None])


@triton.jit
def _combine_kernel(
    tops_ptr,
    totals_ptr,
    accs_ptr,
    sink_ptr,
    out_ptr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_PADDED: tl.constexpr,
):
    """One row and head: its splits' softmaxes and the sink as one."""
    own = tl.program_id(0).to(tl.int64) * HEADS + tl.program_id(1)
    split = tl.arange(0, SPLITS_PADDED)
    dim = tl.arange(0, DIM)
    part = own * SPLITS + split
    tops = tl.load(tops_ptr + part, mask=split < SPLITS, other=_NOTHING)
    totals = tl.load(totals_ptr + part, mask=split < SPLITS, other=0.0)
    sink = tl.load(sink_ptr + tl.program_id(1)) * _LOG2E
    top = tl.maximum(tl.max(tops, 0), sink)
    weights = tl.exp2(tops - top)
    accs = tl.load(accs_ptr + part[:, None] * DIM + dim[None, :], mask=(split < SPLITS)[:, None], other=0.0)
    total = tl.sum(totals * weights, 0) + tl.exp2(sink - top)
    out = tl.sum(accs * weights[:, None], 0) / total
    tl.store(out_ptr + own * DIM + dim, out.to(out_ptr.dtype.element_ty))


def dense_triton(
    query: Tensor,
    cache: Tensor,
    indices: Tensor,
    lengths: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """:func:`onelaunch.engine.attention.dense_attention`, in one launch."""
    rows, heads, _ = query.shape
    query, out = query.contiguous(), torch.empty_like(query, memory_format=torch.contiguous_format)
    if not rows:
        return out
    plan = _plan(query)
    # A kernel's pointers must be to something.
    second = (
        (cache, indices, lengths)
        if compressed is None
        else (
            compressed.cache,
            compressed.ragged_indices,
            compressed.indptr,
        )
    )
    launched("dense_attention")
    _dense_kernel[(rows, triton.cdiv(heads, plan["BLOCK_HEADS"]))](
        query,
        cache,
        indices,
        lengths,
        *second,
        sink,
        out,
        indices.shape[-1],
        scale * _LOG2E.value,
        HAS_COMPRESSED=compressed is not None,
        **plan,
    )
    return out


def ragged_triton(
    query: Tensor,
    cache: Tensor,
    ragged_indices: Tensor,
    indptr: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """:func:`onelaunch.engine.attention.ragged_attention`, in two launches: the splits, and their
    combination.
    """
    rows, heads, dim = query.shape
    query, out = query.contiguous(), torch.empty_like(query, memory_format=torch.contiguous_format)
    if not rows:
        return out
    plan = _plan(query)
    window_splits = max(triton.cdiv(len(ragged_indices) // rows, _SPLIT), 1)
    splits, second = window_splits, (cache, ragged_indices, indptr)
    if compressed is not None:
        splits += triton.cdiv(len(compressed.ragged_indices) // rows, _SPLIT)
        second = (compressed.cache, compressed.ragged_indices, compressed.indptr)

    def parts(*shape: int) -> Tensor:
        return torch.empty(rows, heads, splits, *shape, dtype=torch.float32, device=query.device)

    tops, totals, accs = parts(), parts(), parts(dim)
    launched("ragged_attention")
    _ragged_kernel[(rows, triton.cdiv(heads, plan["BLOCK_HEADS"]), splits)](
        query,
        cache,
        ragged_indices,
        indptr,
        *second,
        tops,
        totals,
        accs,
        scale * _LOG2E.value,
        SPLIT=_SPLIT,
        WINDOW_SPLITS=window_splits,
        SPLITS=splits,
        **plan,
    )
    launched("combine_splits")
    _combine_kernel[(rows, heads)](
        tops,
        totals,
        accs,
        sink,
        out,
        HEADS=heads,
        DIM=dim,
        SPLITS=splits,
        SPLITS_PADDED=triton.next_power_of_2(splits),
    )
    return out


def _plan(query: Tensor) -> dict[str, int]:
    _, heads, dim = query.shape
    if dim < 16 or dim & (dim - 1):
        raise ValueError(f"query has head dimension {dim}: it must be a power of two of at least 16")
    return plan(heads, dim, amd=torch.version.hip is not None)


def plan(heads: int, dim: int, *, amd: bool) -> dict[str, int]:
    """Compile-time arguments of a reader of ``heads`` heads of ``dim``: the largest tiles without a spill."""
    # Up to 64 heads a program: each key is then gathered once a row. Fewer of wide heads, whose accumulators
    # would not fit in registers.
    block_heads = min(max(triton.next_power_of_2(heads), _MIN_HEADS), 64, 16384 // dim)
    # Keys of a block wait in registers or shared memory beside the accumulator.
    entries = 32 if dim > 128 else 64
    return {
        "HEADS": heads,
        "DIM": dim,
        "BLOCK_HEADS": block_heads,
        "ENTRIES": entries // 2 if amd else entries,
        "num_warps": 8 if block_heads * dim > (2048 if amd else 8192) else 4,
    }
