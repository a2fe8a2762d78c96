"""Every wrong call: a ValueError that names the argument, with nothing launched and nothing written."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from machine import DEVICE
from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup, pack_topk
from onelaunch.groups import GroupBuffers
from onelaunch.launches import counting
from onelaunch.proof.compare import poison

TARGET = WindowGroup("swa.0", window=8, block_size=4)
DRAFT = WindowGroup("draft.0", window=8, block_size=4, causal=False, draft_tokens=2)
MAKER = WindowGroup("maker", window=8, block_size=4, make_slots=True)
ROWS, REQUESTS = 4, 2


def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=DEVICE)


def good_batch() -> DecodeBatch:
    return DecodeBatch(
        torch.tensor([0, 2, 4], dtype=torch.int32, device=DEVICE), zeros(2) + 9, ROWS, zeros(2)
    )


def good_inputs() -> dict[str, GroupInputs]:
    slots = zeros(ROWS, dtype=torch.int64)
    return {
        "swa.0": GroupInputs(zeros(REQUESTS, 3), slots),
        "draft.0": GroupInputs(zeros(REQUESTS, 3), slots),
        "maker": GroupInputs(zeros(REQUESTS, 3)),
    }


def builder(backend: str) -> StepBuilder:
    return StepBuilder([TARGET, DRAFT, MAKER], max_tokens=8, max_requests=3, device=DEVICE, backend=backend)


def outputs(builder: StepBuilder) -> list[torch.Tensor]:
    """A copy of everything that a build may write."""
    tensors = [builder.token_to_request]
    for group in builder.groups:
        buffers = builder.buffers(group.name)
        tensors += [getattr(buffers, field.name) for field in fields(buffers)]
    return [tensor.clone() for tensor in tensors if tensor is not None]


BATCHES = {
    "batch": [None, "a batch", (zeros(3), zeros(2), 4)],
    "num_tokens": [
        replace(good_batch(), num_tokens=value) for value in (9, -1, 4.0, True, None, torch.tensor(4))
    ],
    "query_start_loc": [
        replace(good_batch(), query_start_loc=value)
        for value in (
            None,
            [0, 2, 4],
            zeros(3, dtype=torch.int64),
            zeros(3, dtype=torch.float32),
            zeros(1, 3),
            zeros(0),
            zeros(5),  # 4 requests, one more than max_requests
            zeros(6)[::2],
            zeros(3).to("meta"),
        )
    ],
    "seq_lens": [
        replace(good_batch(), seq_lens=value)
        for value in (
            None,
            zeros(2, dtype=torch.int64),
            zeros(3),
            zeros(1),
            zeros(2, 1),
            zeros(4)[::2],
            zeros(2).to("meta"),
        )
    ],
    "replay_start": [
        replace(good_batch(), replay_start=value)
        for value in (0, zeros(2, dtype=torch.int64), zeros(3), zeros(4)[::2], zeros(2).to("meta"))
    ],
}

SLOTS = zeros(ROWS, dtype=torch.int64)
INPUTS = {
    "inputs": [None, [], [GroupInputs(zeros(2, 3), SLOTS)]],
    "'swa.0'": [
        {name: given for name, given in good_inputs().items() if name != "swa.0"},
        good_inputs() | {"swa.0": None},
        good_inputs() | {"swa.0": zeros(2, 3)},
    ],
    "'swa.9'": [good_inputs() | {"swa.9": good_inputs()["swa.0"]}],
    "block_table of 'draft.0'": [
        good_inputs() | {"draft.0": GroupInputs(value, SLOTS)}
        for value in (
            None,
            zeros(2, 3, dtype=torch.int64),
            zeros(1, 3),  # fewer rows than requests
            zeros(6),
            zeros(2, 3, 1),
            zeros(2, 6)[:, ::2],
            zeros(2, 3).to("meta"),
        )
    ],
    "slot_mapping of 'swa.0'": [
        good_inputs() | {"swa.0": GroupInputs(zeros(2, 3), value)}
        for value in (
            None,
            SLOTS.int(),
            SLOTS[:3],
            zeros(5, dtype=torch.int64),
            zeros(8, dtype=torch.int64)[::2],
            SLOTS.to("meta"),
        )
    ],
    "slot_mapping of 'maker'": [good_inputs() | {"maker": GroupInputs(zeros(2, 3), SLOTS)}],
}

WRONG = [(name, value, good_inputs()) for name, values in BATCHES.items() for value in values]
WRONG += [(name, good_batch(), value) for name, values in INPUTS.items() for value in values]


@pytest.mark.parametrize("backend", ["kernel", "reference"])
@pytest.mark.parametrize(("name", "batch", "inputs"), WRONG)
def test_a_wrong_build_names_the_argument_and_writes_nothing(backend, name, batch, inputs):
    wrong = builder(backend)
    poison(wrong)
    before = outputs(wrong)
    with counting() as launches, pytest.raises(ValueError) as error:
        wrong.build(batch, inputs)
    assert name in str(error.value)
    assert not launches
    assert all(map(torch.equal, outputs(wrong), before))


def test_a_wrong_call_after_a_good_one_is_still_refused():
    once_good = builder("reference")
    once_good.build(good_batch(), good_inputs())
    with pytest.raises(ValueError, match="num_tokens is 9"):
        once_good.build(replace(good_batch(), num_tokens=9), good_inputs())


BUILDERS = {
    "groups is empty": {"groups": []},
    "groups has the name 'swa.0' twice": {"groups": [TARGET, TARGET]},
    "groups holds a str": {"groups": ["swa.0"]},
    "max_tokens is 0": {"max_tokens": 0},
    "max_tokens is 8.0": {"max_tokens": 8.0},
    "max_tokens is 300000000 and group 'swa.0' is 8 wide": {"max_tokens": 300_000_000},
    "max_requests is -1": {"max_requests": -1},
    "max_requests is None": {"max_requests": None},
    "backend is 'triton'": {"backend": "triton"},
    "device is 'tpu'": {"device": "tpu"},
    "device is 'meta'": {"device": "meta"},
    "device is 'cuda:99'": {"device": "cuda:99"},
    "device is None": {"device": None},
    "buffers has the unknown group 'swa.1'": {"buffers": {"swa.1": None}},
}


@pytest.mark.parametrize("message", BUILDERS)
def test_a_wrong_builder_says_what_is_wrong(message):
    arguments = {
        "groups": [TARGET],
        "max_tokens": 8,
        "max_requests": 2,
        "device": DEVICE,
        **BUILDERS[message],
    }
    with pytest.raises(ValueError, match=message):
        StepBuilder(arguments.pop("groups"), **arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("is_valid", zeros(8)),
        ("indices", zeros(8, 8)),
        ("lengths", zeros(7)),
        ("lengths", zeros(9)[1:]),  # 4 bytes past an aligned address
        ("ragged_indices", None),
        ("ragged_indptr", zeros(8)),
        ("slot_mapping", zeros(8, dtype=torch.int64)),
    ],
)
def test_wrong_buffers_are_named(field, value):
    buffers = replace(GroupBuffers.allocate(TARGET, 8, DEVICE), **{field: value})
    with pytest.raises(ValueError, match=rf"{field} buffer of 'swa\.0'"):
        StepBuilder([TARGET], max_tokens=8, max_requests=2, device=DEVICE, buffers={"swa.0": buffers})


@pytest.mark.parametrize("value", [zeros(7), zeros(8, dtype=torch.int64), zeros(16)[::2], [0] * 8])
def test_a_wrong_token_map_is_named(value):
    with pytest.raises(ValueError, match="token_to_request"):
        StepBuilder([TARGET], max_tokens=8, max_requests=2, device=DEVICE, token_to_request=value)


def test_an_engines_own_token_map_is_written():
    own = zeros(8)
    one = StepBuilder([TARGET], max_tokens=8, max_requests=3, device=DEVICE, token_to_request=own)
    step = one.build(good_batch(), {"swa.0": good_inputs()["swa.0"]})
    assert own.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert step.token_to_request.data_ptr() == own.data_ptr()


def test_an_unknown_group_has_no_buffers():
    with pytest.raises(ValueError, match=r"name is 'swa\.9'"):
        builder("reference").buffers("swa.9")


def test_views_of_too_many_rows_are_refused():
    with pytest.raises(ValueError, match="num_tokens is 9"):
        builder("reference").views(9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "name is ''"),
        ({"name": 3}, "name is 3"),
        ({"window": 0}, "window is 0"),
        ({"window": 8.0}, "window is 8.0"),
        ({"block_size": 0}, "block_size is 0"),
        ({"block_size": True}, "block_size is True"),
        ({"block_size": 2**31}, "block_size is 2147483648: it must be an integer from 1 to 2147483647"),
        ({"causal": False}, "draft_tokens is None"),
        ({"causal": False, "draft_tokens": 0}, "draft_tokens is 0"),
        ({"draft_tokens": 6}, "draft_tokens is 6"),
    ],
)
def test_a_wrong_group_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        WindowGroup(**{"name": "swa.0", "window": 8, "block_size": 4, **arguments})


TOPK = {
    "topk_indices": zeros(3, 4),
    "token_to_request": zeros(3),
    "is_valid": zeros(3, dtype=torch.bool),
    "block_table": zeros(2, 5),
    "block_size": 4,
}


@pytest.mark.parametrize("backend", ["kernel", "reference"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topk_indices", None),
        ("topk_indices", zeros(3, 4).long()),
        ("topk_indices", zeros(12)),
        ("topk_indices", zeros(3, 8)[:, ::2]),
        ("topk_indices", zeros(3, 0)),
        ("topk_indices", zeros(3, 2049)),
        ("token_to_request", zeros(2)),
        ("token_to_request", zeros(3).long()),
        ("token_to_request", zeros(3).to("meta")),
        ("is_valid", zeros(3)),
        ("is_valid", zeros(4, dtype=torch.bool)),
        ("block_table", zeros(10)),
        ("block_table", zeros(2, 5).long()),
        ("block_table", zeros(2, 10)[:, ::2]),
        ("block_size", 0),
        ("block_size", 2.0),
        ("backend", "triton"),
    ],
)
def test_a_wrong_topk_pack_names_the_argument(backend, name, value):
    with counting() as launches, pytest.raises(ValueError, match=name):
        pack_topk(**{**TOPK, "backend": backend, name: value})
    assert not launches
