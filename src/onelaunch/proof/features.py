"""What a case covers, told from its contents alone: a generator's intentions are not evidence.

``FEATURES`` lists every name; a summary shows those that were never reached with a zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from onelaunch.proof.cases import INT32_MAX, Case, GroupCase, Request

LONG = 131_072  # tokens: the long sequences the engines in question are built for
_SHORT = 256
_NEAR_LIMIT = 65_536  # "just under 2^31": a rounding to float32 or a lost carry shows within this distance
_BLOCK_SIZES = (16, 32, 64, 128)

FEATURES = (
    "short sequence",
    "mid sequence",
    "131,072-token sequence",
    "seq_len W - 1",
    "seq_len W",
    "seq_len W + 1",
    "seq_len below query_len",
    "1 row a request",
    "8 rows a request",
    "equal rows",
    "unequal rows",
    "rows equal to requests, unbalanced",
    "over 32 rows",
    "over 1,024 rows",
    "rows not a power of two",
    "max_tokens reached",
    "padded rows",
    "padding request",
    "padding request with a stale seq_len",
    "stale slot in a padded row",
    "invalid row among valid ones",
    "draft row past the model's end",
    "no rows",
    "no requests",
    "replay start inside a window",
    "replay start past a row",
    "null block in a window",
    "no block in a window",
    "position past the table",
    "window over one block more than W / BS",
    "row longer than the width",
    "slots just under 2^31",
    *(f"block size {size}" for size in _BLOCK_SIZES),
    "block size not a power of two",
    "window not a power of two",
    "strided block table",
    "block table with spare rows",
    "causal group",
    "draft group",
    "causal and draft groups",
    "dense-only group",
    "group that makes its slots",
    "over 4 groups",
)


def features(case: Case) -> frozenset[str]:
    """Names out of :data:`FEATURES` that the case covers."""
    found = {*_of_batch(case), *_of_padding(case)}
    for entry in case.groups:
        found |= {*_of_group(entry), *_of_rows(case, entry)}
        invalid = set(entry.invalid_rows)
        for number, (request, rows) in enumerate(zip(case.requests, case.rows(), strict=True)):
            if rows and not invalid.issuperset(rows):  # a request without a valid row reaches nothing
                found |= {*_of_request(entry, request), *_of_blocks(entry, number, request)}
    kinds = {entry.group.causal for entry in case.groups}
    if len(kinds) == 2:
        found.add("causal and draft groups")
    if len(case.groups) > 4:
        found.add("over 4 groups")
    return frozenset(found)


def _of_batch(case: Case) -> Iterator[str]:
    counts = [request.query_len for request in case.requests if request.query_len]
    for request in case.requests:
        if request.query_len:
            yield (
                "131,072-token sequence"
                if request.seq_len >= LONG
                else "mid sequence"
                if request.seq_len > _SHORT
                else "short sequence"
            )
            if request.seq_len < request.query_len:
                yield "seq_len below query_len"
    for count in counts:
        if count in (1, 8):
            yield f"{count} row{'s' * (count > 1)} a request"
    if len(counts) > 1:
        yield "equal rows" if len(set(counts)) == 1 else "unequal rows"
    if case.num_tokens == len(case.requests) and len(set(counts)) > 1:
        yield "rows equal to requests, unbalanced"
    if case.num_tokens & (case.num_tokens - 1):
        yield "rows not a power of two"
    for bound in (32, 1024):
        if case.num_tokens > bound:
            yield f"over {bound:,} rows"
    if case.num_tokens == case.max_tokens:
        yield "max_tokens reached"


def _of_padding(case: Case) -> Iterator[str]:
    if not case.num_tokens:
        yield "no rows"
    if not case.requests:
        yield "no requests"
    if case.num_tokens > case.num_rows:
        yield "padded rows"
    for request in case.requests:
        if not request.query_len:
            yield "padding request"
            if request.seq_len:
                yield "padding request with a stale seq_len"


def _of_group(entry: GroupCase) -> Iterator[str]:
    group = entry.group
    if group.block_size in _BLOCK_SIZES:
        yield f"block size {group.block_size}"
    if group.block_size & (group.block_size - 1):
        yield "block size not a power of two"
    if group.window & (group.window - 1):
        yield "window not a power of two"
    if entry.stride_padding:
        yield "strided block table"
    if entry.spare_rows:
        yield "block table with spare rows"
    yield "causal group" if group.causal else "draft group"
    if not group.ragged:
        yield "dense-only group"
    if group.make_slots:
        yield "group that makes its slots"


def _of_rows(case: Case, entry: GroupCase) -> Iterator[str]:
    if entry.group.make_slots:
        return
    if entry.stale_rows and entry.slot_base >= 0:
        yield "stale slot in a padded row"
    invalid = set(entry.invalid_rows)
    for rows in case.rows() if invalid else ():
        for row in invalid.intersection(rows):
            if row + 1 < case.num_rows and row + 1 not in invalid:
                yield "invalid row among valid ones"
            if not entry.group.causal and row == rows[-1]:
                yield "draft row past the model's end"


def _of_request(entry: GroupCase, request: Request) -> Iterator[str]:
    window, first = entry.group.window, request.seq_len - request.query_len
    for offset, name in ((-1, "W - 1"), (0, "W"), (1, "W + 1")):
        if request.seq_len == window + offset:
            yield f"seq_len {name}"
    if entry.group.causal and request.replay_start:
        if request.replay_start > first:
            yield "replay start past a row"
        elif request.replay_start > first - (window - 1):
            yield "replay start inside a window"
    if not entry.group.causal and request.seq_len - max(first - window, 0) > entry.group.width:
        yield "row longer than the width"


def _of_blocks(entry: GroupCase, number: int, request: Request) -> Iterator[str]:
    block_size = entry.group.block_size
    start, end = entry.span(request)
    if start >= end:
        return
    first, last = start // block_size, (end - 1) // block_size
    # One row's window: the last row's if causal, the block's otherwise.
    low = max(end - entry.group.window, start) if entry.group.causal else start
    if end - low >= entry.group.window and last - low // block_size + 1 > -(
        -entry.group.window // block_size
    ):
        yield "window over one block more than W / BS"
    for logical in range(first, last + 1):
        block = entry.block(number, logical)
        if block is None:
            yield "position past the table"
            return
        if block == 0:
            yield "null block in a window"
        elif block < 0:
            yield "no block in a window"
        elif block * block_size + block_size > INT32_MAX - _NEAR_LIMIT:
            yield "slots just under 2^31"
