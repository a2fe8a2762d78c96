"""The metadata's definition as plain Python loops over ints: independent of the package's reference.

Written from the definition alone (docs/metadata.md): no tensor operation computes anything here, tensors are
only turned into lists and back. One entry at a time, so that every formula can be read off.
"""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup


@dataclass
class GroupTruth:
    """What a reader of one group may read. ``indices`` holds the T built rows, ``ragged`` up to indptr[T]."""

    is_valid: list[bool]
    lengths: list[int]
    indices: list[list[int]]
    ragged: list[int]
    indptr: list[int]
    slots: list[int]


def slot_of(table_row: list[int], position: int, block_size: int) -> int:
    """The cache slot of a position: -1 past the table, negative where the block is."""
    if position < 0 or position >= len(table_row) * block_size:
        return -1
    block = max(table_row[position // block_size], -(2**31 // block_size))  # its slots must fit in int32
    return block * block_size + position % block_size


def request_of(row: int, query_start_loc: list[int]) -> int | None:
    """The request whose range holds the row; None for a row past every range."""
    for request in range(len(query_start_loc) - 1):
        if query_start_loc[request] <= row < query_start_loc[request + 1]:
            return request
    return None


def token_to_request(query_start_loc: list[int], num_tokens: int) -> list[int]:
    owners = [request_of(row, query_start_loc) for row in range(num_tokens)]
    return [0 if owner is None else owner for owner in owners]


def build_group(
    group: WindowGroup,
    query_start_loc: list[int],
    seq_lens: list[int],
    replay_start: list[int] | None,
    num_tokens: int,
    max_tokens: int,
    block_table: list[list[int]],
    slot_mapping: list[int] | None,
) -> GroupTruth:
    """One group's outputs; ``slot_mapping`` is None for a group that makes its slots."""
    owners = [request_of(row, query_start_loc) for row in range(num_tokens)]

    def position_of(row: int, request: int) -> int:
        start, end = query_start_loc[request], query_start_loc[request + 1]
        return seq_lens[request] - (end - start) + (row - start)

    if slot_mapping is None:
        slot_mapping = []
        for row, request in enumerate(owners):
            if request is None:
                slot_mapping.append(-1)
            else:
                slot = slot_of(block_table[request], position_of(row, request), group.block_size)
                slot_mapping.append(max(slot, -1))

    truth = GroupTruth([], [], [], [], [0], slot_mapping)
    for row, request in enumerate(owners):
        valid = slot_mapping[row] >= 0
        truth.is_valid.append(valid)
        entries: list[int] = []
        length = 0
        if valid and request is not None:
            rows = query_start_loc[request + 1] - query_start_loc[request]
            if group.causal:
                position = position_of(row, request)
                floor = 0 if replay_start is None else replay_start[request]
                start, end = max(position - (group.window - 1), 0, floor), position + 1
            else:
                prefix = seq_lens[request] - rows
                start, end = max(prefix - group.window, 0), seq_lens[request]
            length = max(end - start, 0)
            for entry in range(min(length, group.width)):
                entries.append(slot_of(block_table[request], start + entry, group.block_size))
        kept = [entry for entry in entries if entry >= 0]
        truth.lengths.append(length)
        truth.indices.append(entries + [-1] * (group.width - len(entries)))
        truth.ragged.extend(kept)
        truth.indptr.append(truth.indptr[-1] + len(kept))
    truth.lengths.extend([0] * (max_tokens - num_tokens))
    return truth


def check_step(
    builder: StepBuilder, step, batch: DecodeBatch, inputs: dict[str, GroupInputs], poison: int
) -> None:
    """Assert that every output of a build is what the definition says, on buffers that held ``poison``."""
    query_start_loc, seq_lens = batch.query_start_loc.tolist(), batch.seq_lens.tolist()
    replay_start = None if batch.replay_start is None else batch.replay_start.tolist()
    num_tokens = batch.num_tokens
    assert step.token_to_request.tolist() == token_to_request(query_start_loc, num_tokens)
    for group in builder.groups:
        given = inputs[group.name]
        whole = builder.buffers(group.name)
        truth = build_group(
            group,
            query_start_loc,
            seq_lens,
            replay_start,
            num_tokens,
            whole.lengths.numel(),
            given.block_table.tolist(),
            None if given.slot_mapping is None else given.slot_mapping.tolist(),
        )
        got = step[group.name]
        assert got.is_valid.tolist() == truth.is_valid, group
        assert whole.lengths.tolist() == truth.lengths, group
        assert got.indices.tolist() == [[row] for row in truth.indices], group
        assert bool((whole.indices[num_tokens:] == poison).all()), f"{group}: a row from T on was written"
        if group.ragged:
            assert got.ragged_indptr.tolist() == truth.indptr, group
            assert got.ragged_indices.tolist()[: truth.indptr[-1]] == truth.ragged, group
        else:
            assert got.ragged_indptr is None and got.ragged_indices is None, group
        if group.make_slots:
            assert got.slot_mapping.tolist() == truth.slots, group


@dataclass
class TopkTruth:
    """What a reader of a packed top-k may read: ``ragged`` up to indptr[T]."""

    ragged: list[int]
    indptr: list[int]
    lengths: list[int]


def pack_topk(
    topk_indices: list[list[int]],
    token_to_request: list[int],
    is_valid: list[bool],
    block_table: list[list[int]],
    block_size: int,
) -> TopkTruth:
    truth = TopkTruth([], [0], [])
    for row, entries in enumerate(topk_indices):
        length = 0
        if is_valid[row]:
            for entry in entries:
                if entry >= 0:
                    length += 1
        for entry in entries[:length]:
            truth.ragged.append(slot_of(block_table[token_to_request[row]], entry, block_size))
        truth.lengths.append(length)
        truth.indptr.append(truth.indptr[-1] + length)
    return truth
