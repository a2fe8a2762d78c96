"""What a case is said to cover, against small cases written out for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onelaunch import WindowGroup
from onelaunch.proof.cases import Blocks, Case, GroupCase, Request
from onelaunch.proof.features import FEATURES, features

TARGET = WindowGroup("swa.0", window=8, block_size=16)
DRAFT = WindowGroup("draft.0", window=60, block_size=16, causal=False, draft_tokens=4)

# One row of one request, its whole window in one block: as little as a case can cover.
PLAIN = Case(
    requests=(Request(1, 10),),
    groups=(GroupCase(TARGET, columns=1, tables=(Blocks(0, (5,)),)),),
    num_tokens=1,
    max_tokens=4,
    max_requests=4,
)
PLAIN_FEATURES = {"short sequence", "1 row a request", "block size 16", "causal group"}


def case(*requests: Request, **changes) -> Case:
    """The plain case with other requests and as many tables, each of one block."""
    group = replace(PLAIN.groups[0], tables=(Blocks(0, (5,)),) * len(requests))
    rows = sum(request.query_len for request in requests)
    return replace(
        PLAIN, **{"requests": requests, "groups": (group,), "num_tokens": rows, "max_tokens": 99, **changes}
    )


def grouped(**changes) -> Case:
    return replace(PLAIN, groups=(replace(PLAIN.groups[0], **changes),))


def test_a_plain_case_covers_little():
    assert features(PLAIN) == PLAIN_FEATURES


@pytest.mark.parametrize(
    ("batch", "added"),
    [
        (case(Request(1, 7)), {"seq_len W - 1"}),
        (case(Request(1, 8)), {"seq_len W"}),
        (case(Request(1, 9)), {"seq_len W + 1"}),
        (case(Request(1, 10, replay_start=4)), {"replay start inside a window"}),
        (case(Request(1, 10, replay_start=10)), {"replay start past a row"}),
        (case(Request(1, 10, replay_start=2)), set()),  # where the window starts anyhow
        (case(Request(1, 10), Request(1, 10)), {"equal rows"}),
        (case(Request(1, 10), Request(0, 0), num_tokens=2), {"padded rows", "padding request"}),
        (case(Request(1, 10), Request(0, 3)), {"padding request", "padding request with a stale seq_len"}),
        (
            case(Request(3, 10), Request(1, 10), Request(0, 0), Request(0, 0)),
            {"unequal rows", "rows equal to requests, unbalanced", "padding request"},
        ),
        (grouped(tables=(Blocks(0, (0,)),)), {"null block in a window"}),
        (grouped(tables=(Blocks(0, (-1,)),)), {"no block in a window"}),
        (grouped(columns=0), {"position past the table"}),
        (grouped(tables=(Blocks(0, (2**27 - 1,)),)), {"slots just under 2^31"}),
        (grouped(stride_padding=1), {"strided block table"}),
        (grouped(spare_rows=1), {"block table with spare rows"}),
        (replace(PLAIN, max_tokens=1), {"max_tokens reached"}),
        (
            replace(PLAIN, num_tokens=2, groups=(replace(PLAIN.groups[0], stale_rows=(1,)),)),
            {"padded rows", "stale slot in a padded row"},
        ),
    ],
)
def test_a_change_covers_what_it_was_made_for(batch, added):
    assert features(batch) == PLAIN_FEATURES | added


def test_a_window_is_over_a_block_more_only_where_it_straddles_one():
    # A window of 8 in blocks of 16: positions 12 to 19 straddle two, 8 to 15 do not.
    name = "window over one block more than W / BS"
    assert name in features(case(Request(1, 20), groups=(replace(PLAIN.groups[0], columns=2),)))
    assert name not in features(case(Request(1, 16)))


def test_a_request_without_a_valid_row_reaches_nothing():
    invalid = replace(PLAIN.groups[0], columns=0, invalid_rows=(0,))
    assert features(case(Request(1, 7), groups=(invalid,))) == PLAIN_FEATURES


def test_a_draft_block_longer_than_its_group_was_made_for_is_wider_than_its_row():
    def of(rows: int) -> frozenset[str]:
        return features(case(Request(rows, 100), groups=(GroupCase(DRAFT, columns=9, tables=(Blocks(),)),)))

    assert DRAFT.width == 64
    assert "row longer than the width" not in of(4)
    assert "row longer than the width" in of(5)


def test_a_draft_row_without_a_slot_at_the_end_is_past_the_models_end():
    group = GroupCase(DRAFT, columns=9, tables=(Blocks(),), invalid_rows=(2,))
    found = features(case(Request(3, 100), groups=(group,)))
    assert "draft row past the model's end" in found
    assert "invalid row among valid ones" not in found


def test_no_requests_and_no_rows_are_told_apart():
    nothing = replace(PLAIN.groups[0], tables=())
    assert {"no rows", "no requests"} <= features(case(groups=(nothing,)))
    assert "no rows" not in features(case(groups=(nothing,), num_tokens=3))


def test_every_name_told_is_listed():
    assert len(set(FEATURES)) == len(FEATURES)
    assert PLAIN_FEATURES.issubset(FEATURES)
