"""A batch of the engine, read back from the device as a case that ``onelaunch verify --case`` replays."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onelaunch.batch import DecodeBatch
from onelaunch.builder import StepBuilder
from onelaunch.groups import WindowGroup
from onelaunch.proof.cases import Blocks, Case, GroupCase, Request
from onelaunch.vllm_plugin.window import Member


def case_of(builder: StepBuilder, batch: DecodeBatch, members: Sequence[Member]) -> Case | None:
    """The case of a batch that ``builder`` has built; None if the batch is none that a case can hold."""
    try:
        starts, lengths = batch.query_start_loc.tolist(), batch.seq_lens.tolist()
        replay = [None] * len(lengths) if batch.replay_start is None else batch.replay_start.tolist()
        requests = tuple(
            Request(end - start, length, at if end > start else None)
            for start, end, length, at in zip(starts, starts[1:], lengths, replay, strict=False)
        )
        return Case(
            requests=requests,
            groups=tuple(
                _group_case(group, member, requests, starts[-1])
                for group, member in zip(builder.groups, members, strict=True)
            ),
            num_tokens=batch.num_tokens,
            max_tokens=builder.max_tokens,
            max_requests=builder.max_requests,
        )
    except ValueError:
        return None


def _group_case(group: WindowGroup, member: Member, requests: tuple[Request, ...], rows: int) -> GroupCase:
    table, slots = member.inputs.block_table, member.inputs.slot_mapping
    assert slots is not None
    valid = (slots >= 0).tolist()
    layout = GroupCase(group, columns=table.shape[1], tables=())
    return GroupCase(
        group,
        columns=table.shape[1],
        tables=tuple(_listed(layout, table[i], request) for i, request in enumerate(requests)),
        # Only the sign of a slot decides, so the slots themselves are numbered anew.
        invalid_rows=tuple(row for row in range(rows) if not valid[row]),
        stale_rows=tuple(row for row in range(rows, len(valid)) if valid[row]),
    )


def _listed(layout: GroupCase, row: torch.Tensor, request: Request) -> Blocks:
    """The blocks that the request's rows can reach."""
    start, end = layout.span(request)
    if start >= end:
        return Blocks()
    first, last = (
        start // layout.group.block_size,
        min((end - 1) // layout.group.block_size, layout.columns - 1),
    )
    return Blocks(first, tuple(row[first : last + 1].tolist()))
