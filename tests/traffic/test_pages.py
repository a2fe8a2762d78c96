"""The block pool and the block tables of window groups, against a model in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.traffic.pages import BlockPool, BlockTable, max_live_blocks


def rows(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_row_keeps_the_blocks_of_its_window_and_frees_the_others():
    pool = BlockPool(16)
    table = BlockTable(pool, max_requests=2, max_blocks=8, block_size=4, window=6)
    table.advance(rows(1), rows(0), lookahead=10)  # positions 0 .. 9
    assert (table.table[1, :3] > 0).all() and (table.table[1, 3:] == 0).all()
    assert (table.table[0] == 0).all()
    first = table.table[1, 0]
    table.advance(rows(1), rows(10), lookahead=3)  # reads 5 .. 9, writes 10 .. 12
    assert (table.table[1] > 0).tolist() == [False, True, True, True, False, False, False, False]
    # The block freed last is the first to serve again.
    assert table.table[1, 3] == first
    assert pool.num_free == 15 - 3


def test_blocks_below_a_prompts_window_are_never_allocated():
    pool = BlockPool(16)
    table = BlockTable(pool, max_requests=1, max_blocks=8, block_size=4, window=6)
    table.advance(rows(0), rows(20), lookahead=1)  # reads 15 .. 19, writes 20
    assert (table.table[0] > 0).tolist() == [False] * 3 + [True] * 3 + [False] * 2
    assert pool.num_free == 15 - 3


def test_slots_are_those_of_the_positions_in_their_blocks():
    table = BlockTable(BlockPool(2**20), max_requests=2, max_blocks=4, block_size=4096, window=1)
    table.table[1] = [0, 2**20 - 1, 7, 0]
    assert table.slots(rows(1), rows(4096 + 5, 8192)[None]).tolist() == [[(2**20 - 1) * 4096 + 5, 7 * 4096]]


def test_an_exhausted_pool_and_a_full_row_change_nothing():
    pool = BlockPool(4)
    table = BlockTable(pool, max_requests=2, max_blocks=4, block_size=4, window=8)
    table.grow(rows(0), rows(8))
    before = table.table.copy()
    with pytest.raises(ValueError, match="n is 2: only 1 of 3 blocks"):
        table.grow(rows(1), rows(8))
    with pytest.raises(ValueError, match="5 blocks a row: the table has 4"):
        table.grow(rows(1), rows(17))
    assert (table.table == before).all() and pool.num_free == 1
    table.release(rows(0))
    table.grow(rows(1), rows(12))
    assert pool.num_free == 0 and sorted(table.table[1].tolist()) == [0, 1, 2, 3]


def test_a_block_is_given_back_once():
    pool = BlockPool(4)
    blocks = pool.take(2)
    pool.give(blocks)
    for idle in (blocks, np.zeros(1, dtype=np.int32)):  # the null block is never in use
        with pytest.raises(ValueError, match="not in use"):
            pool.give(idle)
    assert pool.num_free == 3


@pytest.mark.parametrize("num_blocks", [1, 0, -1, 2**31])
def test_a_pool_of_no_usable_size_is_refused(num_blocks):
    with pytest.raises(ValueError, match="num_blocks"):
        BlockPool(num_blocks)


@given(st.integers(1, 200), st.sampled_from([1, 3, 16, 64]))
def test_live_blocks_are_bounded_by_the_worst_start(num_positions, block_size):
    touched = {
        (start + num_positions - 1) // block_size - start // block_size + 1 for start in range(block_size)
    }
    assert max_live_blocks(num_positions, block_size) == max(touched)


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 4), unique=True, max_size=5),  # rows that advance
        st.lists(st.integers(0, 30), min_size=5, max_size=5),  # by how much each
        st.lists(st.integers(0, 4), unique=True, max_size=2),  # rows that leave then
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([(4, 1), (4, 6), (16, 128), (64, 128)]), st.integers(1, 13))
def test_groups_of_one_pool_never_share_a_block_and_hold_what_windows_reach(steps, shape, lookahead):
    block_size, window = shape
    pool = BlockPool(1 + 2 * 5 * 100)
    tables = [BlockTable(pool, 5, 100, block_size, window), BlockTable(pool, 5, 100, block_size, 2 * window)]
    cached = np.zeros(5, dtype=np.int64)
    live: dict[int, int] = {}  # row -> cached tokens at its last advance
    for advancing, growth, leaving in steps:
        moving = rows(*advancing)
        cached[moving] += np.array(growth)[moving]
        for table in tables:
            table.advance(moving, cached[moving], lookahead)
        live |= {row: int(cached[row]) for row in advancing}
        for row in leaving:
            live.pop(row, None)
        for table in tables:
            table.release(rows(*leaving))
        cached[rows(*leaving)] = 0

        used = np.concatenate([table.table[table.table != 0] for table in tables])
        assert len(np.unique(used)) == len(used)
        assert pool.num_free == pool.num_blocks - 1 - len(used)
        for table in tables:
            for row in range(5):
                expected = [False] * 100
                if row in live:
                    first = max(live[row] - table.window + 1, 0) // block_size
                    end = -(-(live[row] + lookahead) // block_size)
                    expected[first:end] = [True] * (end - first)
                    assert end - first <= max_live_blocks(table.window - 1 + lookahead, block_size)
                assert (table.table[row] != 0).tolist() == expected
