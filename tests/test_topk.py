"""The one-launch top-k pack against the plain-loop oracle."""

from __future__ import annotations

from collections import Counter

import pytest

from machine import DEVICE
from onelaunch import pack_topk
from onelaunch.kernels import topk as topk_kernel
from onelaunch.launches import counting
from onelaunch.proof.topk_cases import TopkCase, random_topk_case
from oracle import pack_topk as truth_of

LAST_BLOCK = 2**31 // 16 - 1

CASES = {
    "holes, a stale request, an entry past the table": TopkCase(
        topk=5,
        rows=((3, -1, 40), (), (1, 2, 3, 4, 5), (47, 48, 2**31 - 1)),
        token_to_request=(1, -7, 0, 1),
        block_table=((4, 0, 6), (7, -1, LAST_BLOCK)),
        block_size=16,
        padded_rows=(1,),
        stride_padding=3,
    ),
    "negative blocks, whose slots are negative and fit in int32": TopkCase(
        topk=4,
        rows=((0, 17, 35, 63),),
        token_to_request=(0,),
        block_table=((-1, -(2**31), -(2**27), -(2**27) - 1),),
        block_size=16,
    ),
    "2,048 entries": TopkCase(
        topk=2048,
        rows=(tuple(range(2048)), (5,), tuple(range(0, 4000, 2))),
        token_to_request=(0, 1, 0),
        block_table=(tuple(range(100, 132)), tuple(range(32))),
        block_size=128,
    ),
    "more rows than one program takes": TopkCase(
        topk=64,
        rows=tuple(tuple(range(row % 65)) for row in range(200)),
        token_to_request=tuple(row % 2 for row in range(200)),
        block_table=((9, 8), (7, 6)),
        block_size=32,
        padded_rows=(0, 100, 199),
    ),
    "no rows": TopkCase(topk=8, rows=(), token_to_request=(), block_table=((1,),), block_size=4),
}
CASES |= {f"seed {seed}": random_topk_case(seed) for seed in range(12)}


def pack_and_check(case: TopkCase, backend: str) -> Counter[str]:
    """The launches of a pack whose every output is what the definition says."""
    *tensors, block_size = case.arguments(DEVICE)
    with counting() as launches:
        got = pack_topk(*tensors, block_size, backend=backend)
    truth = truth_of(*(tensor.tolist() for tensor in tensors), block_size)
    assert got.lengths.tolist() == truth.lengths
    assert got.indptr.tolist() == truth.indptr
    assert got.ragged_indices.tolist()[: truth.indptr[-1]] == truth.ragged
    return launches


@pytest.mark.parametrize("name", CASES)
def test_one_launch_packs_as_the_definition_says(name):
    for _ in range(2):  # the second on what the first left in the scan's words
        assert pack_and_check(CASES[name], "kernel") == {"pack_topk": 1}


@pytest.mark.parametrize("name", CASES)
def test_the_usual_pack_is_made_as_the_definition_says(name):
    pack_and_check(CASES[name], "reference")


def test_programs_take_several_tiles_in_turn_where_rows_are_many(monkeypatch):
    monkeypatch.setattr(topk_kernel, "_PROGRAMS", 2)  # else it takes thousands of rows
    case = CASES["more rows than one program takes"]
    assert len(case.rows) > 4 * topk_kernel.topk_constants(case.topk, None)["ROWS"]
    pack_and_check(case, "kernel")


def test_the_usual_pack_takes_four_launches():
    with counting() as launches:
        pack_topk(*random_topk_case(3).arguments(DEVICE), backend="reference")
    assert launches == {"topk_lengths": 1, "topk_cumsum": 1, "topk_copy_indptr": 1, "topk_map": 1}


def test_auto_takes_the_usual_pack_on_a_cpu():
    with counting() as launches:
        pack_topk(*random_topk_case(3).arguments("cpu"))
    assert "pack_topk" not in launches
