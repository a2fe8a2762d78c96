"""Case files: what is written is read back, and what is wrong in one is named."""

from __future__ import annotations

import json

import pytest

from onelaunch.proof import case_file
from onelaunch.proof.random_cases import random_case, random_sequence, setups
from onelaunch.proof.topk_cases import random_topk_case

SETUPS = setups(large=False)


@pytest.mark.parametrize("seed", range(20))
def test_a_written_case_is_read_back_as_it_was(tmp_path, seed):
    steps = [*random_sequence(seed, SETUPS[seed % len(SETUPS)]), random_topk_case(seed), random_case(seed)]
    path = tmp_path / "a folder" / "case.json"
    case_file.write(path, steps)
    assert case_file.read(path) == steps


def test_a_small_case_fits_on_a_page():
    assert len(case_file.to_json([random_case(5, SETUPS[1], num_tokens=3)]).splitlines()) < 80


def plain(**changes) -> dict:
    group = {"group": {"name": "swa.0", "window": 8, "block_size": 4}, "columns": 3, "tables": [{}]}
    step = {
        "kind": "build",
        "requests": [{"query_len": 2, "seq_len": 9}],
        "groups": [group],
        "num_tokens": 2,
        "max_tokens": 4,
        "max_requests": 1,
    }
    return {"format": "onelaunch case", "version": 1, "steps": [step | changes]}


def test_a_plain_file_is_read():
    (case,) = case_file.from_json(json.dumps(plain()))
    assert case.num_rows == 2
    assert case.groups[0].group.width == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "case is not JSON"),
        ("[]", "format is not"),
        (json.dumps({"format": "another"}), "format is not"),
        (json.dumps(plain() | {"version": 2}), "version is 2"),
        (json.dumps(plain() | {"steps": []}), "steps is"),
        (json.dumps(plain(kind="prefill")), r"steps\[0\]\.kind must be one of build, topk"),
        (json.dumps(plain(rows=3)), r"steps\[0\]\.rows is unknown"),
        (json.dumps(plain(num_tokens="2")), r"steps\[0\]\.num_tokens is '2': it must be a int"),
        (json.dumps(plain(num_tokens=True)), r"steps\[0\]\.num_tokens is True"),
        (json.dumps(plain(num_tokens=5)), "num_tokens is 5: it must be from 2"),
        (json.dumps(plain(max_requests=0)), "requests has 1: it must have at most 0"),
        (json.dumps(plain(requests=[{"query_len": 2}])), r"requests\[0\]\.seq_len is missing"),
        (json.dumps(plain(requests=3)), r"requests is 3: it must be a list"),
        (json.dumps(plain(groups=[])), "groups is empty"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        case_file.read(path)
    assert str(error.value).startswith(str(path))
