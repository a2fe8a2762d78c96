"""The one-launch top-k pack: each row's chosen compressed entries as global slots, row after row.

A row's place in the ragged list depends on how many entries every earlier row has, which only its data
tell. Recounting them in every program would read quadratically, so each program publishes its rows'
count in one 64-bit word, (generation, count), and the programs after it add up the words before theirs: the
decoupled scan of Merrill and Garland (NVIDIA NVR-2016-002) with a single look back. Count and
generation travel in the same word, so no memory ordering is needed; a program waits only for earlier
ones, which the hardware starts first, so none can wait for a program that never runs.

The words outlive a launch and count its generations: every launch bumps each word once, and nothing has
to be cleared in between. That holds as long as launches on the same words never overlap; see
``onelaunch.topk``.
"""

from __future__ import annotations

from onelaunch._triton import tl, triton

PROGRAMS = 128  # fixed: a generation must reach every word


@triton.jit
def _counts(topk_ptr, stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS: tl.constexpr):
    """(entries of the rows, [N, COLUMNS]; length of each row, [N])."""
    columns = tl.arange(0, COLUMNS)
    in_batch = rows < num_tokens
    valid = tl.load(is_valid_ptr + rows, mask=in_batch, other=0) != 0
    entries = tl.load(
        topk_ptr + rows.to(tl.int64)[:, None] * stride + columns[None, :],
        mask=valid[:, None] & (columns < topk)[None, :],
        other=-1,
    )
    return entries, tl.sum((entries >= 0).to(tl.int32), axis=1)


@triton.jit
def pack_topk_kernel(
    topk_ptr,
    token_to_request_ptr,
    is_valid_ptr,
    block_table_ptr,
    ragged_ptr,
    indptr_ptr,
    lengths_ptr,
    words_ptr,
    topk_stride,
    num_tokens,
    topk,
    block_table_stride,
    num_blocks,
    block_size,
    tiles,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """``tiles`` tiles of ROWS rows a program. words_ptr: [PROGRAMS] int64, generation << 32 | count."""
    program = tl.program_id(0)
    first_row = program * ROWS * tiles

    count = 0
    for tile in tl.range(0, tiles):
        rows = first_row + tile * ROWS + tl.arange(0, ROWS)
        _, lengths = _counts(topk_ptr, topk_stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS)
        tl.store(lengths_ptr + rows, lengths, mask=rows < num_tokens)
        count += tl.sum(lengths)

    generation = (tl.load(words_ptr + program, volatile=True) >> 32) + 1
    tl.atomic_xchg(words_ptr + program, (generation << 32) | count.to(tl.int64), sem="relaxed")

    if first_row < num_tokens:
        others = tl.arange(0, PROGRAMS)
        earlier = others < program
        words = tl.load(words_ptr + others, mask=earlier, other=0, volatile=True)
        while tl.max((earlier & ((words >> 32) != generation)).to(tl.int32)) > 0:
            words = tl.load(words_ptr + others, mask=earlier, other=0, volatile=True)
        offset = tl.sum(tl.where(earlier, words & 0xFFFFFFFF, 0)).to(tl.int32)

        for tile in tl.range(0, tiles):
            rows = first_row + tile * ROWS + tl.arange(0, ROWS)
            in_batch = rows < num_tokens
            entries, lengths = _counts(topk_ptr, topk_stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS)
            ends = offset + tl.cumsum(lengths, axis=0)
            tl.store(indptr_ptr + 1 + rows, ends, mask=in_batch)
            req = tl.load(token_to_request_ptr + rows, mask=in_batch & (lengths > 0), other=0)
            columns = tl.arange(0, COLUMNS)
            taken = columns[None, :] < lengths[:, None]
            logical = entries // block_size
            mapped = taken & (entries >= 0) & (logical < num_blocks)
            block = tl.load(
                block_table_ptr + req.to(tl.int64)[:, None] * block_table_stride + logical, mask=mapped, other=0
            )
            slots = tl.where(mapped, block * block_size + entries % block_size, -1)
            tl.store(ragged_ptr + (ends - lengths)[:, None] + columns[None, :], slots, mask=taken)
            offset += tl.sum(lengths)
    tl.store(indptr_ptr, 0, mask=program == 0)
