"""Random cases from a seed: the same seed and setup give the same case on every machine."""

from __future__ import annotations

import random
from dataclasses import dataclass

from onelaunch.groups import WindowGroup
from onelaunch.proof.cases import INT32_MAX, Blocks, Case, GroupCase, Request
from onelaunch.proof.features import LONG

_STALE = (0, -7, 1, INT32_MAX, -INT32_MAX - 1, 123_456_789)  # what a padding request's seq_len may hold
_MOST_ROWS = 8  # rows of a request: a 7-token draft and its verification


@dataclass(frozen=True, slots=True)
class Setup:
    """What a builder is made of, and so what cases on one builder share."""

    groups: tuple[WindowGroup, ...]
    max_tokens: int
    max_requests: int


def _target(number: int, **changes: int | bool) -> WindowGroup:
    fields: dict[str, int | bool] = {"window": 128, "block_size": 64, **changes}
    return WindowGroup(f"swa.{number}", **fields)  # type: ignore[arg-type]


def _draft(number: int, **changes: int | bool) -> WindowGroup:
    fields: dict[str, int | bool] = {"window": 128, "block_size": 64, "draft_tokens": 6, **changes}
    return WindowGroup(f"draft.{number}", causal=False, **fields)  # type: ignore[arg-type]


# A bounded set, as every new combination of groups is a new kernel to compile on a GPU.
_GROUPS: tuple[tuple[WindowGroup, ...], ...] = (
    tuple(_target(i, block_size=size) for i, size in enumerate((64, 64, 128, 256))),
    tuple(_draft(i) for i in range(3)),
    (*(_target(i) for i in range(4)), *(_draft(i) for i in range(3))),
    (_target(0, ragged=False), _draft(0, ragged=False)),
    (_target(0, make_slots=True), _target(1, window=100, block_size=48), _draft(0, make_slots=True)),
    (_target(0, window=1, block_size=16), _target(1, window=7, block_size=16, ragged=False)),
    (_target(0, window=127, block_size=96), _target(1, window=129, block_size=32, make_slots=True)),
    # 60 + 4 is just the width of 64: the eight rows of a longer block pass it.
    (
        _draft(0, window=60, draft_tokens=4, block_size=16),
        _draft(1, window=130, draft_tokens=7, block_size=80),
    ),
    (_target(0, window=512, block_size=128), _draft(0, window=512, draft_tokens=1, block_size=128)),
    (
        _target(0, window=200, block_size=32, ragged=False, make_slots=True),
        _target(1, window=33, block_size=96),
    ),
    (_target(0, window=64, block_size=16), _draft(0, window=64, draft_tokens=8, block_size=16, ragged=False)),
    (_target(0, window=1000, block_size=112),),
)


def setups(*, large: bool) -> tuple[Setup, ...]:
    """Builders to draw cases for. Large ones take 4,096 rows, small ones what an interpreter can bear."""
    if large:
        capacities = ((4096, 1024), (1536, 256), (4096, 4096), (513, 512))
        return tuple(Setup(groups, *capacities[i % 4]) for i, groups in enumerate(_GROUPS))
    # Two groups show what three do, in less of the interpreter's time. 512 columns would take too much of it.
    few = [(groups[0], groups[-1])[: len(groups)] for groups in _GROUPS]
    bearable = [groups for groups in few if all(group.window <= 200 for group in groups)]
    return tuple(Setup(groups, *((24, 8), (24, 24), (56, 10))[i % 3]) for i, groups in enumerate(bearable))


def random_case(seed: int, setup: Setup | None = None, *, num_tokens: int | None = None) -> Case:
    """A case from a seed.

    Args:
        seed: with the setup, decides everything.
        setup: the builder's groups and capacities; drawn from the small ones when None.
        num_tokens: T, up to ``setup.max_tokens``; drawn when None.
    """
    rng = random.Random(f"case {seed}")
    setup = rng.choice(setups(large=False)) if setup is None else setup
    if num_tokens is None:
        edge = (0, 1, setup.max_tokens)
        spread = int(setup.max_tokens ** rng.random())  # as many of 10 rows as of 100 or 1,000
        num_tokens = rng.choice(edge) if rng.random() < 0.1 else spread
    counts = _row_counts(rng, num_tokens, setup.max_requests)
    requests = _requests(rng, counts, setup)
    rows = sum(counts)
    return Case(
        requests=requests,
        groups=tuple(_group_case(rng, group, requests, rows, num_tokens) for group in setup.groups),
        num_tokens=num_tokens,
        max_tokens=setup.max_tokens,
        max_requests=setup.max_requests,
    )


def random_sequence(seed: int, setup: Setup) -> list[Case]:
    """Steps for one builder, each a chance for the one before to show through: large, small, empty, large,
    and then several small ones."""
    most = setup.max_tokens
    sizes = (most, min(3, most), 0, most - most // 5, *[min(12, most)] * 3)
    return [random_case(seed * 100 + i, setup, num_tokens=size) for i, size in enumerate(sizes)]


def _row_counts(rng: random.Random, num_tokens: int, max_requests: int) -> list[int]:
    """Rows of each request, zeros last; their sum is at most ``num_tokens``."""
    form = rng.choice(("equal", "unequal", "unbalanced"))
    rows = num_tokens if rng.random() < 0.5 else rng.randint(0, num_tokens)
    equal = rng.randint(1, _MOST_ROWS)
    counts: list[int] = []
    while rows > 0 and len(counts) < max_requests:
        count = equal if form == "equal" else rng.randint(1, _MOST_ROWS)
        if count > rows and form == "equal":
            break  # the rest becomes padding, as a graph's size is rarely a multiple
        counts.append(min(count, rows))
        rows -= counts[-1]
    room = max_requests - len(counts)
    if form == "unbalanced":
        # As many requests as rows: a build that tells decode steps by that must still look at the ranges.
        return counts + [0] * min(max(num_tokens - len(counts), 0), room)
    return counts + [0] * (rng.randint(0, min(room, 5)) if rng.random() < 0.5 else 0)


def _requests(rng: random.Random, counts: list[int], setup: Setup) -> tuple[Request, ...]:
    replay = rng.random() < 0.4
    stale = rng.random() < 0.1
    windows = [group.window for group in setup.groups]

    def seq_len(count: int) -> int:
        if not count:
            return rng.choice(_STALE)
        kind = rng.random()
        if stale and kind < 0.3:
            return rng.randint(0, count)
        if kind < 0.3:
            return count + rng.randint(0, 64)
        if kind < 0.55:
            return max(count, rng.choice(windows) + rng.randint(-1, 1) + rng.choice((0, 0, count)))
        if kind < 0.85:
            return count + rng.randint(0, 8192)
        return LONG + rng.choice((0, 0, 1, -1, rng.randint(0, 200)))

    def replay_start(length: int) -> int | None:
        if not replay or rng.random() < 0.3:
            return None
        if rng.random() < 0.7:
            return min(max(length - rng.randint(1, max(windows)), 0), INT32_MAX)
        return rng.choice((-1, 0, max(length, 0), max(length - 1, 0), INT32_MAX))

    made = []
    for count in counts:
        length = seq_len(count)
        made.append(Request(count, length, replay_start(length)))
    return tuple(made)


def _group_case(
    rng: random.Random, group: WindowGroup, requests: tuple[Request, ...], rows: int, num_tokens: int
) -> GroupCase:
    size = group.block_size
    longest = max((request.seq_len for request in requests if request.query_len), default=1)
    columns = max(-(-longest // size), 1) + rng.choice((0, 0, 3))
    if rng.random() < 0.2:
        lengths = [request.seq_len for request in requests if request.query_len] or [1]
        columns = max(rng.choice(lengths) // size - rng.randint(0, 2), 1)  # cuts some request's window
    limit = (INT32_MAX + 1) // size  # blocks below it end below 2^31
    low, high = rng.choice(((1, 5000), (1, limit), (limit - 300, limit)))
    # The null block and no block: rare, common, or all there is.
    null, none = rng.choice(((0, 0), (0.2, 0), (0, 0.2), (0.2, 0.2), (0, 0), (0.5, 0.5)))
    negative = rng.choice((-1, -1, -7, -INT32_MAX - 1))

    def block() -> int:
        draw = rng.random()
        return 0 if draw < null else negative if draw < null + none else rng.randrange(low, high)

    layout = GroupCase(group, columns, ())

    def listed(request: Request) -> Blocks:
        start, end = layout.span(request)
        if start >= end:
            return Blocks()
        first, last = start // size, min((end - 1) // size, columns - 1)
        return Blocks(first, tuple(block() for _ in range(first, last + 1)))

    share = rng.choice((0, 0, 0, 0, 0.1, 0.1, 0.5, 1))
    invalid = {row for row in range(rows) if rng.random() < share}
    if not group.causal and rng.random() < 0.3:
        ends = 0
        for request in requests:  # a draft block that runs past the model's longest sequence
            ends += request.query_len
            if request.query_len and rng.random() < 0.2:
                invalid.update(range(ends - rng.randint(1, request.query_len), ends))
    stale = rng.choice((0, 0.5, 1))
    own = not group.make_slots
    return GroupCase(
        group=group,
        columns=columns,
        tables=tuple(listed(request) for request in requests),
        filler=rng.choice((0, -1, 4999)),
        stride_padding=rng.choice((0, 0, 5)),
        spare_rows=rng.choice((0, 2)),
        # A slot of 2^32 - 8 is no index of a cache, but says that all 64 bits are compared.
        slot_base=rng.choice((0, 1000, INT32_MAX - 8, 2**32 - 8)) if own else 0,
        invalid_rows=tuple(sorted(invalid)) if own else (),
        stale_rows=tuple(r for r in range(rows, num_tokens) if rng.random() < stale) if own else (),
    )
