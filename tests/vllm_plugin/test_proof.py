"""What has to be proven before the kernel builds alone, and what is left to vLLM."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

import onelaunch.vllm_plugin as plugin
from onelaunch.batch import GroupInputs
from onelaunch.builder import StepBuilder
from onelaunch.groups import WindowGroup
from onelaunch.kernels import launch
from onelaunch.vllm_plugin import guard, patches, plan, rehearsal, step, window
from onelaunch.vllm_plugin.window import Member
from vllm_plugin.fake_vllm import Engine, values, warnings

pytestmark = pytest.mark.usefixtures("vllm", "on")


def counts() -> dict[str, int]:
    return dict(plugin.status().counts)


def other_table(batch, inputs):
    return batch, GroupInputs(inputs.block_table.clone(), inputs.slot_mapping)


def other_slots(batch, inputs):
    return batch, GroupInputs(inputs.block_table, inputs.slot_mapping.clone())


def other_lengths(batch, inputs):
    return dataclasses.replace(batch, seq_lens=batch.seq_lens.clone()), inputs


@pytest.mark.parametrize("binding", ["decode_build", "draft_update"])
@pytest.mark.parametrize("change", [other_table, other_slots, other_lengths])
def test_a_launch_bound_to_copies_of_the_inputs_is_found_before_any_real_batch(monkeypatch, binding, change):
    # vLLM warms a shape up before it records it, but with padding alone, which is equal whatever is bound.
    bind = getattr(window, binding)

    def wrong(owner, builder, *call):
        batch, member = bind(owner, builder, *call)
        batch, inputs = change(batch, member.inputs)
        return batch, Member(member.owner, member.builder, inputs, member.causal)

    monkeypatch.setattr(window, binding, wrong)
    engine = Engine()
    engine.slot_mappings.fill_(-1)
    plugin.register()
    engine.build()
    assert plugin.status().disarmed is not None
    assert counts() == {"vllm": 2, "disarms": 1}


def test_a_recording_takes_updates_that_were_rehearsed_and_compared_once(monkeypatch):
    engine = Engine()
    plugin.register()
    built = engine.build()
    monkeypatch.setattr(step, "capturing", lambda device: True)
    engine.update(built)
    assert counts()["vllm"] == 2
    monkeypatch.setattr(step, "capturing", lambda device: False)
    engine.update(built)
    monkeypatch.setattr(step, "capturing", lambda device: True)
    engine.update(built)
    assert counts()["kernel"] == 2


def test_a_builder_that_vllm_never_updates_rehearses_builds_alone(monkeypatch):
    monkeypatch.setattr(Engine().builders[0].__class__, "supports_draft_decode_metadata_update", False)

    def broken(owner, builder, metadata):
        raise AssertionError("updated")

    monkeypatch.setattr(window, "draft_update", broken)
    engine = Engine()
    plugin.register()
    for _ in range(3):
        engine.build()
    assert counts()["kernel"] == 2


@pytest.mark.parametrize(
    ("most", "count"),
    # One batch alone; sizes that skip the middle shape; no real batch of the last; of any but the first.
    [(4096, 1), (4096, 2), (1024, 8), (7, 8)],
)
def test_every_launch_shape_is_rehearsed(most, count):
    ends = [64, 2048, 8192]
    sizes = rehearsal.sizes(ends, most, count)
    assert {next(end for end in ends if size <= end) for size in sizes} == set(ends)


@pytest.mark.parametrize("most", [1, 7, 300, 4096])
def test_a_rehearsals_batch_has_as_many_rows_as_its_requests_may_have(most):
    groups = (WindowGroup("g", window=128, block_size=64),)
    kernel = SimpleNamespace(max_requests=-(-most // 7), max_tokens=8192, groups=groups)
    for seed in range(10):
        case = rehearsal._case(SimpleNamespace(kernel=kernel), seed, most, 8192, 7)
        assert case.num_rows == most
        assert case.num_tokens == 8192


def test_each_launch_shape_is_rehearsed_and_armed_on_its_own(monkeypatch):
    usual, engine = Engine(max_tokens=80), Engine(max_tokens=80)
    kernel_rows = set()
    build = StepBuilder.build

    def noted(self, batch, inputs):
        kernel_rows.add(batch.num_tokens)
        return build(self, batch, inputs)

    monkeypatch.setattr(StepBuilder, "build", noted)
    plugin.register()
    engine.build()
    assert any(rows > 64 for rows in kernel_rows)
    for _ in range(2):
        engine.build()
    before = counts()
    assert before["kernel"] == 2
    for e in (usual, engine):
        e.pad(slots=66, rows=66)
    for _ in range(3):
        got = values(engine.build())
    after = counts()
    assert (after["verify"] - before["verify"], after["kernel"] - before["kernel"]) == (4, 2)
    patches.remove()
    assert got == values(usual.build())


def test_a_rehearsal_that_is_refused_leaves_the_groups_to_vllm_with_one_line(monkeypatch, caplog):
    compare = rehearsal._compare
    tried = []

    def refused(*args, **options):
        tried.append(args)
        if len(tried) == 2:
            raise ValueError("no such batch")
        compare(*args, **options)

    monkeypatch.setattr(rehearsal, "_compare", refused)
    usual, engine = Engine(), Engine()
    expected = values(usual.build())
    plugin.register()
    for _ in range(4):
        assert values(engine.build()) == expected
    assert len(tried) == 2
    assert counts() == {"vllm": 8}
    (line,) = warnings(caplog)
    assert "no such batch" in line
    assert plugin.status().disarmed is None


@pytest.mark.parametrize(("slots", "path"), [(64, "kernel"), (65, "vllm")])
def test_a_batch_of_mostly_padding_slots_is_left_to_vllm(slots, path):
    usual, engine = Engine(max_tokens=80), Engine(max_tokens=80)
    for e in (usual, engine):
        e.pad(slots, rows=5)
    expected = usual.build()
    plugin.register()
    for _ in range(3):
        got = engine.build()
        engine.update(got)
    assert values(got) == values(expected)
    assert counts()[path] >= 4
    assert ("kernel" in counts()) == (path == "kernel")


def test_updates_are_taken_with_the_groups_of_their_builds(caplog):
    usual, engine = Engine(groups=3), Engine(groups=3)
    for e in (usual, engine):
        e.attn_groups[2][0].kernel_block_size = 16  # its table is made just before its build
    expected = usual.build()
    plugin.register()
    got = engine.build()
    for _ in range(3):
        engine.update(got)
    patches.remove()
    usual.update(expected)
    assert values(got) == values(expected)
    assert counts() == {"verify": 3 + 2 * 3, "verified": 2 + 2 * 2, "kernel": 3}
    assert not warnings(caplog)


def test_an_update_of_groups_that_were_never_built_is_left_to_vllm_with_a_line(caplog):
    engine = Engine()
    built = engine.build()
    plugin.register()
    for _ in range(2):
        engine.update(built)
    assert counts() == {"vllm": 4}
    (line,) = warnings(caplog)
    assert "not rehearsed together" in line


def test_builds_are_vllms_after_a_disarm_and_still_counted():
    engine = Engine(groups=1)
    plugin.register()
    for _ in range(3):
        engine.update(engine.build())
    guard.disarm("a test")
    before = counts()
    assert before["kernel"] == 2
    engine.update(engine.build())
    assert counts() == {**before, "vllm": 2}


def test_rehearsals_are_not_counted_as_verified():
    plugin.register()
    Engine().build()
    assert counts() == {"verify": 2, "verified": 1}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_disarm_after_an_update_was_recorded_says_that_graphs_keep_it(monkeypatch, caplog, recorded):
    engine = Engine()
    plugin.register()
    built = engine.build()
    engine.update(built)
    monkeypatch.setattr(step, "capturing", lambda device: recorded)
    engine.update(built)
    guard.disarm("a test")
    lines = warnings(caplog)
    assert len(lines) == 1 + recorded
    assert ("CUDA graphs" in lines[-1]) == recorded


def plans() -> list[plan.Plan]:
    return [one for by_groups in plan._plans.values() for made in by_groups.values() for one in made]


def test_the_kernel_behind_is_not_started_early(monkeypatch):
    early = tuple(dataclasses.replace(tile, early=True) for tile in launch.INTERPRETED_TILES)
    monkeypatch.setattr(launch, "INTERPRETED_TILES", early)
    plugin.register()
    engine = Engine()
    engine.build()
    (made,) = plans()
    assert not any(tile.early for tile in made.kernel._launcher._tiles)


@pytest.mark.parametrize(
    "name", ["is_valid_token", "decode_swa_indices", "decode_swa_lens", "token_to_req_indices"]
)
def test_a_builder_that_gets_another_buffer_gets_another_plan_and_the_old_one_is_kept(name):
    engine = Engine()
    plugin.register()
    for _ in range(3):
        expected = values(engine.build())
    before = counts()["kernel"]
    (old,) = plans()
    addresses = weakref.ref(old.kernel._launcher._table)
    del old
    setattr(engine.builders[1], name, torch.zeros_like(getattr(engine.builders[1], name)))
    assert values(engine.build()) == expected
    assert counts()["kernel"] == before  # proven anew, from the start
    assert plugin.status().disarmed is None
    gc.collect()
    assert addresses() is not None, "a graph may still read it"
