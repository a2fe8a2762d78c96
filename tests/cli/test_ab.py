"""``onelaunch ab`` as a command: its report, its refusals, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from onelaunch.cli import main
from onelaunch.cli.signals import signals_interrupt
from proof.ab.arena import FAKE_SERVER, free_ports, running_with

PLAN = """
rounds = {rounds}
runs = 1
warmup = 0
ports = {ports}
[timeouts]
start = 10
load = {load}
stop = 0.5
[load]
model = "m"
prompt_tokens = 4
max_tokens = {tokens}
requests_per_stream = 1
[arms.base]
server = "{python} -S {server} {{port}} {base}"
[arms.change]
server = "{python} -S {server} {{port}} {change}"
"""


@pytest.fixture
def plan(tmp_path):
    """Writes a plan and returns its path; its ports are in ``plan.ports``."""
    ports = free_ports()

    def write(base="good", change="good", rounds=4, load=10, tokens=4):
        path = tmp_path / "plan.toml"
        fields = {"base": base, "change": change, "rounds": rounds, "load": load, "tokens": tokens}
        path.write_text(PLAN.format(ports=ports, python=sys.executable, server=FAKE_SERVER, **fields))
        return path

    write.ports = ports
    return write


def run(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["ab", *map(str, arguments)])
    return exit_.value.code


def test_a_slower_change_is_found_and_reported_and_a_second_call_only_shows_it(plan, tmp_path, capsys):
    path = plan(change="good 0.05")  # base takes 5 ms a token
    assert run(path) == 0
    said = capsys.readouterr().out
    assert "1 in flight: change is slower" in said
    report = json.loads((tmp_path / "plan.ab" / "report.json").read_text())
    assert report["points"][0]["verdict"] == "slower"
    assert (tmp_path / "plan.ab" / "report.md").read_text() in said
    assert not any(running_with(port) for port in plan.ports)
    before = (tmp_path / "plan.ab" / "state.json").read_text()
    assert run(path) == 0
    assert "8 of 8 points are kept from before" in capsys.readouterr().err
    assert (tmp_path / "plan.ab" / "state.json").read_text() == before


def test_a_broken_server_is_a_failed_check_that_names_the_log_and_what_is_kept(plan, tmp_path, capsys):
    assert run(plan(change="dies-at-start"), "--out", tmp_path / "out") == 1
    *_, said = capsys.readouterr().err.splitlines()  # after the bar, in one line
    assert f"log: {tmp_path}/out/logs/round1-change-server.log" in said
    assert f"1 of 8 points are kept in {tmp_path}/out/state.json: the same command goes on" in said
    assert not (tmp_path / "out" / "report.md").exists()


def test_a_changed_plan_is_bad_input(plan, tmp_path, capsys):
    run(plan(change="dies-at-start"))
    capsys.readouterr()
    assert run(plan(change="dies-at-start", rounds=6)) == 2
    assert "rounds of the plan changed since" in capsys.readouterr().err


def test_gates_on_the_difference(plan, capsys):
    path = plan(change="good 0.05")
    assert run(path, "--expect-faster") == 1
    assert "change is not found faster at every point" in capsys.readouterr().err
    assert run(path, "--max-slowdown", 5) == 1
    assert "change may be more than 5% slower" in capsys.readouterr().err
    assert run(path, "--max-slowdown", 100_000) == 0


def test_a_plan_with_a_mistake_is_bad_input(plan, capsys):
    assert run(plan(rounds=3)) == 2
    assert "rounds is 3: it must be even" in capsys.readouterr().err


def test_a_plan_that_is_not_there_is_bad_input(tmp_path):
    assert run(tmp_path / "none.toml") == 2


def test_a_missing_package_is_named_before_anything_starts(plan, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert run(plan()) == 2
    assert "pip install onelaunch[proof]" in capsys.readouterr().err


def test_a_comparison_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_interrupt():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupt_leaves_no_server_running_and_says_what_was_kept(plan, tmp_path, number):
    # Change takes a minute for its first answer: the interrupt comes in the middle of a load run.
    path = plan(change="ignores-sigint 30", rounds=2, load=600, tokens=2)
    process = subprocess.Popen(
        [sys.executable, "-m", "onelaunch", "ab", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        state = tmp_path / "plan.ab" / "state.json"
        for _ in range(1000):
            if state.exists() and running_with(plan.ports[1]):
                break
            time.sleep(0.03)
        time.sleep(0.5)
        assert running_with(plan.ports[1])
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stopped: no server is left running; 1 of 4 points are kept in" in said
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    assert not any(running_with(port) for port in plan.ports)
    assert len(json.loads(state.read_text())["points"]) == 1
