"""Device functions of the one-launch build: a row's request and window, and the entries in it.

Layouts, since they decide the speed of so small a kernel: Triton lays out a tile that it gathers with axis 0
fastest, any other tile with the last axis fastest. So gathered tiles are [columns or blocks, rows], the
others [rows, requests]: lanes then run along what is contiguous, a row's sum is one warp reduction,
and nothing moves through shared memory between a load and its store.
"""

from __future__ import annotations

from onelaunch._triton import tl, triton

# Blocks that a window may touch for its entries to be made by selecting among them in registers. Wider
# windows look each entry's block up.
SELECTED_BLOCKS = tl.constexpr(6)


@triton.jit
def requests_before(row, query_start_loc_ptr, num_requests):
    """How many requests end at or before ``row``."""
    CHUNK: tl.constexpr = 512
    ended = tl.zeros([CHUNK], tl.int32)
    for first in tl.range(0, num_requests, CHUNK):
        request = first + tl.arange(0, CHUNK)
        exists = request < num_requests
        end = tl.load(query_start_loc_ptr + 1 + request, mask=exists, other=0)
        ended += (exists & (end <= row)).to(tl.int32)
    return tl.sum(ended)


@triton.jit
def request_facts(
    rows,
    first_row,
    last_row,
    query_start_loc_ptr,
    seq_lens_ptr,
    replay_start_ptr,
    num_tokens,
    num_requests,
    REQUESTS: tl.constexpr,
    CAUSAL: tl.constexpr,
    MAKE_SLOTS: tl.constexpr,
):
    """(request, position, first, second) of each row; the request is -1 where the row has none.

    The facts of REQUESTS requests are loaded together and handed to their rows in registers, so no load waits
    for a row's request. Of more requests the first ones to load are guessed, as if all had the same
    number of rows: then nothing waits for a search either. A wrong guess costs the search.

    ``first, second`` is (replay_start, 0) for a causal group and (prefix, seq_len) for a draft block, which
    has a position only where its slots are made.
    """
    found = rows * 0
    shift = rows * 0
    first = rows * 0
    second = rows * 0
    request = 0
    if num_requests > REQUESTS:
        even = first_row.to(tl.float32) * (num_requests.to(tl.float32) / num_tokens.to(tl.float32))
        request = tl.maximum(tl.minimum(even.to(tl.int32), num_requests) - REQUESTS // 4, 0)
    guessed = num_requests > REQUESTS
    reached = 0
    while (request < num_requests) & (reached <= last_row):
        candidate = request + tl.arange(0, REQUESTS)
        exists = candidate < num_requests
        q_start = tl.load(query_start_loc_ptr + candidate, mask=exists, other=2147483647)
        q_end = tl.load(query_start_loc_ptr + 1 + candidate, mask=exists, other=0)
        # Bounded below, so that no difference wraps: a row before its sequence has length 0 anyhow.
        seq_len = tl.maximum(tl.load(seq_lens_ptr + candidate, mask=exists, other=0), -1073741824)
        if CAUSAL:
            replay_start = tl.load(replay_start_ptr + candidate, mask=exists, other=0)
        reached = tl.max(q_end)
        more = request + REQUESTS < num_requests
        missed = guessed & ((more & (reached <= first_row)) | (tl.min(q_start) > first_row))
        guessed = False
        owns = (q_start[None, :] <= rows[:, None]) & (rows[:, None] < q_end[None, :]) & (not missed)
        found += tl.sum(tl.where(owns, candidate[None, :] + 1, 0), axis=1)
        if CAUSAL or MAKE_SLOTS:
            shift += tl.sum(tl.where(owns, (seq_len - q_end)[None, :], 0), axis=1)
        if CAUSAL:
            first += tl.sum(tl.where(owns, replay_start[None, :], 0), axis=1)
        else:
            first += tl.sum(tl.where(owns, (seq_len - q_end + q_start)[None, :], 0), axis=1)
            second += tl.sum(tl.where(owns, seq_len[None, :], 0), axis=1)
        if missed:
            request = requests_before(first_row, query_start_loc_ptr, num_requests)
            reached = 0
        else:
            request += REQUESTS
            # Padding requests, which hold no row: skip them all.
            if more & (reached <= last_row) & (tl.max(tl.where(exists, q_start, 0)) == reached):
                request = tl.maximum(request, requests_before(reached, query_start_loc_ptr, num_requests))
    return found - 1, rows + shift, first, second


@triton.jit
def row_windows(
    rows,
    first_row,
    last_row,
    query_start_loc_ptr,
    seq_lens_ptr,
    replay_start_ptr,
    num_tokens,
    num_requests,
    block_table_ptr,
    block_table_stride,
    num_blocks,
    slot_mapping_ptr,
    WINDOW: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    MAKE_SLOTS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """(request, slot, start, length) of each row, the length not cut at the width; see docs/metadata.md.

    The slot, int64, is loaded, or made from the block table. A row without a request or a slot is padded: its
    length is 0, and its request is never used for an address.
    """
    in_batch = rows < num_tokens
    if not MAKE_SLOTS:
        slot = tl.load(slot_mapping_ptr + rows, mask=in_batch, other=-1)
    request, position, first, second = request_facts(
        rows,
        first_row,
        last_row,
        query_start_loc_ptr,
        seq_lens_ptr,
        replay_start_ptr,
        num_tokens,
        num_requests,
        REQUESTS,
        CAUSAL,
        MAKE_SLOTS,
    )
    if MAKE_SLOTS:
        logical = position // BLOCK_SIZE
        has_block = in_batch & (request >= 0) & (position >= 0) & (logical < num_blocks)
        table_row = block_table_ptr + request.to(tl.int64) * block_table_stride
        block = tl.load(table_row + logical, mask=has_block, other=-1).to(tl.int64)
        slot = tl.where(block >= 0, block * BLOCK_SIZE + position % BLOCK_SIZE, -1)
    if CAUSAL:
        start = tl.maximum(tl.maximum(position - (WINDOW - 1), 0), first)
        end = position + 1
    else:
        start = tl.maximum(first - WINDOW, 0)
        end = second
    live = (request >= 0) & (slot >= 0)
    # Compared first: of a negative end and a replay start near 2^31 the difference wraps.
    return request, slot, start, tl.where(live & (end > start), end - start, 0)


@triton.jit
def first_block(start, BLOCK_SIZE: tl.constexpr):
    # A start is never negative, and said so: unsigned division by a power of two is one shift.
    return (start.to(tl.uint32) // BLOCK_SIZE).to(tl.int32)


@triton.jit
def load_blocks(table_row, logical, mask, BLOCK_SIZE: tl.constexpr):
    """Physical blocks, negative where ``mask`` is off. Bounded below, so that no entry wraps to a slot."""
    LEAST: tl.constexpr = -(2147483648 // BLOCK_SIZE)
    return tl.maximum(tl.load(table_row + logical, mask=mask, other=-1), LEAST)


@triton.jit
def window_blocks(table_row, start, count, SPAN: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """(kept, shifts) of windows of ``count`` positions from ``start``, over SPAN blocks at most.

    kept: how many of each row's positions have a block that is not negative. It needs a load a block, not a
    load an entry.
    shifts: inside a block, slots and columns run together: ``slot = column + block * BLOCK_SIZE - begin``,
    where the block's first position is column ``begin``. So a row's entries are its columns plus one number
    for each of its blocks; these, unless the window is too wide to hold them in registers.
    """
    # Columns, not positions: a position's block may end at 2^31, which int32 cannot hold.
    first = first_block(start, BLOCK_SIZE)
    into_block = start - first * BLOCK_SIZE
    if SPAN <= SELECTED_BLOCKS:
        kept = start * 0
        shifts = ()
        for i in tl.static_range(SPAN):
            begin = i * BLOCK_SIZE - into_block
            entries = tl.minimum(count, begin + BLOCK_SIZE) - tl.maximum(begin, 0)
            block = load_blocks(table_row, first + i, entries > 0, BLOCK_SIZE)
            kept += tl.where(block >= 0, tl.maximum(entries, 0), 0)
            shifts = shifts + (block * BLOCK_SIZE - begin,)
    else:
        BLOCKS: tl.constexpr = triton.next_power_of_2(SPAN)
        number = tl.arange(0, BLOCKS)[:, None]
        begin = number * BLOCK_SIZE - into_block[None, :]
        entries = tl.minimum(count[None, :], begin + BLOCK_SIZE) - tl.maximum(begin, 0)
        block = tl.load(table_row[None, :] + (first[None, :] + number), mask=entries > 0, other=-1)
        kept = tl.sum(tl.where(block >= 0, entries, 0), axis=0)
        shifts = (start,)
    return kept, shifts


@triton.jit
def window_entries(columns, table_row, start, count, shifts, SPAN: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """[columns, rows] slots of the positions ``start + column``, -1 from ``count`` on."""
    inside = columns[:, None] < count[None, :]
    if SPAN <= SELECTED_BLOCKS:
        first = first_block(start, BLOCK_SIZE)
        shift = shifts[0][None, :]
        for i in tl.static_range(1, SPAN):
            begin = (first + i) * BLOCK_SIZE - start
            shift = tl.where(columns[:, None] >= begin[None, :], shifts[i][None, :], shift)
        entry = columns[:, None] + shift
    else:
        position = (start[None, :] + columns[:, None]).to(tl.uint32)
        block = load_blocks(table_row[None, :], (position // BLOCK_SIZE).to(tl.int32), inside, BLOCK_SIZE)
        entry = block * BLOCK_SIZE + (position % BLOCK_SIZE).to(tl.int32)
    return tl.where(inside, entry, -1)
