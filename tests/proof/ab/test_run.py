"""Rounds with fake servers: what runs where, what each failure ends as, and what is never run again."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from onelaunch.proof.ab.load import Run
from onelaunch.proof.ab.report import make_report
from onelaunch.proof.ab.run import Comparison
from onelaunch.proof.ab.state import Point, State
from onelaunch.proof.processes.failure import ProcessFailed
from onelaunch.proof.processes.lock import locked
from proof.ab.arena import plan, running_with


def compare(plan, folder, progress=None):
    state = State(folder / "state.json", plan)
    Comparison(plan, state, folder / "logs", progress).run()
    return state


def kept(folder):
    path = folder / "state.json"
    return json.loads(path.read_text())["points"] if path.exists() else []


def no_server_runs(plan):
    return not any(running_with(port) for port in plan.ports)


def test_every_point_is_measured_once_with_its_own_prompts_and_no_server_is_left(tmp_path):
    small = plan(runs=2, warmup=1, concurrency=[1, 2])
    seen = []
    state = compare(small, tmp_path, seen.append)
    assert len(state.points) == 2 * 2 * 2
    point = state.points[1, "change", 2]
    assert len(point.runs) == 2
    assert (point.runs[0].requests, point.runs[0].output_tokens) == (4, 16)
    assert 0 < point.runs[0].inter_token_latency_us < 1e6
    assert no_server_runs(small)
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, 24, 24)
    seeds = {"base": [], "change": []}
    for path in (tmp_path / "logs").glob("*.json"):
        seeds[path.stem.split("-")[1]].append(json.loads(path.read_text())["seed"])
    assert sorted(seeds["base"]) == sorted(seeds["change"]) == list(range(12))
    seen.clear()
    compare(small, tmp_path, seen.append)
    assert seen == []


def test_halves_are_swapped_each_round_and_both_servers_run(tmp_path):
    whole = plan(halves=["0,1", "2,3"])
    state = compare(whole, tmp_path)
    halves = {}
    for (number, arm, _), point in state.points.items():
        said = (tmp_path / "logs" / f"round{number + 1}-{arm}-server.log").read_text()
        halves[number, arm] = said.split("CUDA_VISIBLE_DEVICES=")[1].split()[0]
        assert whole.halves[point.place] == halves[number, arm]
    assert halves == {(0, "base"): "0,1", (0, "change"): "2,3", (1, "base"): "2,3", (1, "change"): "0,1"}


def test_without_halves_the_arm_that_goes_first_is_swapped(tmp_path):
    seen = []
    state = compare(plan(), tmp_path, lambda now: seen.append(now.what))
    starts = [what for what in seen if "starting" in what]
    assert starts == [
        "round 1: starting base",
        "round 1: starting change",
        "round 2: starting change",
        "round 2: starting base",
    ]
    assert [state.points[number, "base", 1].place for number in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    ("mode", "message", "log"),
    [
        (
            "never-healthy",
            r"round 1, change: the server was not healthy after 1 s \(.*/health: status 503\)",
            "server",
        ),
        ("dies-at-start", "round 1, change: the server died with status 1 before it was healthy", "server"),
        ("dies-under-load", "round 1, change: the server died with status 7 during a load run", "server"),
        ("refuses", "round 1, change: the load run failed", "c1-1-load"),
        ("cuts-off", "round 1, change: the load run failed", "c1-1-load"),
        ("hangs", "round 1, change: the load run failed", "c1-1-load"),
    ],
)
def test_a_broken_server_ends_the_comparison_with_its_log_named(tmp_path, mode, message, log):
    broken = plan(change=mode, timeouts={"start": 1, "load": 1, "stop": 1})
    with pytest.raises(ProcessFailed, match=message) as error:
        compare(broken, tmp_path)
    assert f"log: {tmp_path}/logs/round1-change-{log}.log" in str(error.value)
    assert no_server_runs(broken)
    assert [(point["round"], point["arm"]) for point in kept(tmp_path)] == [(0, "base")]
    with pytest.raises(ValueError, match=r"3 points are missing, first round 1, change at 1"):
        make_report(broken, State(tmp_path / "state.json", broken).points)


def test_the_last_line_of_a_dead_servers_log_is_in_the_message(tmp_path):
    with pytest.raises(ProcessFailed, match="which ends: fake server: no such checkpoint"):
        compare(plan(base="dies-at-start"), tmp_path)


@pytest.mark.parametrize("mode", ["ignores-sigint", "ignores-all-but-sigkill", "leaves-children"])
def test_a_server_that_does_not_want_to_stop_is_stopped(tmp_path, mode):
    stubborn = plan(change=mode, timeouts={"stop": 0.3})
    compare(stubborn, tmp_path)
    assert no_server_runs(stubborn)


def test_a_taken_port_is_refused_before_another_server_is_measured(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ProcessFailed, match=f"round 1, base: something listens at port {taken}"):
            compare(plan(ports=[taken, taken + 1]), tmp_path)


def test_a_comparison_goes_on_where_it_broke_and_runs_no_finished_point_again(tmp_path):
    with pytest.raises(ProcessFailed):
        compare(plan(change="dies-under-load", runs=2), tmp_path)
    (before,) = kept(tmp_path)
    repaired = plan(change="good", runs=2)
    # The broken arm's command is part of the plan: here the server was repaired, so the state is told.
    state = json.loads((tmp_path / "state.json").read_text())
    state["plan"] = repaired.as_json()
    (tmp_path / "state.json").write_text(json.dumps(state))
    seen = []
    compare(repaired, tmp_path, lambda now: seen.append(now.what))
    assert kept(tmp_path)[0] == before
    assert seen[0] == "round 1: starting change"
    assert "round 1: starting base" not in seen
    assert len(kept(tmp_path)) == 4


def test_a_changed_plan_is_refused(tmp_path):
    run = Run(5000.0, 9000.0, 1, 4, 1.0)
    State(tmp_path / "state.json", plan()).add(Point(0, "base", 1, 0, "log", (run,)))
    with pytest.raises(ValueError, match=r"runs of the plan changed since .*state\.json was begun"):
        State(tmp_path / "state.json", plan(runs=2))


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 2, "plan": {}, "points": []}'])
def test_what_is_no_state_is_refused(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match=r"state\.json is no state of a comparison"):
        State(tmp_path / "state.json", plan())


def test_two_comparisons_do_not_write_to_one_folder(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(ValueError, match="another command is writing there"),
        locked(tmp_path),
    ):
        pass


def test_a_load_program_is_run_and_its_result_read(tmp_path):
    program = (
        "import json, sys; json.dump({'completed': 4, 'num_prompts': int(sys.argv[3]), "
        "'median_tpot_ms': 5.0, 'median_ttft_ms': 9.0, 'total_output_tokens': 16, 'duration': 1.5}, "
        "open(sys.argv[1], 'w'))"
    )
    command = [sys.executable, "-S", "-c", program, "{result}", "{base_url}", "{requests}", "{concurrency}"]
    with_program = plan(load={"client": "vllm", "command": command, "requests_per_stream": 4})
    state = compare(with_program, tmp_path)
    run = state.points[0, "base", 1].runs[0]
    assert (run.inter_token_latency_us, run.time_to_first_token_us, run.seconds) == (5000, 9000, 1.5)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('no GPU'); raise SystemExit(4)", r"the load program failed \(status 4; .*which ends: no GPU"),
        ("import time; time.sleep(1000)", r"the load program failed \(not done after 1 s"),
        ("pass", r"the load program wrote no .*round1-base-c1-1\.json"),
        ("import sys; open(sys.argv[1], 'w').write('{')", r"json can't be used"),
        ("import sys; open(sys.argv[1], 'w').write('{}')", "can't be used: it has no number completed"),
    ],
)
def test_a_load_program_that_fails_ends_the_comparison(tmp_path, program, message):
    command = [sys.executable, "-S", "-c", program, "{result}", "{base_url}", "{concurrency}"]
    broken = plan(load={"client": "vllm", "command": command}, timeouts={"start": 10, "load": 1, "stop": 1})
    with pytest.raises(ProcessFailed, match=message) as error:
        compare(broken, tmp_path)
    assert "round1-base-c1-1-load.log" in str(error.value)
    assert no_server_runs(broken)
    assert kept(tmp_path) == []


def test_the_result_of_an_earlier_attempt_is_not_taken_for_this_ones(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "round1-base-c1-1.json").write_text("{}")
    command = [sys.executable, "-S", "-c", "pass", "{result}", "{base_url}", "{concurrency}"]
    with pytest.raises(ProcessFailed, match="wrote no"):
        compare(plan(load={"client": "guidellm", "command": command}), tmp_path)
