"""The order and the sums of the timings, with the device replaced by a list of what was run."""

from __future__ import annotations

import pytest
import torch

from onelaunch.bench import timing
from onelaunch.bench.arms import Arm
from onelaunch.bench.timing import Spread, cold_device_times, device_times, host_times

CPU = torch.device("cpu")


class Graph:
    """Recorded work; its replay runs it again, as the device would."""

    def __init__(self, run, times):
        self._run, self._times = run, times

    def replay(self):
        for _ in range(self._times):
            self._run()


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """What ran, in order. Each piece of work takes the microseconds that its name ends with."""
    ran: list[str] = []

    def elapsed_us(run):
        before = len(ran)
        run()
        return float(sum(int(name.split()[1]) for name in ran[before:]))

    monkeypatch.setattr(timing, "record", Graph)
    monkeypatch.setattr(timing, "elapsed_us", elapsed_us)
    monkeypatch.setattr(timing, "_Flush", lambda device: lambda: ran.append("flush 100"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: ran.append("busy 0"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: ran.append("idle 0"))
    return ran


def arm(ran: list[str], name: str, launches: int = 1, recorded: bool = False) -> Arm:
    return Arm(name, lambda: ran.append(name), launches, recorded)


def test_a_spread_is_the_median_and_the_deciles():
    assert Spread.of([float(i) for i in range(11)]) == Spread(5.0, 1.0, 9.0)
    assert Spread.of([4.0, 2.0]).median == 3.0


def test_arms_are_replayed_in_turn_and_a_step_is_a_share_of_its_graph(ran):
    times = device_times([arm(ran, "a 3"), arm(ran, "b 5")], rounds=2)
    assert times == {"a 3": Spread(3.0, 3.0, 3.0), "b 5": Spread(5.0, 5.0, 5.0)}
    # A round that is not counted, then two that are.
    assert ran == (["a 3"] * 20 + ["b 5"] * 20) * 3


def test_outputs_are_poisoned_between_recording_and_timing(ran, monkeypatch):
    def recorded(run, times):
        ran.append("record 0")
        return Graph(run, times)

    monkeypatch.setattr(timing, "record", recorded)
    monkeypatch.setattr(Arm, "poison", lambda arm: ran.append(f"poison {arm.name}"))
    monkeypatch.setattr(timing, "elapsed_us", lambda run: run() or 20.0)
    device_times([arm(ran, "a 3"), arm(ran, "b 5")], rounds=2)
    assert ran[:5] == ["record 0", "record 0", "poison a 3", "poison b 5", "a 3"]


def test_the_round_that_uploads_the_graphs_is_not_counted(ran, monkeypatch):
    elapsed = iter([9000.0, 20.0, 40.0])
    monkeypatch.setattr(timing, "elapsed_us", lambda run: next(elapsed))
    assert device_times([arm(ran, "a 1")], rounds=2)["a 1"].median == 1.5


def test_a_graph_is_not_recorded_in_another(ran, monkeypatch):
    def refuse(run, times):
        raise AssertionError("a replay can't be captured")

    monkeypatch.setattr(timing, "record", refuse)
    assert device_times([arm(ran, "a 3", recorded=True)], rounds=2)["a 3"].median == 3.0


def test_a_cold_step_is_flushed_before_and_timed_without_its_flush(ran):
    times = cold_device_times([arm(ran, "a 3"), arm(ran, "b 5", recorded=True)], 2, CPU)
    assert times == {"a 3": Spread(3.0, 3.0, 3.0)}  # a recorded arm has none
    assert ran[:10] == ["flush 100", "a 3"] * 5
    assert ran[10:15] == ["flush 100"] * 5


# 58 is the usual build's count: 6 steps are 348 launches. More than the limit are still one step.
@pytest.mark.parametrize(("launches", "steps"), [(1, 20), (2, 20), (58, 6), (400, 1), (1000, 1)])
def test_only_as_many_launches_are_enqueued_as_the_queue_holds(ran, launches, steps):
    host_times([arm(ran, "a 1", launches)], rounds=2)
    assert ran == ["busy 0", *["a 1"] * steps, "idle 0"] * 3


def test_host_times_are_of_one_step(ran, monkeypatch):
    clock = iter([0, 40_000] * 3)  # 40 us for 20 steps
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: next(clock))
    assert host_times([arm(ran, "a 1", 2)], rounds=2)["a 1"] == Spread(2.0, 2.0, 2.0)
