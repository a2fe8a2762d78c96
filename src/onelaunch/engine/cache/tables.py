"""Which blocks a request holds in every group, and the prefix cache over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from onelaunch.engine.cache.groups import CacheGroup
from onelaunch.engine.cache.pool import NULL_BLOCK, BlockPool
from onelaunch.engine.cache.prefix import PrefixKeys


@dataclass(slots=True)
class _Held:
    """One request's blocks: a list a group, by logical block. ``freed`` blocks at the front are null."""

    keys: PrefixKeys
    blocks: list[list[int]]
    freed: list[int]
    kept: list[int] = field(default_factory=list)  # full blocks whose key the pool knows


class BlockTables:
    """Blocks of all requests, over one pool.

    Args:
        groups: the model's.
        block_size: cache entries of a block; every group's ``block_tokens`` is a multiple.
        num_blocks: of the pool.
        max_requests: rows of the tables.
        max_tokens: longest sequence, in tokens.
        prefix_caching: look for blocks of earlier requests.
    """

    def __init__(
        self,
        groups: Sequence[CacheGroup],
        block_size: int,
        num_blocks: int,
        max_requests: int,
        max_tokens: int,
        *,
        prefix_caching: bool = True,
    ) -> None:
        self.groups = tuple(groups)
        self.pool = BlockPool(num_blocks)
        self.prefix_caching = prefix_caching
        self._block_size = block_size
        self._held: dict[int, _Held] = {}
        # A prefix ends where a block of every group does.
        self._unit = math.lcm(*(group.block_tokens for group in groups))
        self.widths = [-(-(max_tokens + group.lookahead) // group.block_tokens) for group in groups]
        #: A table a group, [max_requests, width] int32, by request row.
        self.tables: list[NDArray[np.int32]] = [
            np.zeros((max_requests, width), dtype=np.int32) for width in self.widths
        ]

    def start(self, row: int, tokens: Sequence[int], salt: str | None, *, use_prefix: bool = True) -> int:
        """Begin a request in a row of the tables.

        Returns:
            leading tokens whose blocks the prefix cache had; they are held now. Always fewer than all: a
            request must compute at least one row to have something to sample from.
        """
        keys = PrefixKeys(self._block_size, salt)
        held = _Held(keys, [[] for _ in self.groups], [0] * len(self.groups), [0] * len(self.groups))
        self._held[row] = held
        if not (self.prefix_caching and use_prefix):
            return 0
        known = keys.up_to(tokens)
        longest = (len(tokens) - 1) // self._unit * self._unit
        for length in range(longest, 0, -self._unit):
            found = [self._find(group, index, known, length) for index, group in enumerate(self.groups)]
            if all(blocks is not None for blocks in found):
                self._take(row, held, found, length)  # type: ignore[arg-type]
                return length
        return 0

    def _find(self, group: CacheGroup, index: int, keys: list[bytes], length: int) -> list[int] | None:
        """The blocks of a prefix of ``length`` tokens, null before the window; None when one is missing."""
        first = self._first_needed(group, length)
        blocks = [NULL_BLOCK] * first
        step = group.block_tokens // self._block_size
        for logical in range(first, length // group.block_tokens):
            block = self.pool.find((index, keys[(logical + 1) * step - 1]))
            if block is None:
                return None
            blocks.append(block)
        return blocks

    def _take(self, row: int, held: _Held, found: list[list[int]], length: int) -> None:
        for index, (group, blocks) in enumerate(zip(self.groups, found, strict=True)):
            for block in blocks:
                if block != NULL_BLOCK:
                    self.pool.hold(block)
            held.blocks[index] = blocks
            held.freed[index] = self._first_needed(group, length)
            held.kept[index] = len(blocks)
            self.tables[index][row, : len(blocks)] = blocks

    @staticmethod
    def _first_needed(group: CacheGroup, num_computed: int) -> int:
        """The first logical block that a row at ``num_computed``, or a draft block after it, may read."""
        return 0 if group.window is None else max(num_computed - group.window, 0) // group.block_tokens

    def reserve(self, row: int, num_computed: int, num_tokens: int) -> bool:
        """Have blocks for positions below ``num_tokens`` (and each group's lookahead); free those out of the
        window.

        Returns:
            False, with nothing taken, when the pool has too few.
        """
        held = self._held[row]
        for index, group in enumerate(self.groups):
            self._free_before(row, held, index, self._first_needed(group, num_computed))
        missing = [
            min(-(-(num_tokens + group.lookahead) // group.block_tokens), width) - len(blocks)
            for group, width, blocks in zip(self.groups, self.widths, held.blocks, strict=True)
        ]
        taken = self.pool.allocate(sum(max(count, 0) for count in missing))
        if taken is None:
            return False
        for index, count in enumerate(missing):
            if count > 0:
                blocks = held.blocks[index]
                self.tables[index][row, len(blocks) : len(blocks) + count] = taken[:count]
                blocks += taken[:count]
                del taken[:count]
        return True

    def _free_before(self, row: int, held: _Held, index: int, first: int) -> None:
        if first > held.freed[index]:
            gone = held.blocks[index][held.freed[index] : first]
            self.pool.free(gone)
            held.blocks[index][held.freed[index] : first] = [NULL_BLOCK] * len(gone)
            self.tables[index][row, held.freed[index] : first] = NULL_BLOCK
            held.freed[index] = first

    def commit(self, row: int, tokens: Sequence[int], num_computed: int) -> None:
        """The first ``num_computed`` of ``tokens`` are in the cache for good: their full blocks can be
        shared.
        """
        if not self.prefix_caching:
            return
        held = self._held[row]
        keys = held.keys.up_to(tokens[:num_computed])
        for index, group in enumerate(self.groups):
            step = group.block_tokens // self._block_size
            full = num_computed // group.block_tokens
            for logical in range(held.kept[index], full):
                block = held.blocks[index][logical]
                if block != NULL_BLOCK:
                    self.pool.keep(block, (index, keys[(logical + 1) * step - 1]))
            held.kept[index] = max(held.kept[index], full)

    def release(self, row: int) -> None:
        """Let go of all blocks of a request. Later ones go first: a shorter prefix serves more requests."""
        held = self._held.pop(row)
        for index, blocks in enumerate(held.blocks):
            self.pool.free(reversed(blocks))
            self.tables[index][row] = NULL_BLOCK
