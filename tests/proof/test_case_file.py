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


def request(**changes) -> dict:
    return {"query_len": 2, "seq_len": 9, **changes}


def group(**changes) -> dict:
    return plain()["steps"][0]["groups"][0] | changes


def topk(**changes) -> dict:
    step = {"kind": "topk", "topk": 2, "rows": [[1]], "token_to_request": [0], "block_table": [[3]]}
    return plain() | {"steps": [{**step, "block_size": 4, **changes}]}


def test_a_plain_file_is_read():
    (case,) = case_file.from_json(json.dumps(plain()))
    assert case.num_rows == 2
    assert case.groups[0].group.width == 8
    (case,) = case_file.from_json(json.dumps(topk()))
    assert case.rows == ((1,),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "case is not JSON"),
        ("[]", "format is not"),
        (json.dumps({"format": "another"}), "format is not"),
        (json.dumps(plain() | {"version": 2}), "version is 2"),
        (json.dumps(plain() | {"steps": []}), "steps is"),
        (json.dumps(plain() | {"steps": [3]}), r"steps\[0\] is 3: it must be an object"),
        (json.dumps(plain(kind="prefill")), r"steps\[0\]\.kind is 'prefill': it must be one of build, topk"),
        (json.dumps(plain(kind=[])), r"steps\[0\]\.kind is \[\]"),
        (json.dumps(plain(rows=3)), r"steps\[0\]\.rows is unknown"),
        (json.dumps(plain(num_tokens="2")), r"steps\[0\]\.num_tokens is '2': it must be of type int"),
        (json.dumps(plain(num_tokens=True)), r"steps\[0\]\.num_tokens is True"),
        (json.dumps(plain(num_tokens=5)), "num_tokens is 5: it must be from 2"),
        (json.dumps(plain(max_requests=0)), "requests has 1: it must have at most 0"),
        (json.dumps(plain(requests=[{"query_len": 2}])), r"requests\[0\]\.seq_len is missing"),
        (json.dumps(plain(requests=3)), r"requests is 3: it must be a list"),
        (json.dumps(plain(groups=[])), "groups is empty"),
        (json.dumps(plain(groups=[3])), r"groups\[0\] is 3: it must be an object"),
        (json.dumps(plain(requests=[request(query_len=-1)])), r"requests\[0\]: query_len is -1"),
        (json.dumps(plain(requests=[request(seq_len=2**31)])), r"requests\[0\]: seq_len is 2147483648"),
        (
            json.dumps(plain(requests=[request(replay_start=1.5)])),
            r"replay_start is 1.5: it must be of type int",
        ),
        (json.dumps(plain(requests=[request(replay_start=-(2**40))])), "replay_start is -1099511627776"),
        (
            json.dumps(plain(requests=[request(query_len=0), request()], max_requests=2)),
            "padding must come last",
        ),
        (json.dumps(plain(groups=[group(columns=-1)])), r"groups\[0\]: columns is -1"),
        (json.dumps(plain(groups=[group(stride_padding=-1)])), "stride_padding is -1"),
        (json.dumps(plain(groups=[group(spare_rows=-1)])), "spare_rows is -1"),
        (json.dumps(plain(groups=[group(filler=2**31)])), "filler is 2147483648"),
        (json.dumps(plain(groups=[group(slot_base=2**63)])), "slot_base is 9223372036854775808"),
        (json.dumps(plain(groups=[group(tables=[])])), "tables of 'swa.0' has 0 entries"),
        (json.dumps(plain(groups=[group(tables=[{"first": -1}])])), r"tables\[0\]: first is -1"),
        (
            json.dumps(plain(groups=[group(tables=[{"blocks": [2**31]}])])),
            r"tables\[0\]: blocks is 2147483648",
        ),
        (json.dumps(plain(groups=[group(tables=[{"blocks": ["1"]}])])), r"blocks\[0\] is '1'"),
        (json.dumps(plain(groups=[group(invalid_rows=[2])])), "invalid_rows of 'swa.0' has 2"),
        (json.dumps(plain(groups=[group(stale_rows=[0])])), "stale_rows of 'swa.0' has 0"),
        (json.dumps(plain(groups=[group(group={"name": "", "window": 8, "block_size": 4})])), "name is ''"),
        (json.dumps(plain(groups=[group(group={"window": 8, "block_size": 4})])), r"group\.name is missing"),
        (json.dumps(topk(topk=0)), "topk is 0"),
        (json.dumps(topk(topk=2049)), "topk is 2049"),
        (json.dumps(topk(rows=[[1, 2, 3]])), "rows has a row of more than topk = 2"),
        (json.dumps(topk(rows=[[2**31]])), "rows is 2147483648"),
        (json.dumps(topk(token_to_request=[])), "token_to_request has 0 entries"),
        (json.dumps(topk(token_to_request=[1])), r"token_to_request\[0\] is 1"),
        (json.dumps(topk(token_to_request=[2**31], padded_rows=[0])), "token_to_request is 2147483648"),
        (json.dumps(topk(block_table=[[1], [1, 2]])), "block_table has rows of different lengths"),
        (json.dumps(topk(block_table=[[-(2**31) - 1]])), "block_table is -2147483649"),
        (json.dumps(topk(padded_rows=[1])), "padded_rows is 1"),
        (json.dumps(topk(stride_padding=-1)), "stride_padding is -1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        case_file.read(path)
    assert str(error.value).startswith(str(path))
