"""Steps of traces without annotations, from their graph launches."""

from __future__ import annotations

import pytest

from onelaunch.proof.profile.count import count_launches
from onelaunch.proof.profile.report import to_json
from onelaunch.proof.profile.trace import read_trace
from proof.profile.traces import TraceMaker


@pytest.fixture
def counted(tmp_path):
    return lambda maker: to_json(count_launches(read_trace(maker.write(tmp_path / "t.json"))))


@pytest.mark.parametrize(("before", "after"), [(3, 0), (0, 3), (2, 1), (0, 0)])
@pytest.mark.parametrize("pause", [10, 500])
def test_launches_before_and_after_the_graph_are_of_its_step(counted, before, after, pause):
    maker, at = TraceMaker(), 0
    for _ in range(5):
        for _ in range(before):
            maker.launch("before", at := at + 10)
        maker.graph(["n", "m"], at := at + 10)
        for _ in range(after):
            maker.launch("after", at := at + 10)
        at += pause - 10
    found = counted(maker)
    assert (found["steps"], found["steps_from"]) == (5, "each cudaGraphLaunch")
    assert found["launches"] == {"mode": before + after + 1, "share": 1.0, "others": {}}


def test_a_trace_that_starts_and_ends_in_a_step_is_cut_where_the_host_waits(counted):
    maker, at = TraceMaker(), 0
    order = ["before", "before", None, "after", "wait"] * 6
    for name in order[1:-2]:  # without the first "before" and the last "after"
        if name == "wait":
            at += 800
        elif name is None:
            maker.graph(["n"], at := at + 10)
        else:
            maker.launch(name, at := at + 10)
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"], found["launches"]["share"]) == (4, 4, 1.0)


def test_steps_of_differing_counts_all_stay(counted):
    maker, at = TraceMaker(), 0
    for eager in (6, 8, 8, 6, 8, 7):
        for _ in range(eager):
            maker.launch("k", at := at + 10)
        maker.graph(["n"], at := at + 10)
        at += 500
    assert counted(maker)["launches"] == {"mode": 9, "share": 0.5, "others": {"7": 2, "8": 1}}


def test_a_prefill_at_the_start_is_no_step(counted):
    maker, at = TraceMaker(), 0
    for _ in range(40):
        maker.launch("prefill", at := at + 10)
    for _ in range(4):
        at += 500
        maker.launch("k", at := at + 10)
        maker.graph(["n"], at := at + 10, "hipGraphLaunch")
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"], found["launches"]["share"]) == (4, 2, 1.0)
    assert set(found["kernels"]) == {"k"}


def test_of_a_target_and_a_draft_graph_the_step_is_the_targets(counted):
    maker, at = TraceMaker(), 0
    for _ in range(6):
        maker.launch("k", at := at + 10)
        maker.graph(["gemm"] * 6, at := at + 10)
        for _ in range(3):
            maker.graph(["small"], at := at + 10)
        at += 500
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"], found["graph_launches"]) == (6, 5, 4)
    assert found["steps_from"] == "the repeating cudaGraphLaunch"


def test_one_graph_launch_does_not_repeat(counted):
    maker = TraceMaker()
    maker.graph(["n"], 10)
    with pytest.raises(ValueError, match="no decode steps"):
        counted(maker)
