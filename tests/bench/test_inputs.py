"""The benchmark's inputs, and its count of the bytes a build must move."""

from __future__ import annotations

import pytest
import torch

from onelaunch import StepBuilder, WindowGroup
from onelaunch.bench.inputs import ROWS, bytes_moved, step_inputs, window_groups

CPU = torch.device("cpu")


@pytest.mark.parametrize("rows", ROWS)
def test_requests_of_seven_rows_and_one_of_the_rest(rows):
    step = step_inputs(rows, CPU)
    assert sum(step.query_lens) == step.batch.num_tokens == rows
    assert set(step.query_lens[:-1]) <= {7}
    assert step.batch.query_start_loc.tolist()[-1] == rows
    assert step.batch.seq_lens.tolist() == list(step.seq_lens)
    for given in step.inputs.values():
        assert given.block_table.shape == (len(step.query_lens), 512)
        assert given.slot_mapping is not None
        assert given.slot_mapping.shape == (rows,)


def test_groups_are_four_of_the_target_and_three_of_the_draft():
    target, draft = window_groups(ragged=True)
    assert [group.width for group in (*target, *draft)] == [128] * 4 + [192] * 3


def test_bytes_of_a_step_worked_by_hand():
    step = step_inputs(9, CPU, context=1000)  # requests of 7 and 2 rows
    step_bytes = 4 * 9 + 4 * 3 + 4 * 2  # token map, query_start_loc, seq_lens
    target = WindowGroup("swa.0", window=128, block_size=1000, ragged=False)
    # Each request's windows touch one block of 1,000.
    dense = 9 * (1 + 4 * 128) + 4 * 50 + 8 * 9 + 4 * 2
    assert bytes_moved(step, [target], max_tokens=50) == step_bytes + dense
    ragged = WindowGroup("swa.0", window=128, block_size=1000)
    assert bytes_moved(step, [ragged], max_tokens=50) == step_bytes + dense + 4 * 9 * 128 + 4 * 10
    draft = WindowGroup("draft.0", window=128, block_size=1000, causal=False, draft_tokens=6)
    width = 9 * (1 + 4 * 192) + 4 * 50 + 8 * 9 + 4 * 2
    kept = 7 * (128 + 7) + 2 * (128 + 2)
    assert bytes_moved(step, [draft], max_tokens=50) == step_bytes + width + 4 * kept + 4 * 10


@pytest.mark.parametrize("context", [300, 1000])  # windows cut at the first token, and far from it
def test_bytes_are_those_of_a_counted_build(context):
    step = step_inputs(16, CPU, context=context)  # requests of 7, 7 and 2 rows
    for groups in window_groups(ragged=True):
        builder = StepBuilder(groups, max_tokens=64, max_requests=3, device=CPU, backend="reference")
        built = builder.build(step.batch, {group.name: step.inputs[group.name] for group in groups})
        total = 4 * (16 + 4 + 3)
        for group in groups:
            table = step.inputs[group.name].block_table
            read = set()
            for row, request in enumerate(built.token_to_request.tolist()):
                last = int(step.batch.seq_lens[request] - step.batch.query_start_loc[request + 1]) + row
                first = last - 127
                if not group.causal:
                    last = int(step.batch.seq_lens[request]) - 1
                    first = last + 1 - step.query_lens[request] - 128
                read |= {(request, position // 64) for position in range(max(first, 0), last + 1)}
            assert max(block for _, block in read) < table.shape[1]
            indptr = built[group.name].ragged_indptr
            assert indptr is not None
            outputs = 16 * (1 + 4 * group.width) + 4 * 64 + 4 * int(indptr[-1]) + 4 * 17
            total += outputs + 8 * 16 + 4 * len(read)
        assert bytes_moved(step, groups, max_tokens=64) == total
