"""The block pool: who holds a block, and what it still holds."""

from __future__ import annotations

import pytest

from onelaunch.engine.cache.pool import BlockPool


def test_all_blocks_but_the_null_block_are_handed_out_once():
    pool = BlockPool(8)
    assert sorted(pool.allocate(7)) == [1, 2, 3, 4, 5, 6, 7]
    assert pool.allocate(1) is None
    assert pool.usage == 1


def test_too_few_blocks_take_nothing():
    pool = BlockPool(4)
    assert pool.allocate(4) is None
    assert pool.num_free == 3


def test_the_block_freed_longest_ago_is_handed_out_first():
    pool = BlockPool(4)
    a, b, c = pool.allocate(3)
    pool.free([b])
    pool.free([c, a])
    assert pool.allocate(3) == [b, c, a]


def test_a_block_is_free_when_its_last_holder_lets_go():
    pool = BlockPool(3)
    [block] = pool.allocate(1)
    pool.hold(block)
    pool.free([block])
    assert pool.num_free == 1
    pool.free([block])
    assert pool.num_free == 2


def test_freeing_a_free_block_is_an_error_and_the_null_block_is_passed_over():
    pool = BlockPool(3)
    pool.free([0, 0])
    with pytest.raises(RuntimeError, match="block 2 is freed and nobody holds it"):
        pool.free([2])


def test_contents_are_found_until_the_block_is_handed_out_again():
    pool = BlockPool(3)
    [block] = pool.allocate(1)
    pool.keep(block, "x")
    pool.free([block])
    assert pool.find("x") == block
    pool.hold(block)  # taken back: not free any more
    assert pool.num_free == 1
    pool.free([block])
    pool.allocate(2)
    assert pool.find("x") is None


def test_the_first_block_of_a_content_is_the_one_found():
    pool = BlockPool(4)
    first, second = pool.allocate(2)
    pool.keep(first, "x")
    pool.keep(second, "x")
    assert pool.find("x") == first


def test_a_pool_without_a_block_to_give_is_refused():
    with pytest.raises(ValueError, match="num_blocks is 1: it must be at least 2"):
        BlockPool(1)
