"""One pool of KV-cache blocks, shared by all groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

NULL_BLOCK = 0


class BlockPool:
    """Blocks by number, each free or held by one or more requests.

    Block 0 is the null block: never handed out, it stands in a table for a block that is no longer needed,
    and padded rows write there. A freed block keeps its contents and its content's key until it is handed out
    again, least recently freed first, so a request with the same prefix can take it back.

    Args:
        num_blocks: the null block included, at least 2.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 2:
            raise ValueError(
                f"num_blocks is {num_blocks}: it must be at least 2, as block 0 is the null block"
            )
        self.num_blocks = num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self._holders = [0] * num_blocks
        self._key_of: dict[int, Hashable] = {}
        self._block_of: dict[Hashable, int] = {}

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks held, 0 to 1."""
        return 1 - self.num_free / (self.num_blocks - 1)

    def allocate(self, count: int) -> list[int] | None:
        """``count`` blocks, or None, with nothing taken, when so many are not free."""
        if count > self.num_free:
            return None
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._holders[block] = 1
            self._forget(block)
        return blocks

    def hold(self, block: int) -> None:
        """Hold a block found by :meth:`find`, free or not."""
        self._holders[block] += 1
        self._free.pop(block, None)

    def free(self, blocks: Iterable[int]) -> None:
        """Let go of blocks; the first of them is handed out again before the others. Null blocks are passed
        over.
        """
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            if not self._holders[block]:
                raise RuntimeError(f"block {block} is freed and nobody holds it")
            self._holders[block] -= 1
            if not self._holders[block]:
                self._free[block] = None

    def find(self, key: Hashable) -> int | None:
        """The block with this content, held or free."""
        return self._block_of.get(key)

    def keep(self, block: int, key: Hashable) -> None:
        """Say what a block holds. The first block of a content stays the one that is found."""
        if block not in self._key_of and key not in self._block_of:
            self._key_of[block] = key
            self._block_of[key] = block

    def _forget(self, block: int) -> None:
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]
