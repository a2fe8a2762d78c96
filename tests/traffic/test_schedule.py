"""The continuous-batching schedule: every token served, tables and padding as an engine has them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onelaunch.groups import WindowGroup
from onelaunch.traffic.acceptance import Acceptance
from onelaunch.traffic.schedule import DecodeStep, Schedule, StepInputs, capture_sizes, serving_groups
from onelaunch.traffic.trace import Request, generated_trace

WINDOW, BLOCK_SIZE, K = 24, 8, 3


def schedule(requests: list[Request], *, mean: float = 2.2, **options) -> Schedule:
    target, draft = serving_groups(WINDOW, BLOCK_SIZE, K)
    return Schedule(requests, target, draft, Acceptance(mean, K), **options)


def check_inputs(inputs: StepInputs, n: int, size: int, query_len: int, first_read: np.ndarray) -> None:
    """Shapes and padding of one build's inputs, and that what its rows read and write has a block."""
    padded = len(inputs.seq_lens)
    assert padded == size
    assert inputs.num_tokens == padded * query_len
    assert inputs.query_start_loc.tolist() == [min(r, n) * query_len for r in range(padded + 1)]
    assert inputs.query_start_loc.dtype == inputs.seq_lens.dtype == inputs.block_tables.dtype == np.int32
    assert inputs.slot_mappings.dtype == np.int64
    assert inputs.slot_mappings.shape == (len(inputs.block_tables), padded * query_len)
    assert (inputs.slot_mappings[:, n * query_len :] == -1).all()
    assert (inputs.seq_lens[n:] == 0).all() and (inputs.block_tables[:, n:] == 0).all()
    for tables, slots in zip(inputs.block_tables, inputs.slot_mappings, strict=True):
        for r in range(n):
            seq_len = int(inputs.seq_lens[r])
            live = slice(first_read[r] // BLOCK_SIZE, -(-seq_len // BLOCK_SIZE))
            assert (tables[r, live] > 0).all()
            assert (tables[r, : live.start] == 0).all()
            positions = np.arange(seq_len - query_len, seq_len)
            expected = (
                tables[r, positions // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + positions % BLOCK_SIZE
            )
            assert (slots[r * query_len : (r + 1) * query_len] == expected).all()


def check_step(step: DecodeStep, cached: np.ndarray, max_batch: int) -> None:
    n = len(step.request_ids)
    size = min(size for size in (1, 2, 4, 8, 16, max_batch) if n <= size <= max_batch)
    first_read = np.maximum(cached - WINDOW + 1, 0)
    assert step.target.seq_lens[:n].tolist() == (cached + 1 + K).tolist()
    check_inputs(step.target, n, size, 1 + K, first_read)
    # The draft sits on the tokens just kept; its window reaches no further back than the target's.
    assert step.draft.seq_lens[:n].tolist() == (cached + step.kept + K).tolist()
    check_inputs(step.draft, n, size, K, first_read)
    used = np.concatenate([step.target.block_tables, step.draft.block_tables])
    used = used[used > 0]
    assert len(np.unique(used)) == len(used)


@settings(max_examples=40, deadline=None)
@example([(0.0, 20 + i, 12) for i in range(14)], 9, 2.2, 400, 0)  # every batch from 9 down, some padded
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.01, 0.3, 9.0]), st.integers(1, 90), st.integers(0, 60)),
        max_size=14,
    ),
    st.integers(1, 9),
    st.sampled_from([1.0, 2.2, 4.0]),
    st.sampled_from([0, 20, 60, 400]),
    st.integers(0, 5),
)
def test_every_request_is_served_its_tokens_in_order_of_arrival(traffic, max_batch, mean, extra, seed):
    arrivals = np.cumsum([gap for gap, _, _ in traffic])
    requests = [Request(float(t), c, g) for t, (_, c, g) in zip(arrivals, traffic, strict=True)]
    # 35 blocks are the most one request can hold here: the pool often delays an admission, never forbids it.
    served = schedule(requests, mean=mean, max_batch=max_batch, num_blocks=36 + extra, seed=seed)
    made = np.array([min(request.generated_tokens, 1) for request in requests])
    started: list[int] = []
    now = -1.0
    for step in served:
        ids = step.request_ids
        assert 1 <= len(ids) <= max_batch and len(np.unique(ids)) == len(ids)
        assert step.time_s > now
        now = step.time_s
        assert all(requests[i].arrival_s <= now for i in ids)
        assert (
            (step.kept >= 1).all() and (step.kept <= step.accepted).all() and (step.accepted <= 1 + K).all()
        )
        check_step(step, np.array([requests[i].context_tokens for i in ids]) + made[ids] - 1, max_batch)
        made[ids] += step.kept
        started += [i for i in ids.tolist() if i not in started]
    assert made.tolist() == served.generated.tolist() == [request.generated_tokens for request in requests]
    assert served.num_served == len(requests)
    assert started == sorted(started) == [i for i, r in enumerate(requests) if r.generated_tokens > 1]


def test_a_request_that_does_not_fit_now_waits_and_none_overtakes_it():
    long, short = Request(0.0, 100, 40), Request(0.0, 1, 5)
    # Live blocks of the long request: 4 of 8 tokens, 5 in the worst case, in 7 groups; of the short one, 2.
    served = schedule([long, long, short], num_blocks=1 + 35 + 21)
    steps = [step.request_ids.tolist() for step in served]
    assert steps[0] == [0]
    assert [1, 2] in steps and [0, 2] not in steps
    assert served.num_served == 3


def test_a_full_batch_makes_requests_wait():
    sizes = [len(s.request_ids) for s in schedule([Request(0.0, 5, 30)] * 5, mean=1.0, max_batch=2)]
    assert sizes == [2] * 29 * 2 + [1] * 29


def test_time_jumps_over_idle_stretches():
    times = [s.time_s for s in schedule([Request(0.0, 5, 2), Request(100.0, 5, 3)], mean=1.0, step_s=0.5)]
    assert times == [0.0, 100.0, 100.5]


@pytest.mark.parametrize(
    ("request_", "num_blocks", "says"),
    [
        (Request(0.0, 100, 40), 35, "request 1 .* needs 35 blocks at once, and the pool has 34"),
        (Request(0.0, 131_072, 2), None, "request 1 .* sequence of 131079 tokens"),
    ],
)
def test_a_request_that_can_never_be_served_is_refused_before_the_first_step(request_, num_blocks, says):
    with pytest.raises(ValueError, match=says):
        schedule([Request(0.0, 1, 2), request_], num_blocks=num_blocks)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_batch": 0}, "max_batch is 0"),
        ({"step_s": 0.0}, "step_s is 0.0"),
        ({"num_blocks": 1}, "num_blocks is 1"),
        ({"num_blocks": 2**28 + 1}, "num_blocks is 268435457.* below 2.31"),
    ],
)
def test_a_wrong_option_is_named(options, says):
    with pytest.raises(ValueError, match=says):
        schedule([Request(0.0, 1, 2)], **options)


def test_groups_must_fit_their_side_and_the_acceptance():
    target, draft = serving_groups(WINDOW, BLOCK_SIZE, K)
    for groups in ((draft, draft), (target, target), ([], draft), (target, [])):
        with pytest.raises(ValueError, match=r"target|draft"):
            Schedule([], *groups, Acceptance(2.0, K))
    with pytest.raises(ValueError, match=r"draft holds 'draft\.0' with draft_tokens 3: it must be 4"):
        Schedule([], target, draft, Acceptance(2.0, K + 1))


def test_requests_out_of_order_are_refused():
    with pytest.raises(ValueError, match="arrival order"):
        schedule([Request(1.0, 1, 2), Request(0.0, 1, 2)])


def test_groups_may_differ_in_block_size_and_window():
    target = [WindowGroup("swa.0", 24, 8), WindowGroup("swa.1", 7, 16)]
    draft = [WindowGroup("draft.0", 128, 32, causal=False, draft_tokens=K)]
    served = Schedule(generated_trace(0, 20), target, draft, Acceptance(2.2, K), max_batch=4)
    for step in served:
        assert step.target.block_tables.shape[::2] == (2, step.draft.block_tables.shape[2])
    assert served.num_served == 20


def test_captured_sizes_are_those_of_engines():
    assert capture_sizes(1).tolist() == [1]
    assert capture_sizes(3).tolist() == [1, 2, 3]
    assert capture_sizes(8).tolist() == [1, 2, 4, 8]
    assert capture_sizes(20).tolist() == [1, 2, 4, 8, 16, 20]


def test_the_same_seed_gives_the_same_steps():
    runs = [
        [(s.time_s, s.kept.tolist()) for s in schedule(generated_trace(5, 10), seed=seed)]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
