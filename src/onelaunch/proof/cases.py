"""A case: one batch, written out, small enough to read and to keep in a file.

A case holds what a failure needs to be seen again and nothing else. Block tables are sparse: of each request
only the blocks that its rows can reach are listed, every other entry is the group's ``filler``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.checks import check_int
from onelaunch.groups import WindowGroup

INT32_MAX = 2**31 - 1


def check_int32(name: str, values: Iterable[int]) -> None:
    """Each of ``values`` fits in int32; ValueError names the one that does not."""
    for value in values:
        check_int(name, value, -INT32_MAX - 1, INT32_MAX)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a batch.

    Attributes:
        query_len: its rows; 0 makes it padding, and then ``seq_len`` may be any int32.
        seq_len: its tokens, this step's included.
        replay_start: no window KV exists below this position; None counts as 0.

    Raises:
        ValueError: naming the field that is out of range.
    """

    query_len: int
    seq_len: int
    replay_start: int | None = None

    def __post_init__(self) -> None:
        check_int("query_len", self.query_len, 0, INT32_MAX)
        check_int32("seq_len", [self.seq_len])
        check_int32("replay_start", [self.replay_start or 0])


@dataclass(frozen=True, slots=True)
class Blocks:
    """A request's listed part of a block table: logical block ``first + i`` is ``blocks[i]``."""

    first: int = 0
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_int("first", self.first, 0, INT32_MAX)
        check_int32("blocks", self.blocks)


@dataclass(frozen=True, slots=True)
class GroupCase:
    """One group of a case, and its inputs.

    Attributes:
        group: the window group.
        columns: B, columns of the block table.
        tables: listed blocks of each request; those at or past ``columns`` are not stored.
        filler: every other entry of the table.
        stride_padding: entries between the table's rows, so that its row stride is not B.
        spare_rows: rows of the table past the last request's.
        slot_base: slot of row 0; row t's is ``slot_base + t``. Unused by a group that makes its slots, like
            the two below.
        invalid_rows: rows of requests whose slot is -1.
        stale_rows: padding rows whose slot is not -1 but left over from an earlier step.

    Raises:
        ValueError: naming the field that is out of range.
    """

    group: WindowGroup
    columns: int
    tables: tuple[Blocks, ...]
    filler: int = 0
    stride_padding: int = 0
    spare_rows: int = 0
    slot_base: int = 0
    invalid_rows: tuple[int, ...] = ()
    stale_rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in ("columns", "stride_padding", "spare_rows"):
            check_int(field, getattr(self, field), 0, INT32_MAX)
        check_int32("filler", [self.filler])
        check_int("slot_base", self.slot_base, -(2**63), 2**63 - 1 - INT32_MAX)  # a row's is added to it

    def block(self, request: int, logical: int) -> int | None:
        """Physical block of a logical one; None at or past the table's last column."""
        if logical >= self.columns:
            return None
        listed = self.tables[request]
        offset = logical - listed.first
        return listed.blocks[offset] if 0 <= offset < len(listed.blocks) else self.filler

    def span(self, request: Request) -> tuple[int, int]:
        """[start, end): the positions that some row of the request can reach, block or no block."""
        if not request.query_len:
            return 0, 0
        first = request.seq_len - request.query_len  # position of the request's first row
        if self.group.causal:
            start = max(first - (self.group.window - 1), request.replay_start or 0)
        else:
            start = first - self.group.window
        return max(start, 0), max(request.seq_len, 0)


@dataclass(frozen=True, slots=True)
class Case:
    """One batch for one builder.

    Attributes:
        requests: the batch's requests, padding last.
        groups: the builder's groups, each with its inputs.
        num_tokens: T, rows with padding.
        max_tokens, max_requests: the builder's capacities.

    Raises:
        ValueError: naming the field that does not fit.
    """

    requests: tuple[Request, ...]
    groups: tuple[GroupCase, ...]
    num_tokens: int
    max_tokens: int
    max_requests: int

    def __post_init__(self) -> None:
        rows = self.num_rows
        if not rows <= self.num_tokens <= self.max_tokens:
            raise ValueError(
                f"num_tokens is {self.num_tokens}: it must be from {rows}, the requests' rows, "
                f"to max_tokens = {self.max_tokens}"
            )
        if len(self.requests) > self.max_requests:
            raise ValueError(f"requests has {len(self.requests)}: it must have at most {self.max_requests}")
        for before, after in zip(self.requests, self.requests[1:], strict=False):
            if not before.query_len and after.query_len:
                raise ValueError("requests has rows after a padding request: padding must come last")
        if not self.groups:
            raise ValueError("groups is empty: a case needs at least one")
        for entry in self.groups:
            name = entry.group.name
            if len(entry.tables) != len(self.requests):
                raise ValueError(
                    f"tables of {name!r} has {len(entry.tables)} entries: it must have one for each of "
                    f"the {len(self.requests)} requests"
                )
            for field, row_range in (
                ("invalid_rows", range(rows)),
                ("stale_rows", range(rows, self.num_tokens)),
            ):
                for row in getattr(entry, field):
                    if row not in row_range:
                        raise ValueError(
                            f"{field} of {name!r} has {row}: it must be from {row_range.start} to "
                            f"{row_range.stop - 1}"
                        )

    @property
    def num_rows(self) -> int:
        """Rows of requests, padding rows not counted."""
        return sum(request.query_len for request in self.requests)

    @property
    def setup(self) -> tuple[tuple[WindowGroup, ...], int, int]:
        """What a builder for this case is made of: groups, max_tokens, max_requests."""
        return tuple(entry.group for entry in self.groups), self.max_tokens, self.max_requests

    def rows(self) -> Iterator[range]:
        """Row range of each request."""
        start = 0
        for request in self.requests:
            yield range(start, start + request.query_len)
            start += request.query_len

    def batch(self, device: torch.device | str) -> DecodeBatch:
        """The batch on ``device``. ``replay_start`` is None when no request has one."""

        def int32(values: list[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int32, device=device)

        starts = [request.replay_start for request in self.requests]
        return DecodeBatch(
            query_start_loc=int32([0, *(rows.stop for rows in self.rows())]),
            seq_lens=int32([request.seq_len for request in self.requests]),
            num_tokens=self.num_tokens,
            replay_start=None if all(start is None for start in starts) else int32([s or 0 for s in starts]),
        )

    def inputs(self, device: torch.device | str) -> dict[str, GroupInputs]:
        """Each group's inputs on ``device``, by group name."""
        return {
            entry.group.name: GroupInputs(self._block_table(entry, device), self._slot_mapping(entry, device))
            for entry in self.groups
        }

    def _block_table(self, entry: GroupCase, device: torch.device | str) -> torch.Tensor:
        """[R + spare_rows, B] int32. Made on the device: a table of many long requests is mostly filler."""
        stride = entry.columns + entry.stride_padding
        rows = len(self.requests) + entry.spare_rows
        # The filler stands between the rows too: a read there shows as a wrong slot, not as a fault.
        whole = torch.full((rows, stride), entry.filler, dtype=torch.int32, device=device)
        places: list[int] = []
        blocks: list[int] = []
        for request, listed in enumerate(entry.tables):
            kept = listed.blocks[: max(entry.columns - listed.first, 0)]
            places.extend(range(request * stride + listed.first, request * stride + listed.first + len(kept)))
            blocks.extend(kept)
        if blocks:
            values = torch.tensor(blocks, dtype=torch.int32, device=device)
            whole.view(-1)[torch.tensor(places, device=device)] = values
        return whole[:, : entry.columns]

    def _slot_mapping(self, entry: GroupCase, device: torch.device | str) -> torch.Tensor | None:
        """[T] int64, or None for a group that makes its slots."""
        if entry.group.make_slots:
            return None
        slots = [entry.slot_base + row for row in range(self.num_tokens)]
        stale = set(entry.stale_rows)
        for row in (
            *entry.invalid_rows,
            *(r for r in range(self.num_rows, self.num_tokens) if r not in stale),
        ):
            slots[row] = -1
        return torch.tensor(slots, dtype=torch.int64, device=device)

    def with_groups(self, groups: tuple[GroupCase, ...]) -> Case:
        return dataclasses.replace(self, groups=groups)
