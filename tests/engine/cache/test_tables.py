"""Block tables: what is freed, what is shared, and that no block is ever two requests' by accident."""

from __future__ import annotations

import random

import pytest

from onelaunch.engine.cache.groups import CacheGroup
from onelaunch.engine.cache.prefix import PrefixKeys
from onelaunch.engine.cache.tables import BlockTables

GROUPS = (
    CacheGroup("window.0", 4, 8, 0, (0,)),
    CacheGroup("draft.0", 4, 8, 3, (3,)),
    CacheGroup("compressed.2", 8, None, 0, (1,)),
)


def tables(num_blocks: int = 200, **options) -> BlockTables:
    return BlockTables(GROUPS, 4, num_blocks, 4, 100, **options)


def test_blocks_cover_the_rows_and_the_draft_reaches_further():
    made = tables()
    made.start(1, range(20), None)
    assert made.reserve(1, 0, 10)
    assert [int((table[1] > 0).sum()) for table in made.tables] == [3, 4, 2]
    assert made.pool.num_free == 199 - 9


def test_blocks_outside_the_window_become_the_null_block():
    made = tables()
    made.start(0, range(40), None)
    made.reserve(0, 0, 40)
    free = made.pool.num_free
    made.reserve(0, 30, 40)  # position 22, the first that a draft block after 30 may read, is in block 5
    window, draft, compressed = (table[0].tolist() for table in made.tables)
    assert [block == 0 for block in window[:10]] == [True] * 5 + [False] * 5
    assert [block == 0 for block in draft[:11]] == [True] * 5 + [False] * 6
    assert all(compressed[:5])
    assert made.pool.num_free == free + 10


def test_too_few_blocks_take_nothing():
    made = tables(num_blocks=10)
    made.start(0, range(40), None)
    assert made.reserve(0, 0, 8)  # 2 + 3 + 1
    assert not made.reserve(0, 0, 40)
    assert made.pool.num_free == 9 - 6


def test_a_shared_prefix_ends_where_blocks_of_all_groups_do_and_before_the_last_token():
    made = tables()
    prompt = list(range(24))
    assert made.start(0, prompt, None) == 0
    made.reserve(0, 0, 24)
    made.commit(0, prompt, 24)
    assert made.start(1, prompt, None) == 16  # a row must be left to sample from
    assert made.start(2, [*prompt, 7], None) == 24
    assert made.start(3, [*prompt[:13], 99, *prompt[14:]], None) == 8
    shared = [(a[0][:6] == b[2][:6]).sum() for a, b in zip(made.tables, made.tables, strict=True)]
    assert shared[2] >= 3
    window = made.tables[0]
    assert window[2][:4].tolist() == [0, 0, 0, 0]  # out of the window at 24: not needed, not held
    assert window[2][4:6].tolist() == window[0][4:6].tolist()


def test_a_prefix_is_found_after_its_request_has_ended_until_its_blocks_are_used():
    made = tables(num_blocks=30)
    prompt = list(range(17))
    made.start(0, prompt, None)
    made.reserve(0, 0, 17)
    made.commit(0, prompt, 17)
    made.release(0)
    assert made.pool.num_free == 29
    assert made.start(1, prompt, None) == 16
    made.release(1)
    made.start(2, range(500, 600), None)
    assert made.reserve(2, 0, 40)
    made.release(2)
    assert made.start(3, prompt, None) == 0


def test_blocks_that_are_not_computed_are_not_shared():
    made = tables()
    prompt = list(range(33))
    made.start(0, prompt, None)
    made.reserve(0, 0, 33)
    made.commit(0, prompt, 15)
    assert made.start(1, prompt, None) == 8


@pytest.mark.parametrize("options", [{"salt": "a"}, {"use_prefix": False}])
def test_another_salt_or_a_request_that_does_not_want_it_shares_nothing(options):
    made = tables()
    prompt = list(range(33))
    made.start(0, prompt, None)
    made.reserve(0, 0, 33)
    made.commit(0, prompt, 33)
    salt = options.pop("salt", None)
    assert made.start(1, prompt, salt, **options) == 0


def test_a_key_names_everything_before_it():
    def key(tokens, salt=None):
        return PrefixKeys(4, salt).up_to(tokens)[-1]

    assert key(range(8)) == key(range(11))
    assert key([9, *range(1, 8)]) != key(range(8))
    assert key(range(8), "s") != key(range(8))
    grown = PrefixKeys(4, None)
    grown.up_to(range(6))
    assert grown.up_to(range(8)) == PrefixKeys(4, None).up_to(range(8))


def test_random_requests_never_share_what_they_write_and_leave_nothing():
    rng = random.Random(4)
    made = tables(num_blocks=120)
    running: dict[int, tuple[list[int], int]] = {}
    for _ in range(3000):
        row = rng.randrange(4)
        if row not in running:
            prompt = [rng.randrange(2) for _ in range(rng.randint(1, 60))]
            running[row] = (prompt, made.start(row, prompt, None))
            continue
        prompt, computed = running[row]
        count = min(rng.randint(1, 20), len(prompt) - computed)
        if not made.reserve(row, computed, computed + count) or rng.random() < 0.05:
            made.release(row)
            del running[row]
            continue
        # What this step writes is in blocks that nobody else holds.
        for index, group in enumerate(GROUPS):
            for logical in range(
                computed // group.block_tokens, (computed + count - 1) // group.block_tokens + 1
            ):
                block = made.tables[index][row][logical]
                assert block
                others = [r for r in running if r != row]
                assert not any(block in table[r] for table in made.tables for r in others)
        made.commit(row, prompt, computed + count)
        running[row] = (prompt, computed + count)
        if computed + count == len(prompt):
            made.release(row)
            del running[row]
    for row in running:
        made.release(row)
    assert made.pool.num_free == 119
