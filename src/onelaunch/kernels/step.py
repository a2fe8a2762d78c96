"""The one-launch build: every group's metadata of a decode step, written by one kernel.

Grid (programs, groups). A row program takes ROWS consecutive rows of one group; the programs after them
zero the tail of ``lengths``. Where a program's rows start in the ragged form depends on how many entries all
earlier rows keep. Each program counts its own, exactly (negative blocks, positions past the table and
padded rows in the middle included), and the counts are summed across the programs (:mod:`.scan`) while
the dense form is being written. So the work is linear in the rows.

Per-step inputs are read by vector loads only. A scalar load goes through a cache that a host-to-device copy
may not invalidate before a graph replay (reported on MI355X: ROCm/ATOM 1434).
"""

from __future__ import annotations

from onelaunch._triton import tl, triton
from onelaunch.kernels.scan import TEAM, publish, sum_before
from onelaunch.kernels.window import row_windows, window_blocks, window_entries

# Columns of the address table, one row a group.
TABLE_COLUMNS = 8


@triton.jit
def _output(table_ptr, group, COLUMN: tl.constexpr, dtype: tl.constexpr):
    """Address of one of the group's persistent outputs. Every buffer starts on 16 bytes."""
    address = tl.load(table_ptr + group * 8 + COLUMN)
    return tl.multiple_of(address.to(tl.pointer_type(dtype)), 16)


@triton.jit
def _select(values, group, GROUPS: tl.constexpr):
    """``values[group]`` of a tuple of kernel arguments: these live in constant memory, not in a table."""
    chosen = values[0]
    for i in tl.static_range(1, GROUPS):
        if group == i:
            chosen = values[i]
    return chosen


@triton.jit
def _zero_tail(lengths_ptr, chunk, num_tokens, max_tokens, TAIL: tl.constexpr):
    """Zero the lengths past the batch in one aligned chunk of TAIL entries; the first has row T in it."""
    first = (num_tokens // TAIL + chunk) * TAIL
    entries = first + tl.arange(0, TAIL)
    zeros = tl.zeros([TAIL], tl.int32)
    if (first >= num_tokens) & (first + TAIL <= max_tokens):
        tl.store(lengths_ptr + entries, zeros)  # no mask: 16 bytes a store
    else:
        tl.store(lengths_ptr + entries, zeros, mask=(entries >= num_tokens) & (entries < max_tokens))


@triton.jit
def _store_dense(dense_row, columns, entry, in_batch, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    in_row = in_batch[None, :]
    if WIDTH % COLUMNS != 0:
        in_row = in_row & (columns < WIDTH)[:, None]
    tl.store(dense_row[None, :] + columns[:, None], entry, mask=in_row)


@triton.jit
def _store_ragged(ragged_row, columns, entry, count, holes, seen):
    """Store one chunk of each row's kept entries; returns how many the row has so far.

    A row without a hole keeps its entries in place; ranks are counted only where one has.
    """
    if holes:
        keep = (entry >= 0).to(tl.int32)
        rank = seen[None, :] + tl.cumsum(keep, axis=0) - keep
        seen += tl.sum(keep, axis=0)
        tl.store(ragged_row[None, :] + rank, entry, mask=keep > 0)
    else:
        tl.store(ragged_row[None, :] + columns[:, None], entry, mask=columns[:, None] < count[None, :])
    return seen


@triton.jit
def _build_rows(
    is_valid_ptr,
    indices_ptr,
    lengths_ptr,
    slots_ptr,
    table_ptr,
    words_ptr,
    max_teams,
    group,
    program,
    programs,
    token_to_request_ptr,
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
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
    MAKE_SLOTS: tl.constexpr,
    SPAN: tl.constexpr,
    KEPT: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ONE_TEAM: tl.constexpr,
    AMD: tl.constexpr,
):
    first_row = program * ROWS
    rows = first_row + tl.arange(0, ROWS)
    in_batch = rows < num_tokens
    request, slot, start, length = row_windows(
        rows,
        first_row,
        tl.minimum(first_row + ROWS, num_tokens) - 1,
        query_start_loc_ptr,
        seq_lens_ptr,
        replay_start_ptr,
        num_tokens,
        num_requests,
        block_table_ptr,
        block_table_stride,
        num_blocks,
        slot_mapping_ptr,
        WINDOW,
        BLOCK_SIZE,
        CAUSAL,
        MAKE_SLOTS,
        REQUESTS,
    )
    table_row = block_table_ptr + tl.maximum(request, 0).to(tl.int64) * block_table_stride
    # A table may reach past every position that int32 holds.
    table_end = tl.where(num_blocks > 2147483647 // BLOCK_SIZE, 2147483647, num_blocks * BLOCK_SIZE)
    # Entries of the row that have a block at all: below the width, and in the table.
    count = tl.maximum(tl.minimum(tl.minimum(length, WIDTH), table_end - start), 0)

    kept, shifts = window_blocks(table_row, start, count, SPAN, BLOCK_SIZE)
    if RAGGED:
        generation = publish(words_ptr, program, programs, tl.sum(kept), max_teams, ONE_TEAM, AMD)

    tl.store(lengths_ptr + rows, length, mask=in_batch)
    tl.store(is_valid_ptr + rows, (slot >= 0).to(tl.int8), mask=in_batch)
    if MAKE_SLOTS:
        tl.store(slots_ptr + rows, slot, mask=in_batch)
    if group == 0:
        tl.store(token_to_request_ptr + rows, tl.maximum(request, 0), mask=in_batch)

    dense_row = indices_ptr + rows.to(tl.int64) * WIDTH
    made = ()
    if KEPT:
        for first_column in tl.static_range(0, WIDTH, COLUMNS):
            columns = first_column + tl.arange(0, COLUMNS)
            entry = window_entries(columns, table_row, start, count, shifts, SPAN, BLOCK_SIZE)
            _store_dense(dense_row, columns, entry, in_batch, WIDTH, COLUMNS)
            made = made + (entry,)
    else:
        for first_column in tl.range(0, WIDTH, COLUMNS):
            columns = first_column + tl.arange(0, COLUMNS)
            entry = window_entries(columns, table_row, start, count, shifts, SPAN, BLOCK_SIZE)
            _store_dense(dense_row, columns, entry, in_batch, WIDTH, COLUMNS)

    if RAGGED:
        # Loaded while the counts of others are awaited, and not before: registers are short.
        ragged_ptr = _output(table_ptr, group, 3, tl.int32)
        indptr_ptr = _output(table_ptr, group, 4, tl.int32)
        before = sum_before(words_ptr, program, programs, generation, max_teams, ONE_TEAM, AMD)
        ends = before + tl.cumsum(kept, axis=0)
        tl.store(indptr_ptr + 1 + rows, ends, mask=in_batch)
        tl.store(indptr_ptr + rows, tl.zeros([ROWS], tl.int32), mask=rows == 0)
        holes = tl.max(count - kept) > 0
        ragged_row = ragged_ptr + (ends - kept)
        seen = tl.zeros([ROWS], tl.int32)
        if KEPT:
            for i in tl.static_range(0, (WIDTH + COLUMNS - 1) // COLUMNS):
                columns = i * COLUMNS + tl.arange(0, COLUMNS)
                seen = _store_ragged(ragged_row, columns, made[i], count, holes, seen)
        else:
            for first_column in tl.range(0, WIDTH, COLUMNS):
                columns = first_column + tl.arange(0, COLUMNS)
                entry = window_entries(columns, table_row, start, count, shifts, SPAN, BLOCK_SIZE)
                seen = _store_ragged(ragged_row, columns, entry, count, holes, seen)


@triton.jit
def build_step_kernel(
    table_ptr,
    words_ptr,
    token_to_request_ptr,
    query_start_loc_ptr,
    seq_lens_ptr,
    replay_start_ptr,
    num_tokens,
    num_requests,
    max_tokens,
    max_teams,
    block_tables,
    block_table_strides,
    block_table_columns,
    slot_mappings,
    GROUPS: tl.constexpr,
    KIND_OF_GROUP: tl.constexpr,
    KINDS: tl.constexpr,
    NUM_KINDS: tl.constexpr,
    ROWS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ONE_TEAM: tl.constexpr,
    TAIL: tl.constexpr,
    DEPENDENT_LAUNCH: tl.constexpr,
    EARLY: tl.constexpr,
    AMD: tl.constexpr,
):
    """All outputs of ``docs/metadata.md`` for ``GROUPS`` groups.

    table_ptr: [GROUPS, 8] int64, addresses of the groups' persistent buffers.
    words_ptr: [GROUPS, num_words(max_teams)] int64, the scan's words.
    block_tables, block_table_strides, block_table_columns, slot_mappings: one entry a group.
    KINDS: the distinct (window, width, block_size, causal, ragged, make_slots, span, kept, columns) of the
        groups; code is compiled once a kind. ``kept``: entries wait in registers for their place in the
        ragged form, else they are made a second time. ``columns``: entries of a row made at once.
    """
    program = tl.program_id(0)
    group = tl.program_id(1)
    is_valid_ptr = _output(table_ptr, group, 0, tl.int8)
    indices_ptr = _output(table_ptr, group, 1, tl.int32)
    lengths_ptr = _output(table_ptr, group, 2, tl.int32)
    slots_ptr = _output(table_ptr, group, 5, tl.int64)
    if DEPENDENT_LAUNCH:
        # Started while the kernel ahead was still running: everything it writes is there from here on.
        tl.extra.cuda.gdc_wait()
        if EARLY:
            tl.extra.cuda.gdc_launch_dependents()
    programs = tl.maximum(tl.cdiv(num_tokens, ROWS), 1)
    if program >= programs:
        _zero_tail(lengths_ptr, program - programs, num_tokens, max_tokens, TAIL)
    else:
        kind_of_group = group * 0
        for i in tl.static_range(GROUPS):
            kind_of_group = tl.where(group == i, KIND_OF_GROUP[i], kind_of_group)
        for kind in tl.static_range(NUM_KINDS):
            if kind_of_group == kind:
                _build_rows(
                    is_valid_ptr,
                    indices_ptr,
                    lengths_ptr,
                    slots_ptr,
                    table_ptr,
                    words_ptr + group * (1 + max_teams * (2 + TEAM)),
                    max_teams,
                    group,
                    program,
                    programs,
                    token_to_request_ptr,
                    query_start_loc_ptr,
                    seq_lens_ptr,
                    replay_start_ptr,
                    num_tokens,
                    num_requests,
                    _select(block_tables, group, GROUPS),
                    _select(block_table_strides, group, GROUPS),
                    _select(block_table_columns, group, GROUPS),
                    _select(slot_mappings, group, GROUPS),
                    KINDS[kind][0],
                    KINDS[kind][1],
                    KINDS[kind][2],
                    KINDS[kind][3],
                    KINDS[kind][4],
                    KINDS[kind][5],
                    KINDS[kind][6],
                    KINDS[kind][7],
                    KINDS[kind][8],
                    ROWS,
                    REQUESTS,
                    ONE_TEAM,
                    AMD,
                )
