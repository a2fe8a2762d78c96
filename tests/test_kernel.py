"""The one-launch build against the plain-loop oracle.

Few cases, each for something that a build like this has got wrong somewhere: they must do in Triton's
interpreter. The bulk runs on a GPU.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch

from machine import DEVICE
from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup
from onelaunch.kernels import launch
from onelaunch.kernels.launch import Tile
from onelaunch.kernels.scan import LAST_GENERATION
from onelaunch.launches import counting
from onelaunch.proof.compare import POISON, poison
from onelaunch.proof.random_cases import random_sequence, setups
from oracle import check_step

TARGET = WindowGroup("swa.0", window=128, block_size=64)
DRAFT = WindowGroup("draft.0", window=128, block_size=64, causal=False, draft_tokens=6)


@pytest.fixture(params=["this machine's tiles", "a GPU's tiles"])
def tiles(request, monkeypatch):
    """Where kernels are interpreted, programs are larger than on a GPU: these tests run both."""
    if request.param == "a GPU's tiles":
        if DEVICE.type != "cpu":
            pytest.skip("this machine's tiles are a GPU's")
        monkeypatch.setattr(launch, "INTERPRETED_TILES", launch.TILES)


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def table(requests: int, columns: int, holes: float = 0.0, seed: int = 0) -> torch.Tensor:
    """[requests, columns] int32: random blocks, the given share of them -1."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 5000, (requests, columns), generator=generator)
    blocks[torch.rand(requests, columns, generator=generator) < holes] = -1
    return blocks.int().to(DEVICE)


def slots(valid: int, rows: int) -> torch.Tensor:
    """[rows] int64: the first ``valid`` rows have one."""
    row = torch.arange(rows)
    return torch.where(row < valid, row + 1000, -1).to(DEVICE)


def builder(*groups: WindowGroup, max_tokens: int = 1100, max_requests: int = 160) -> StepBuilder:
    return StepBuilder(
        groups, max_tokens=max_tokens, max_requests=max_requests, device=DEVICE, backend="kernel"
    )


def build_and_check(builder: StepBuilder, batch: DecodeBatch, inputs: dict[str, GroupInputs]) -> None:
    poison(builder)
    with counting() as launches:
        step = builder.build(batch, inputs)
    assert launches == {"build_step": 1}
    assert step.backend == "kernel"
    check_step(builder, step, batch, inputs, POISON)


@pytest.mark.parametrize("setup", range(len(setups(large=False))))
def test_one_step_after_another_on_one_builder(setup):
    # Full, 3 rows, none, most, and 12 rows three times: what an earlier step left must not show.
    steps = random_sequence(setup, setups(large=False)[setup])
    groups, max_tokens, max_requests = steps[0].setup
    kernel = builder(*groups, max_tokens=max_tokens, max_requests=max_requests)
    for case in steps:
        build_and_check(kernel, case.batch(DEVICE), case.inputs(DEVICE))


@pytest.mark.parametrize("seq_len", [127, 128, 129, 191, 192, 193])
def test_windows_around_their_size_and_around_a_block_more(seq_len):
    # 6 rows so that the first row's window starts inside a block and ends in the next but one.
    batch = DecodeBatch(int32(0, 6, 7), int32(seq_len, seq_len), 7)
    inputs = {name: GroupInputs(table(2, 4), slots(7, 7)) for name in ("swa.0", "draft.0")}
    build_and_check(builder(TARGET, DRAFT), batch, inputs)


@pytest.mark.usefixtures("tiles")
def test_holes_padded_rows_and_short_tables_in_the_middle_of_a_batch():
    counts = [3, 1, 8, 2, 5, 1]
    rows = sum(counts)
    starts = int32(0, *accumulate(counts))
    batch = DecodeBatch(starts, int32(300, 1, 260, 190, 500, 64), rows + 3, int32(200, 0, 255, 400, 0, 0))
    valid = slots(rows, rows + 3)
    valid[[1, 5, 9]] = -1
    inputs = {
        "swa.0": GroupInputs(table(6, 5, holes=0.4), valid),  # 5 blocks are 320 positions, less than 500
        "draft.0": GroupInputs(table(6, 5, holes=0.4, seed=1), valid),
    }
    build_and_check(builder(TARGET, DRAFT), batch, inputs)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        ([2, 1, 3, 0, 0, 0], 6),  # as many rows as requests, and not one each
        ([0, 0, 0], 5),  # a graph's dummy batch: padding only
        ([1] * 70, 70),  # more requests than are loaded at once
        ([8] * 9 + [1] * 60, 140),  # requests are not where an even spread would have them
        ([5, 2] + [0] * 120, 40),  # a few requests in a graph made for many
        ([7] * 20, 140),
    ],
)
def test_requests_are_found_however_rows_are_spread(counts, rows):
    starts = int32(0, *accumulate(counts))
    seq_lens = int32(*(150 + 3 * i for i in range(len(counts))))
    batch = DecodeBatch(starts, seq_lens, rows)
    inputs = {"swa.0": GroupInputs(table(len(counts), 9), slots(sum(counts), rows))}
    build_and_check(builder(TARGET), batch, inputs)


def test_slots_just_under_two_to_the_31():
    last = 2**31 // 64 - 1
    batch = DecodeBatch(int32(0, 3), int32(160), 3)
    inputs = {"swa.0": GroupInputs(int32(last, last - 1, last).view(1, 3), slots(3, 3))}
    build_and_check(builder(TARGET), batch, inputs)


def test_the_most_negative_block_wraps_to_no_slot():
    batch = DecodeBatch(int32(0, 2), int32(100), 2)
    inputs = {"swa.0": GroupInputs(int32(-(2**31), -1).view(1, 2), slots(2, 2))}
    build_and_check(builder(TARGET), batch, inputs)


@pytest.mark.parametrize(
    "group",
    [
        TARGET,
        DRAFT,
        WindowGroup("maker", window=128, block_size=64, make_slots=True),
        WindowGroup("wide", window=1000, block_size=64),
    ],
    ids=lambda group: group.name,
)
@pytest.mark.parametrize("extreme", [2**31 - 1, 2**31 - 64, 2**31 - 1000, -(2**31), -(2**31) + 2])
def test_no_seq_len_and_no_replay_start_makes_an_offset_wrap(group, extreme):
    # Products and differences of positions that pass 2^31 would read outside the table.
    batch = DecodeBatch(int32(0, 3, 5, 7, 9), int32(extreme, 100, 1, 100), 9, int32(0, extreme, 2**31 - 1, 0))
    valid = slots(9, 9)
    valid[1] = -1
    inputs = {group.name: GroupInputs(table(4, 4), None if group.make_slots else valid)}
    build_and_check(builder(group), batch, inputs)


def test_the_last_position_of_the_longest_sequence_has_its_block():
    group = WindowGroup("long blocks", window=128, block_size=2**20)
    batch = DecodeBatch(int32(0, 2), int32(2**31 - 1), 2)
    blocks = torch.arange(2048, dtype=torch.int32, device=DEVICE).flip(0)[None]
    build_and_check(builder(group), batch, {"long blocks": GroupInputs(blocks, slots(2, 2))})


def test_a_table_that_reaches_past_two_to_the_31_positions():
    # 4,100 blocks of 2^20: as int32 their product is small, and positions would seem to be past the table.
    group = WindowGroup("long blocks", window=128, block_size=2**20)
    batch = DecodeBatch(int32(0, 2, 4), int32(2**20 + 50, 2**31 - 2**21), 4)
    blocks = torch.arange(4100, dtype=torch.int32, device=DEVICE).flip(0)[None] % 2048
    inputs = {"long blocks": GroupInputs(blocks.expand(2, 4100), slots(4, 4))}
    build_and_check(builder(group), batch, inputs)


@pytest.mark.parametrize("seq_len", [255, 256, 257, 258, 320, 321])
def test_a_row_at_or_past_the_end_of_its_table_is_given_no_slot(seq_len):
    # The columns past the four of the table hold blocks that must not be read.
    maker = WindowGroup("maker", window=128, block_size=64, make_slots=True)
    batch = DecodeBatch(int32(0, 3, 5), int32(seq_len, 200), 5)
    build_and_check(builder(maker), batch, {"maker": GroupInputs(table(2, 6)[:, :4])})


def test_tables_with_strides_and_spare_rows_are_read_where_they_are():
    wide = table(5, 12)
    batch = DecodeBatch(int32(0, 4, 8), int32(200, 150), 8)
    inputs = {"swa.0": GroupInputs(wide[:, 2:6], slots(8, 8))}
    build_and_check(builder(TARGET), batch, inputs)


def test_block_tables_of_a_million_tokens():
    requests, columns = 256, 16_384
    starts = torch.arange(requests + 1, dtype=torch.int32, device=DEVICE)
    seq_lens = columns * 64 - torch.arange(requests, dtype=torch.int32, device=DEVICE)
    batch = DecodeBatch(starts, seq_lens, requests)
    inputs = {"swa.0": GroupInputs(table(requests, columns), slots(requests, requests))}
    build_and_check(builder(TARGET, max_requests=requests), batch, inputs)


def test_a_window_too_wide_to_keep_in_registers():
    group = WindowGroup("wide", window=300, block_size=16)
    batch = DecodeBatch(int32(0, 2, 3), int32(350, 20), 3)
    blocks = table(2, 22, holes=0.2)
    blocks[:, 1::4] = 0  # the null block is no hole
    build_and_check(builder(group), batch, {"wide": GroupInputs(blocks, slots(3, 3))})


@pytest.mark.usefixtures("tiles")
def test_generations_start_again_before_they_overflow():
    kernel = builder(TARGET, max_tokens=200)
    assert kernel._launcher is not None
    kernel._launcher._words[:, 0] = LAST_GENERATION.value - 1
    batch = DecodeBatch(int32(*range(0, 141, 2)), int32(*range(100, 170)), 140)
    inputs = {"swa.0": GroupInputs(table(70, 3), slots(140, 140))}
    for generation in (LAST_GENERATION.value, 1, 2):
        build_and_check(kernel, batch, inputs)
        assert kernel._launcher._words[0, 0] == generation


def test_counts_of_several_teams_add_up_in_one_launch_after_another(monkeypatch):
    # A program a row: 66 of them are a full team and two more, as of 264 rows on a GPU. Team words take
    # turns: what a launch fails to clear shows in the next but one.
    monkeypatch.setattr(launch, "INTERPRETED_TILES", (Tile(2**31 - 1, rows=1, num_warps=1, early=False),))
    kernel = builder(WindowGroup("swa.0", window=8, block_size=4), max_tokens=150)
    inputs = {"swa.0": GroupInputs(table(22, 3, holes=0.1), slots(66, 66))}
    for seq_len in (12, 5, 9):
        batch = DecodeBatch(int32(*range(0, 67, 3)), int32(*[seq_len] * 22), 66)
        build_and_check(kernel, batch, inputs)


def test_inputs_may_change_between_calls_with_the_same_tensors():
    kernel = builder(TARGET)
    batch = DecodeBatch(int32(0, 2, 4), int32(200, 90), 4)
    inputs = {"swa.0": GroupInputs(table(2, 4), slots(4, 4))}
    build_and_check(kernel, batch, inputs)
    batch.query_start_loc.copy_(int32(0, 1, 4))
    batch.seq_lens.copy_(int32(7, 256))
    inputs["swa.0"].block_table.add_(1)
    build_and_check(kernel, batch, inputs)


def test_buffers_keep_their_addresses_and_views_show_them():
    kernel = builder(TARGET)
    batch = DecodeBatch(int32(0, 2), int32(200), 2)
    inputs = {"swa.0": GroupInputs(table(1, 4), slots(2, 2))}
    before = kernel.buffers("swa.0").indices.data_ptr()
    step = kernel.build(batch, inputs)
    assert step["swa.0"].indices.data_ptr() == kernel.buffers("swa.0").indices.data_ptr() == before
    assert step["swa.0"].indices.shape == (2, 1, 128)
    assert step["swa.0"].ragged_indices.shape == (256,)
    assert kernel.views(2) is step


def test_launch_shapes_end_at_the_builders_rows():
    group = WindowGroup("swa.0", window=8, block_size=4)

    def shapes(max_tokens, backend="kernel"):
        builder = StepBuilder([group], max_tokens=max_tokens, max_requests=4, device=DEVICE, backend=backend)
        return builder.launch_shapes

    assert shapes(8) == (8,)
    assert shapes(5000)[-1] == 5000 and list(shapes(5000)) == sorted(set(shapes(5000)))
    assert len(shapes(5000)) > 1
    assert shapes(5000, "reference") == ()
