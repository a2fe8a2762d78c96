"""Commands under their supervisor: nothing outlives it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from onelaunch.proof.processes.failure import ProcessFailed
from onelaunch.proof.processes.process import Process
from proof.ab.arena import running_with

SLEEP = "import sys, time; print('up', flush=True); time.sleep(1000)"
DEAF = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
)
# The parent ends at once; its child, in a session of its own, is nobody's.
ORPHAN = (
    "import subprocess, sys; "
    "subprocess.Popen([sys.executable, '-c', {code!r}, sys.argv[1]], start_new_session=True)"
)


@pytest.fixture
def word():
    """A word that only this test's processes have in their command lines."""
    return uuid.uuid4().hex


def python(code, word):
    return [sys.executable, "-S", "-c", code, word]


def until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in 10 s")


def started(tmp_path, code, word, stop_timeout=0.3):
    process = Process(python(code, word), tmp_path / "log", {}, stop_timeout)
    until(lambda: b"up" in (tmp_path / "log").read_bytes())
    return process


@pytest.mark.parametrize("code", [SLEEP, DEAF], ids=["heeds SIGINT", "heeds only SIGKILL"])
def test_a_stopped_command_is_gone(tmp_path, word, code):
    process = started(tmp_path, code, word)
    assert process.status() is None
    process.stop()
    assert running_with(word) == []


def test_a_child_in_a_session_of_its_own_is_stopped_with_its_parent(tmp_path, word):
    code = ORPHAN.format(code=DEAF) + "; import time; time.sleep(1000)"
    process = started(tmp_path, code, word)
    assert len(running_with("-c", word)) >= 2
    process.stop()
    assert running_with(word) == []


def test_orphans_of_a_command_that_ended_by_itself_are_stopped(tmp_path, word):
    process = Process(python(ORPHAN.format(code=SLEEP), word), tmp_path / "log", {}, 0.3)
    assert process.wait(10) == 0
    assert running_with(word) == []


def test_a_command_is_stopped_when_the_process_that_started_it_is_killed(tmp_path, word):
    starter = (
        "import sys, time; from pathlib import Path; from onelaunch.proof.processes.process import Process; "
        f"Process([sys.executable, '-c', {SLEEP!r}, sys.argv[2]], Path(sys.argv[1]), {{}}, 1.0); "
        "time.sleep(1000)"
    )
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", starter, str(log), word], env=environment)
    try:
        until(lambda: log.exists() and b"up" in log.read_bytes())
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not running_with(word))


def test_the_supervisor_passes_the_status_on(tmp_path):
    assert Process(python("raise SystemExit(3)", ""), tmp_path / "log", {}, 1.0).wait(10) == 3
    killed = python("import os; os.kill(os.getpid(), 9)", "")
    assert Process(killed, tmp_path / "log", {}, 1.0).wait(10) == 128 + 9


def test_a_command_that_is_not_there_says_so_in_its_log(tmp_path):
    assert Process(["/no/such/server"], tmp_path / "log", {}, 1.0).wait(10) == 127
    assert "/no/such/server can't be run: No such file" in (tmp_path / "log").read_text()


def test_output_errors_and_environment_reach_the_command(tmp_path):
    code = "import os, sys; print(os.environ['HALF']); print('bad', file=sys.stderr)"
    Process(python(code, ""), tmp_path / "log", {"HALF": "0,1"}, 1.0).wait(10)
    assert (tmp_path / "log").read_text().split() == ["0,1", "bad"]


def test_a_process_that_outlives_sigkill_is_a_failure_with_its_log(tmp_path, word, monkeypatch):
    process = started(tmp_path, SLEEP, word)
    real = process.wait
    monkeypatch.setattr(process, "wait", lambda seconds: 125 if real(seconds) == 0 else None)
    with pytest.raises(ProcessFailed, match=rf"can't be stopped.*{tmp_path}/log"):
        process.stop()


def test_a_second_ctrl_c_does_not_keep_a_command_running(tmp_path, word, monkeypatch):
    process = started(tmp_path, SLEEP, word)
    real, calls = process.wait, []

    def wait(seconds):
        calls.append(seconds)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(seconds)

    monkeypatch.setattr(process, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        process.stop()
    assert running_with(word) == []
