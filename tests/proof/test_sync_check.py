"""Programs run by ``onelaunch sync-check``: real ones on a CPU, and one whose torch plays a GPU's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import typer

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.sync_check import sync_check

SRC = Path(__file__).parents[2] / "src"
FAKE_TORCH = Path(__file__).parent / "fake_gpu" / "site-packages"

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
app.command("sync-check", context_settings={"allow_interspersed_args": False})(sync_check)


class Checked:
    """A checked program: how it ended, and what was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status: int | None = None
        self.error = ""

    def __call__(self, program: str | list[str], *options: str) -> Checked:
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        if isinstance(program, str):
            (self.folder / "program.py").write_text(textwrap.dedent(program))
            program = [sys.executable, "program.py"]
        self.status, self.error = 0, ""
        try:
            self.status = app([*options, "--json", str(out), "--", *program], standalone_mode=False) or 0
        except CheckFailed as error:
            self.status, self.error = 1, str(error)
        except ValueError as error:
            self.status, self.error = 2, str(error)
        self.report = json.loads(out.read_text()) if out.exists() else {}
        return self

    @property
    def found(self) -> dict[str, int]:
        """Count by call and source line."""
        return {f"{place['what']}: {place['source']}": place["count"] for place in self.report["places"]}


@pytest.fixture
def check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Checked(tmp_path)


@pytest.fixture
def on_fake_gpu(check, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE_TORCH), str(SRC)]))
    return check


def test_a_loop_that_reads_threads_and_a_forked_child_are_found_with_their_stacks(check, capfd):
    check(
        """
        import atexit, multiprocessing, threading
        import torch

        class Own(threading.Thread):
            def run(self):
                one.item()  # in a subclass

        def read():
            one.item()  # by target

        def forked():
            one.tolist()  # forked

        def step(x):
            y = x * 2
            return y.sum().item()  # in a loop

        if __name__ == "__main__":
            one = torch.tensor(1)
            atexit.register(lambda: one.item())
            for _ in range(3):
                step(torch.ones(4))
            for thread in (Own(), threading.Thread(target=read, name="reader")):
                thread.start()
                thread.join()
            child = multiprocessing.get_context("fork").Process(target=forked)
            child.start()
            child.join()
            print("x", child.exitcode)
        """,
        "--device",
        "cpu",
    )
    assert (check.status, check.error) == (1, "6 synchronisations after warm-up")
    assert check.found == {
        "item: return y.sum().item()  # in a loop": 3,
        "item: one.item()  # in a subclass": 1,
        "item: one.item()  # by target": 1,
        "tolist: one.tolist()  # forked": 1,
    }
    loop = check.report["places"][0]
    assert [frame["function"] for frame in loop["stack"]] == ["<module>", "step"]
    assert loop["where"].endswith("program.py:17")
    assert {"reader"} in [set(place["threads"]) for place in check.report["places"]]
    forked = next(place for place in check.report["places"] if place["what"] == "tolist")
    assert len(check.report["devices"]) == 2
    assert forked["processes"] != loop["processes"]
    said = capfd.readouterr().out
    assert said.startswith("x 0\n")  # the program's own output
    assert "# in a loop" in said and "6 after warm-up" in said


def test_a_clean_program_passes_though_it_and_another_that_it_starts_read_while_warming(check):
    check(
        """
        import subprocess, sys
        import torch
        from onelaunch.syncs import allowed, warmed_up

        subprocess.run([sys.executable, "-c", "import torch; torch.ones(1).item()"], check=True)
        torch.ones(2).sum().item()
        warmed_up()
        for _ in range(3):
            torch.ones(2) * 2
        with allowed("its result"):
            torch.ones(1).item()
        """
    )
    assert (check.status, check.error) == (0, "")
    assert (check.report["after_warmup"], check.report["not_counted"]) == (0, 2)
    assert sorted(check.report["devices"].values()) == ["cpu", "cpu"]


def test_a_subprocess_below_a_shell_is_watched(check):
    inner = "import torch; x = torch.ones(1); x.item()"
    check(["sh", "-c", f'echo begin; {sys.executable} -c "{inner}"; echo end'])
    assert check.status == 1
    assert check.report["places"][0]["what"] == "item"


def test_a_program_without_torch_runs_as_ever_and_is_not_taken_for_a_clean_one(check, capfd):
    (check.folder / "sitecustomize.py").write_text("print('the hidden sitecustomize')")
    os.environ["PYTHONPATH"] = str(check.folder)
    check("import sys; print(any('sync_check' in path for path in sys.path), 'torch' in sys.modules)")
    assert capfd.readouterr().out.startswith("the hidden sitecustomize\nFalse False\n")
    assert check.status == 2
    assert "no Python process that could be watched imported torch" in check.error


def test_a_python_that_has_no_torch_can_ask_for_it_and_a_broken_one_raises_its_own_error(check, capfd):
    (check.folder / "torch.py").write_text("import nothing_like_it")
    assert check("import torch").status == 1
    said = capfd.readouterr().err
    assert "ModuleNotFoundError: No module named 'nothing_like_it'" in said
    assert "the command failed with exit status 1" in said


@pytest.mark.parametrize(
    ("ends", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("os._exit(3)", 3)]
)
def test_a_program_that_fails_gives_its_own_status_and_what_was_recorded(on_fake_gpu, capfd, ends, status):
    on_fake_gpu(f"import os, sys, torch; torch.cuda.init(); torch.wait(); {ends}")
    assert on_fake_gpu.status == status
    assert on_fake_gpu.report["exit_status"] == status
    assert on_fake_gpu.report["after_warmup"] == 1
    said = capfd.readouterr().err
    assert f"the command failed with exit status {status}; 1 synchronisation after warm-up till then" in said


def test_a_program_that_is_not_there_is_bad_input(check):
    assert check(["no-such-program-here"]).status == 2
    assert check.error == "no-such-program-here can't be run: there is no such program"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "tpu"], "device is 'tpu': it must be one of auto, cuda, cpu"),
        (["--step", "module"], "step is 'module': it must be MODULE:FUNCTION"),
        (["--warmup-steps", "2"], "warmup-steps are of --step"),
        (["--after", ""], "after is empty"),
    ],
)
def test_options_that_say_nothing_are_refused_before_anything_runs(check, options, message):
    check("open('ran', 'w')", *options)
    assert check.status == 2 and message in check.error
    assert not (check.folder / "ran").exists()


def test_on_a_gpu_warnings_and_named_waits_are_each_counted_once_in_every_thread(on_fake_gpu, capfd):
    on_fake_gpu(
        """
        import threading, torch
        assert not torch.cuda.started  # importing it does not start CUDA
        torch.wait()  # no GPU yet
        torch.cuda.init()
        torch.wait()  # a read
        torch.cuda.synchronize()
        torch.cuda.Event().synchronize()
        torch.cuda.Stream().synchronize()
        thread = threading.Thread(target=lambda: torch.wait())
        thread.start()
        thread.join()
        """
    )
    assert on_fake_gpu.status == 1
    assert list(on_fake_gpu.report["devices"].values()) == ["cuda"]
    found = on_fake_gpu.found
    assert found.pop("torch.cuda.synchronize: torch.cuda.synchronize()") == 1
    assert found.pop("torch.cuda.Event.synchronize: torch.cuda.Event().synchronize()") == 1
    assert found.pop("torch.cuda.Stream.synchronize: torch.cuda.Stream().synchronize()") == 1
    assert found == {
        "a call that waits: torch.wait()  # a read": 1,
        "a call that waits: thread = threading.Thread(target=lambda: torch.wait())": 1,
    }
    assert on_fake_gpu.report["after_warmup"] == 5
    assert "synchronizing CUDA operation" not in capfd.readouterr().err


def test_what_a_program_does_with_warnings_hides_no_wait_and_raises_none(on_fake_gpu, capfd):
    on_fake_gpu(
        """
        import warnings, torch
        torch.cuda.init()
        for action in ("ignore", "error"):
            with warnings.catch_warnings():
                warnings.simplefilter(action)
                torch.wait()
        with warnings.catch_warnings(record=True) as caught:
            torch.wait()
            warnings.warn("its own")
        assert [str(one.message) for one in caught] == ["its own"]
        warnings.resetwarnings()
        for _ in range(3):
            torch.wait()
        """
    )
    assert (on_fake_gpu.status, on_fake_gpu.report["after_warmup"]) == (1, 6)
    assert capfd.readouterr().err == ""


def test_a_test_run_by_pytest_is_watched(on_fake_gpu):
    (on_fake_gpu.folder / "test_it.py").write_text(
        "import torch\ndef test():\n    torch.cuda.init()\n    torch.wait()\n"
    )
    on_fake_gpu([sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_it.py"])
    assert on_fake_gpu.report["exit_status"] == 0
    assert (on_fake_gpu.status, on_fake_gpu.report["after_warmup"]) == (1, 1)


def test_a_program_that_looks_for_its_own_waits_still_gets_them(on_fake_gpu):
    on_fake_gpu(
        """
        import warnings, torch
        torch.cuda.init()
        assert torch.cuda.get_sync_debug_mode() == 0
        with warnings.catch_warnings(record=True) as caught:
            torch.cuda.set_sync_debug_mode("warn")
            assert torch.cuda.get_sync_debug_mode() == 1
            torch.wait()
            assert "synchronizing" in str(caught[-1].message)
            num = len(caught)
            torch.cuda.set_sync_debug_mode("default")
            torch.wait()
            assert len(caught) == num
        """
    )
    assert on_fake_gpu.report["exit_status"] == 0
    assert on_fake_gpu.report["after_warmup"] == 2


def test_steps_are_counted_and_what_is_outside_them_or_in_the_first_is_not(on_fake_gpu, capfd):
    (on_fake_gpu.folder / "engine.py").write_text(
        "import torch\nclass Engine:\n    def step(self, again=True):\n        torch.wait()\n"
        "        if again:\n            self.step(False)\n"
    )
    program = """
        import torch
        from engine import Engine
        torch.cuda.init()
        for _ in range(5):
            Engine().step()
            torch.wait()
    """
    on_fake_gpu(program, "--step", "engine:Engine.step", "--warmup-steps", "2")
    assert on_fake_gpu.status == 1
    assert (on_fake_gpu.report["after_warmup"], on_fake_gpu.report["not_counted"]) == (6, 9)
    assert on_fake_gpu.report["steps"] == 3
    assert "3 steps: 2 a step" in capfd.readouterr().out
    on_fake_gpu(program, "--step", "engine:Engine.step", "--warmup-steps", "5")
    assert on_fake_gpu.status == 2 and "was not called after warm-up" in on_fake_gpu.error
    on_fake_gpu("from engine import Engine; import torch", "--step", "engine:Engine.stop")
    assert on_fake_gpu.status == 2 and "engine has no Engine.stop" in on_fake_gpu.error


def test_counting_begins_with_a_printed_text_or_after_seconds(on_fake_gpu, capfd):
    program = """
        import time, torch
        torch.cuda.init()
        torch.wait()
        print("it is re", end="")
        print("ady", end="")
        time.sleep(0.5)
        torch.wait(); torch.wait()
    """
    on_fake_gpu(program, "--after", "is ready")
    assert (on_fake_gpu.report["after_warmup"], on_fake_gpu.report["not_counted"]) == (2, 1)
    assert capfd.readouterr().out.startswith("it is ready")
    on_fake_gpu(program, "--after", "never said")
    assert on_fake_gpu.report["not_counted"] == 3
    assert on_fake_gpu.status == 2 and "'never said' was never printed" in on_fake_gpu.error
    on_fake_gpu(program, "--warmup-seconds", "100")
    assert on_fake_gpu.status == 2 and "the program was too short" in on_fake_gpu.error


def runs(pid):
    """Whether a process is there and has not ended: one whose parent is gone may wait to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_interrupt_stops_all_that_was_started_and_says_what_was_recorded(on_fake_gpu):
    folder = on_fake_gpu.folder
    (folder / "program.py").write_text(
        "import os, subprocess, sys, time\n"
        f"sys.path.insert(0, {str(FAKE_TORCH)!r})\n"  # not by its environment: the parent needs the real one
        "import torch\n"
        "torch.cuda.init()\n"
        "torch.wait()\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
        " start_new_session=True)\n"
        "open('started.new', 'w').write(f'{os.getpid()} {other.pid}')\n"
        "os.rename('started.new', 'started')\n"
        "time.sleep(99)\n"
    )
    start = "import sys; from proof.test_sync_check import app; app(sys.argv[1:])"
    tests = Path(__file__).parents[1]
    options = ["--stop-timeout", "1", "--json", "out.json"]
    process = subprocess.Popen(
        [sys.executable, "-c", start, *options, "--", sys.executable, "program.py"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(tests)])},
    )
    try:
        for _ in range(600):
            if (folder / "started").exists():
                break
            time.sleep(0.03)
        pids = [int(pid) for pid in (folder / "started").read_text().split()]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert (
        "stopped: nothing of the command is left running; 1 synchronisation after warm-up till then" in said
    )
    report = json.loads((folder / "out.json").read_text())
    assert report["stopped"] and report["after_warmup"] == 1
    assert not any(map(runs, pids))
