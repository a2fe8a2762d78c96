"""A failing case made small: tries simpler ones, keeps each that still fails, until none does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from onelaunch.proof.case_file import AnyCase
from onelaunch.proof.cases import Blocks, Case, GroupCase, Request
from onelaunch.proof.topk_cases import TopkCase

_T = TypeVar("_T")


def shrink(
    steps: Sequence[AnyCase],
    fails: Callable[[list[AnyCase]], bool],
    *,
    max_trials: int = 400,
    max_seconds: float = 60,
) -> list[AnyCase]:
    """The smallest steps found that still fail.

    Args:
        steps: steps that fail, for one builder.
        fails: whether steps fail; called once a trial.
        max_trials, max_seconds: when to be content with what was found.
    """
    smallest, deadline, trials = list(steps), time.monotonic() + max_seconds, 0
    progress = True
    while progress:
        progress = False
        for simpler in _simpler(smallest):
            if trials >= max_trials or time.monotonic() > deadline:
                return smallest
            trials += 1
            if fails(simpler):
                smallest, progress = simpler, True
                break  # start over: the large cuts come first
    return smallest


def _simpler(steps: list[AnyCase]) -> Iterator[list[AnyCase]]:
    """Steps one change simpler than these, large cuts first."""
    for first in range(len(steps) - 1, 0, -1):
        yield steps[first:]
    for i in range(len(steps) - 1):
        yield steps[:i] + steps[i + 1 :]
    cases = [step for step in steps if isinstance(step, Case)]
    if len(cases) == len(steps):  # steps share their builder: groups go in all of them at once
        names = [entry.group.name for entry in cases[0].groups]
        for kept in _parts(names):
            yield [
                replace(case, groups=tuple(entry for entry in case.groups if entry.group.name in kept))
                for case in cases
            ]
    for i, step in enumerate(steps):
        changes = (
            _simpler_topk(step) if isinstance(step, TopkCase) else _simpler_case(step, alone=len(steps) == 1)
        )
        for change in changes:
            if change != step:
                yield [*steps[:i], change, *steps[i + 1 :]]


def _parts(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Non-empty parts of a sequence, small ones first: without a half, a quarter, ... one of it."""
    size = len(items)
    while size > 1:
        size = -(-size // 2)
        for first in range(0, len(items), size):
            yield [*items[:first], *items[first + size :]]


def _simpler_case(case: Case, *, alone: bool) -> Iterator[Case]:
    if len(case.requests) == 1:
        yield _keep_requests(case, ())
    for kept in _parts(range(len(case.requests))):
        yield _keep_requests(case, kept)
    yield _keep_padding(case, ())
    for kept in _parts(range(case.num_rows, case.num_tokens)):
        yield _keep_padding(case, kept)
    if alone:  # another capacity is another builder
        yield replace(case, max_tokens=max(case.num_tokens, 1))
        yield replace(case, max_requests=len(case.requests))
    for i, request in enumerate(case.requests):
        for simpler in _simpler_request(request, [entry.group.window for entry in case.groups]):
            yield _change_request(case, i, simpler)
    for i, entry in enumerate(case.groups):
        for change in _simpler_group(entry):
            yield replace(case, groups=(*case.groups[:i], change, *case.groups[i + 1 :]))


def _simpler_request(request: Request, windows: list[int]) -> Iterator[Request]:
    if request.replay_start is not None:
        yield replace(request, replay_start=None)
    if not request.query_len:
        yield replace(request, seq_len=0)
        return
    if request.query_len > 1:
        yield replace(request, query_len=1)
        yield replace(request, query_len=request.query_len - 1)
    for shorter in sorted(
        {request.query_len, *(w + 1 for w in windows), *(request.seq_len // d for d in (64, 8, 2))}
    ):
        if request.query_len <= shorter < request.seq_len:
            yield replace(request, seq_len=shorter)


def _simpler_group(entry: GroupCase) -> Iterator[GroupCase]:
    plain = replace(entry, stride_padding=0, spare_rows=0, slot_base=0, filler=0)
    yield plain
    yield replace(entry, stride_padding=0, spare_rows=0)
    yield replace(entry, slot_base=0)
    yield replace(entry, filler=0)
    for rows in _parts(entry.invalid_rows):
        yield replace(entry, invalid_rows=tuple(rows))
    yield replace(entry, invalid_rows=())
    for rows in _parts(entry.stale_rows):
        yield replace(entry, stale_rows=tuple(rows))
    yield replace(entry, stale_rows=())
    # Blocks that can be told apart by eye, and a table that has them all.
    yield replace(
        entry,
        columns=max([1, *(listed.first + len(listed.blocks) for listed in entry.tables)]),
        tables=tuple(
            Blocks(listed.first, tuple(10 * request + i + 1 for i in range(len(listed.blocks))))
            for request, listed in enumerate(entry.tables)
        ),
    )
    yield replace(
        entry, columns=max([1, *(min(entry.columns, t.first + len(t.blocks)) for t in entry.tables)])
    )


def _keep_requests(case: Case, kept: Iterable[int]) -> Case:
    """The case with these requests only, and its padding rows."""
    kept = tuple(kept)
    ranges = list(case.rows())
    order = [row for i in kept for row in ranges[i]] + list(range(case.num_rows, case.num_tokens))
    return _renumber(
        case,
        order,
        requests=tuple(case.requests[i] for i in kept),
        tables=[tuple(entry.tables[i] for i in kept) for entry in case.groups],
    )


def _keep_padding(case: Case, kept: Iterable[int]) -> Case:
    """The case with these of its padding rows only."""
    order = [*range(case.num_rows), *kept]
    return _renumber(case, order, requests=case.requests, tables=[entry.tables for entry in case.groups])


def _change_request(case: Case, number: int, request: Request) -> Case:
    """The case with another request in one place. Its blocks move with the end of its sequence."""
    ranges, old = list(case.rows()), case.requests[number]
    order = [
        row
        for i, rows in enumerate(ranges)
        for row in (rows[len(rows) - request.query_len :] if i == number and old.query_len else rows)
    ] + list(range(case.num_rows, case.num_tokens))
    tables = []
    for entry in case.groups:
        size, (start, end) = entry.group.block_size, entry.span(request)
        first, last = start // size, (end - 1) // size
        listed = entry.tables[number].blocks[: max(entry.columns - entry.tables[number].first, 0)]
        count = max(last - first + 1, 0) if end > start else 0
        moved = Blocks(first, listed[-count:] if count else ())
        tables.append((*entry.tables[:number], moved, *entry.tables[number + 1 :]))
    requests = (*case.requests[:number], request, *case.requests[number + 1 :])
    return _renumber(case, order, requests=requests, tables=tables)


def _renumber(
    case: Case, order: list[int], *, requests: tuple[Request, ...], tables: list[tuple[Blocks, ...]]
) -> Case:
    """The case with the rows of ``order`` only, its row lists renumbered."""
    place = {row: i for i, row in enumerate(order)}
    return replace(
        case,
        requests=requests,
        num_tokens=len(order),
        groups=tuple(
            replace(
                entry,
                tables=table,
                invalid_rows=tuple(place[row] for row in entry.invalid_rows if row in place),
                stale_rows=tuple(place[row] for row in entry.stale_rows if row in place),
            )
            for entry, table in zip(case.groups, tables, strict=True)
        ),
    )


def _simpler_topk(case: TopkCase) -> Iterator[TopkCase]:
    padded = set(case.padded_rows)
    for kept in _parts(range(len(case.rows))):
        yield replace(
            case,
            rows=tuple(case.rows[i] for i in kept),
            token_to_request=tuple(case.token_to_request[i] for i in kept),
            padded_rows=tuple(place for place, i in enumerate(kept) if i in padded),
        )
    yield replace(case, stride_padding=0)
    yield replace(case, padded_rows=tuple(i for i in case.padded_rows if case.token_to_request[i] != 0))
    longest = max([1, *map(len, case.rows)])
    yield replace(case, topk=longest)
    for length in sorted({0, 1, longest // 2, longest - 1}):
        yield replace(case, rows=tuple(row[:length] for row in case.rows))
    used = max([0, *(r for i, r in enumerate(case.token_to_request) if i not in padded)]) + 1
    yield replace(case, block_table=case.block_table[:used])
    columns = len(case.block_table[0]) if case.block_table else 0
    for fewer in sorted({1, columns // 2, columns - 1}):
        if 0 < fewer < columns:
            yield replace(case, block_table=tuple(row[:fewer] for row in case.block_table))
