"""Cases of ``pack_topk``: one call's arguments, written out."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from onelaunch.checks import check_int
from onelaunch.proof.cases import INT32_MAX, check_int32
from onelaunch.topk import MAX_TOPK

TOPK_FEATURES = (
    "top-k",
    "top-k over 1",
    "top-k over 64",
    "top-k over 512",
    "top-k over 1024",
    "top-k not a power of two",
    "top-k no rows",
    "top-k over 512 rows",
    "top-k row",
    "top-k empty row",
    "top-k full row",
    "top-k padded row",
    "top-k stale request in a padded row",
    "top-k hole among the entries",
    "top-k entry past the table",
    "top-k entry without a block",
    "top-k slot just under 2^31",
    "top-k strided rows",
)


@dataclass(frozen=True, slots=True)
class TopkCase:
    """One call of ``onelaunch.pack_topk``.

    Attributes:
        topk: K, entries of a row.
        rows: of each row, its leading entries; the rest of the K are -1.
        token_to_request: request of each row; a padded row's may be any int32.
        padded_rows: rows with ``is_valid`` False.
        block_table: blocks of each request, all of the same number.
        block_size: compressed entries of a block.
        stride_padding: entries between the rows of both inputs, so that their row strides are not K and B.

    Raises:
        ValueError: naming the field that does not fit.
    """

    topk: int
    rows: tuple[tuple[int, ...], ...]
    token_to_request: tuple[int, ...]
    block_table: tuple[tuple[int, ...], ...]
    block_size: int
    padded_rows: tuple[int, ...] = ()
    stride_padding: int = 0

    def __post_init__(self) -> None:
        check_int("topk", self.topk, 1, MAX_TOPK)
        check_int("stride_padding", self.stride_padding, 0, INT32_MAX)
        check_int32("token_to_request", self.token_to_request)
        for field, lists in (("rows", self.rows), ("block_table", self.block_table)):
            for values in lists:
                check_int32(field, values)
        for row in self.padded_rows:
            check_int("padded_rows", row, 0, len(self.rows) - 1)
        if len(self.token_to_request) != len(self.rows):
            raise ValueError(
                f"token_to_request has {len(self.token_to_request)} entries: it must have {len(self.rows)}"
            )
        if any(len(row) > self.topk for row in self.rows):
            raise ValueError(f"rows has a row of more than topk = {self.topk} entries")
        if len({len(blocks) for blocks in self.block_table}) > 1:
            raise ValueError("block_table has rows of different lengths")
        padded = set(self.padded_rows)
        for row, request in enumerate(self.token_to_request):
            if row not in padded and not 0 <= request < len(self.block_table):
                raise ValueError(f"token_to_request[{row}] is {request}: a row that counts needs a request")

    def arguments(
        self, device: torch.device | str
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]:
        """Of ``pack_topk``: topk_indices [T, K] int32, token_to_request [T] int32, is_valid [T] bool,
        block_table [R, B] int32, block_size."""
        columns = len(self.block_table[0]) if self.block_table else 1
        valid = torch.ones(len(self.rows), dtype=torch.bool)
        valid[list(self.padded_rows)] = False
        return (
            self._matrix(self.rows, self.topk).to(device)[:, : self.topk],
            torch.tensor(self.token_to_request, dtype=torch.int32, device=device),
            valid.to(device),
            self._matrix(self.block_table, columns).to(device)[:, :columns],
            self.block_size,
        )

    def _matrix(self, rows: tuple[tuple[int, ...], ...], columns: int) -> torch.Tensor:
        """Int32 rows of ``columns`` entries, -1 where none is given, and the stride's padding.

        The padding holds a number that counts as an entry, so that one read from there shows.
        """
        padded = [[*row, *[-1] * (columns - len(row)), *[1] * self.stride_padding] for row in rows]
        return torch.tensor(padded, dtype=torch.int32).view(len(rows), columns + self.stride_padding)

    @property
    def features(self) -> frozenset[str]:
        """Names out of :data:`TOPK_FEATURES` that the case covers, told from its contents."""
        padded = set(self.padded_rows)
        found = {f"top-k over {bound}" for bound in (1, 64, 512, 1024) if self.topk > bound}
        found |= {"top-k padded row"} if padded else set()
        found |= {"top-k strided rows"} if self.stride_padding else set()
        found |= {"top-k no rows"} if not self.rows else {"top-k"}
        if self.topk & (self.topk - 1):
            found.add("top-k not a power of two")
        if len(self.rows) > 512:
            found.add("top-k over 512 rows")
        for row, (entries, request) in enumerate(zip(self.rows, self.token_to_request, strict=True)):
            if row in padded:
                if not 0 <= request < len(self.block_table):
                    found.add("top-k stale request in a padded row")
                continue
            length = sum(entry >= 0 for entry in entries)
            full = length == self.topk
            found.add("top-k empty row" if not length else "top-k full row" if full else "top-k row")
            table = self.block_table[request]
            for entry in entries[:length]:
                logical = entry // self.block_size
                if entry < 0:
                    found.add("top-k hole among the entries")
                elif logical >= len(table):
                    found.add("top-k entry past the table")
                elif table[logical] < 0:
                    found.add("top-k entry without a block")
                elif table[logical] * self.block_size > INT32_MAX - 65536:
                    found.add("top-k slot just under 2^31")
        return frozenset(found)


def random_topk_case(seed: int, *, large: bool = False) -> TopkCase:
    """A case from a seed. Small ones suit the interpreter, large ones reach 2,048 entries and 2,000 rows."""
    rng = random.Random(f"topk {seed}")
    topk = rng.choice((1, 2, 7, 8, 32, 33, 64) + ((128, 512, 1000, 1024, 2048) if large else ()))
    most = max(1, (100_000 if large else 1500) // topk)
    num_rows = 0 if rng.random() < 0.03 else int(min(most, 2000 if large else 40) ** rng.random())
    requests = rng.randint(1, max(1, min(num_rows, 64)))
    block_size = rng.choice((1, 2, 16, 32, 48, 64, 128))
    columns = rng.randint(1, 40)
    highest = rng.choice((1000, (INT32_MAX + 1) // block_size))  # blocks below the latter end below 2^31
    holes = rng.random() < 0.3
    overrun = rng.random() < 0.3
    limit = columns * block_size * (2 if overrun else 1)
    no_blocks = 0.1 if rng.random() < 0.3 else 0.0
    negative = rng.choice((-1, -1, -7, -INT32_MAX - 1))

    def block() -> int:
        return negative if rng.random() < no_blocks else rng.randint(max(highest - 1000, 0), highest - 1)

    def row() -> tuple[int, ...]:
        kept = rng.choice((0, 1, topk, rng.randint(0, topk)))
        entries = [rng.randrange(limit) for _ in range(kept)]
        if overrun and kept and rng.random() < 0.2:
            entries[0] = INT32_MAX
        if holes and kept:
            for place in rng.sample(range(kept), rng.randint(1, max(1, kept // 8))):
                entries[place] = rng.choice((-1, -5))
        return tuple(entries)

    rows = tuple(row() for _ in range(num_rows))
    padded = tuple(t for t in range(num_rows) if rng.random() < 0.2) if rng.random() < 0.6 else ()
    owners = [rng.randrange(requests) for _ in range(num_rows)]
    for t in padded:
        owners[t] = rng.choice((0, -1, INT32_MAX, -INT32_MAX))
    return TopkCase(
        topk=topk,
        rows=rows,
        token_to_request=tuple(owners),
        block_table=tuple(tuple(block() for _ in range(columns)) for _ in range(requests)),
        block_size=block_size,
        padded_rows=padded,
        stride_padding=rng.choice((0, 0, 3)),
    )
