"""Paged KV-cache bookkeeping: a pool of physical blocks, and one block table a group.

A window group keeps only the blocks that its window can still reach. The logical entries of the
others read 0, the null block, and their physical blocks serve other requests: that is the table an
attention metadata build meets, so the schedule keeps it the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NULL_BLOCK = 0


class BlockPool:
    """Physical blocks ``1 .. num_blocks - 1``, shared by all groups. Block 0 is the null block.

    Blocks freed last are taken first.

    Raises:
        ValueError: ``num_blocks`` leaves none beside the null block, or passes int32.
    """

    def __init__(self, num_blocks: int) -> None:
        if not 2 <= num_blocks < 2**31:
            raise ValueError(
                f"num_blocks is {num_blocks}: it must be from 2, null block included, to 2^31 - 1"
            )
        self.num_blocks = num_blocks
        self._stack = np.arange(num_blocks - 1, 0, -1, dtype=np.int32)
        self._num_free = num_blocks - 1
        self._in_use = np.zeros(num_blocks, dtype=np.bool_)

    @property
    def num_free(self) -> int:
        return self._num_free

    def take(self, n: int) -> NDArray[np.int32]:
        """Take ``n`` blocks: [n] int32.

        Raises:
            ValueError: fewer than ``n`` are free. Nothing is taken.
        """
        if n > self._num_free:
            raise ValueError(f"n is {n}: only {self._num_free} of {self.num_blocks - 1} blocks are free")
        self._num_free -= n
        blocks = self._stack[self._num_free : self._num_free + n].copy()
        self._in_use[blocks] = True
        return blocks

    def give(self, blocks: NDArray[np.int32]) -> None:
        """Give distinct blocks back.

        Raises:
            ValueError: one of them is not in use. Nothing is given back.
        """
        if not self._in_use[blocks].all():
            idle = int(blocks[~self._in_use[blocks]][0])
            raise ValueError(f"blocks holds {idle}, which is not in use")
        self._in_use[blocks] = False
        self._stack[self._num_free : self._num_free + len(blocks)] = blocks
        self._num_free += len(blocks)


class BlockTable:
    """One group's block table: for each request row, the physical block of each logical block.

    A row's live blocks are one range of logical blocks: those below were freed or never needed, those
    above are not needed yet, and all of them read 0. Every method takes distinct rows.

    Attributes:
        table: [max_requests, max_blocks] int32.
    """

    def __init__(
        self, pool: BlockPool, max_requests: int, max_blocks: int, block_size: int, window: int
    ) -> None:
        self.block_size = block_size
        self.window = window
        self.table = np.full((max_requests, max_blocks), NULL_BLOCK, dtype=np.int32)
        self._pool = pool
        self._first = np.zeros(max_requests, dtype=np.int64)  # live logical blocks are first .. end - 1
        self._end = np.zeros(max_requests, dtype=np.int64)

    def advance(self, rows: NDArray[np.int64], cached_tokens: NDArray[np.int64], lookahead: int) -> None:
        """Make a step's blocks live: those its windows reach, and those its new tokens go to.

        A causal row at ``cached_tokens`` reads ``window - 1`` positions before it. A draft block reads one
        more, but starts at least one token later: the same bound holds for both.

        Args:
            rows: [N] int64.
            cached_tokens: [N] int64, tokens whose KV earlier steps wrote.
            lookahead: positions from there on that the step may write.

        Raises:
            ValueError: as :meth:`grow`.
        """
        self.free_below(rows, cached_tokens - self.window + 1)
        self.grow(rows, cached_tokens + lookahead)

    def free_below(self, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
        """Free each row's blocks that lie wholly below its position, and never allocate them again.

        Args:
            rows: [N] int64.
            positions: [N] int64, the lowest position that will still be read; negative frees nothing.
        """
        first = self._first[rows]
        keep = np.maximum(positions // self.block_size, first)
        if (keep == first).all():
            return
        freed = np.minimum(keep, self._end[rows]) - first
        self._clear(rows, first, np.maximum(freed, 0))
        self._first[rows] = keep
        # An empty row starts at its window: a prompt's older blocks are never allocated.
        self._end[rows] = np.maximum(self._end[rows], keep)

    def grow(self, rows: NDArray[np.int64], num_tokens: NDArray[np.int64]) -> None:
        """Allocate blocks until each row covers its positions below ``num_tokens``.

        Raises:
            ValueError: the pool has too few free blocks, or a row passes the table's width. The table
                is as it was.
        """
        end = self._end[rows]
        need = np.maximum(-(-num_tokens // self.block_size) - end, 0)
        if not need.any():
            return
        widest = int((end + need).max())
        if widest > self.table.shape[1]:
            raise ValueError(f"num_tokens needs {widest} blocks a row: the table has {self.table.shape[1]}")
        self.table[np.repeat(rows, need), _ranges(end, need)] = self._pool.take(int(need.sum()))
        self._end[rows] = end + need

    def release(self, rows: NDArray[np.int64]) -> None:
        """Free all blocks of the rows: they are as new."""
        self._clear(rows, self._first[rows], self._end[rows] - self._first[rows])
        self._first[rows] = 0
        self._end[rows] = 0

    def slots(self, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cache slots of positions in live blocks: rows [N], positions [N, Q] -> [N, Q] int64."""
        block = self.table[rows[:, None], positions // self.block_size].astype(np.int64)
        slots: NDArray[np.int64] = block * self.block_size + positions % self.block_size
        return slots

    def _clear(self, rows: NDArray[np.int64], first: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        where = np.repeat(rows, counts), _ranges(first, counts)
        self._pool.give(self.table[where])
        self.table[where] = NULL_BLOCK


def max_live_blocks(num_positions: int, block_size: int) -> int:
    """The most blocks that ``num_positions`` consecutive positions can touch, wherever they start."""
    # The worst start is the last slot of a block: 140 positions touch 4 blocks of 64.
    return 1 + -(-(num_positions - 1) // block_size)


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``starts[i], starts[i] + 1, ...``, ``counts[i]`` of them, for each i in order: [sum(counts)]."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
