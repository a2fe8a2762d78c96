"""``onelaunch bench``: what it writes, and how it ends when it can't or must not."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
import torch

from onelaunch.bench import inputs, run
from onelaunch.bench.arms import ARMS, Arm
from onelaunch.bench.timing import Spread
from onelaunch.cli import main
from onelaunch.proof.compare import Mismatch

bench = importlib.import_module("onelaunch.cli.bench")  # the package's attribute is the function


def ended(capsys, *options: object) -> tuple[int, str, str]:
    """(status, stdout, stderr) of ``onelaunch bench``."""
    with pytest.raises(SystemExit) as stop:
        main(["bench", *map(str, options)])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def no_time(*arguments):
    raise AssertionError("timed")


class FakeArm(Arm):
    """An arm that finds ``wrong`` in its outputs."""

    wrong: tuple[Mismatch, ...] = ()

    def differences(self) -> list[Mismatch]:
        return list(self.wrong)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that takes 2 us for everything, and on which all arms build the same."""
    spread = Spread(2.0, 1.0, 3.0)
    step_inputs = inputs.step_inputs
    monkeypatch.setattr(bench, "chosen_device", lambda name: torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(
        inputs, "step_inputs", lambda rows, device, seed: step_inputs(rows, torch.device("cpu"), seed=seed)
    )
    monkeypatch.setattr(run, "copy_bandwidth", lambda device: {"copy": 4e12})
    monkeypatch.setattr(
        run, "make_arms", lambda step, device: [FakeArm(name, lambda: None, 2) for name in ARMS]
    )
    monkeypatch.setattr(run, "fill_arm", lambda sizes, device: FakeArm("fill", lambda: None, 2))
    monkeypatch.setattr(run, "empty_arm", lambda launches: FakeArm("empty", lambda: None, 2))
    for name in ("device_times", "cold_device_times", "host_times"):
        monkeypatch.setattr(run, name, lambda arms, rounds, *device: {arm.name: spread for arm in arms})


def test_every_arm_and_floor_of_every_row_count_is_written(capsys, gpu, tmp_path):
    out = tmp_path / "r.json"
    status, _, err = ended(capsys, "--rows", 7, "--rows", 1024, "--json", out)
    assert (status, err) == (0, "")
    result = json.loads(out.read_text())
    assert result["device"] == "a GPU"
    found = {(record["arm"], record["rows"]) for record in result["records"]}
    assert found == {
        (arm, rows) for arm in (*ARMS, "empty", "fill", "bytes", "bytes-dense") for rows in (7, 1024)
    }
    (record,) = (one for one in result["records"] if (one["arm"], one["rows"]) == ("onelaunch", 7))
    assert (record["device_us"], record["p10"], record["p90"], record["launches"]) == (2.0, 1.0, 3.0, 2)
    assert (record["device_us_cold"], record["host_us"]) == (2.0, 2.0)
    (floor,) = (one for one in result["records"] if (one["arm"], one["rows"]) == ("bytes", 7))
    assert floor["device_us"] == pytest.approx(floor["bytes"] / 4e12 * 1e6)


@pytest.mark.parametrize(
    ("options", "rounds"),
    [
        ([], run.Rounds(200, 30, 15)),
        (["--quick"], run.Rounds(30, 8, 6)),
        (["--rounds", 500], run.Rounds(500, 30, 15)),
        (["--rounds", 20], run.Rounds(20, 20, 15)),
        (["--rounds", 7, "--quick"], run.Rounds(7, 7, 6)),
    ],
)
def test_rounds_are_what_the_options_say(capsys, gpu, tmp_path, options, rounds):
    out = tmp_path / "r.json"
    assert ended(capsys, "--rows", 7, "--json", out, *options)[0] == 0
    kept = json.loads(out.read_text())["rounds"]
    assert kept == {"device": rounds.device, "cold": rounds.cold, "host": rounds.host}


def test_a_mismatch_stops_it_before_anything_is_timed(capsys, gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(FakeArm, "wrong", (Mismatch("swa.1", "lengths", (3,), 4, 5),))
    for name in ("device_times", "cold_device_times", "host_times"):
        monkeypatch.setattr(run, name, no_time)
    out = tmp_path / "r.json"
    status, shown, err = ended(capsys, "--rows", 7, "--json", out)
    assert status == 1
    assert err == (
        "onelaunch: outputs differ, so no times are reported: "
        "usual at 7 rows: swa.1: lengths[3] is 5, expected 4\n"
    )
    assert "met" not in shown
    assert not out.exists()


@pytest.mark.parametrize("timed", ["device_times", "cold_device_times", "host_times"])
def test_a_mismatch_that_timing_brings_about_is_found_too(capsys, gpu, monkeypatch, tmp_path, timed):
    def spoil(arms, *options):
        monkeypatch.setattr(FakeArm, "wrong", (Mismatch("swa.1", "lengths", (3,), 4, 5),))
        return {arm.name: Spread(1.0, 1.0, 1.0) for arm in arms}

    monkeypatch.setattr(run, timed, spoil)
    out = tmp_path / "r.json"
    assert ended(capsys, "--rows", 7, "--json", out)[0] == 1
    assert not out.exists()


def test_what_the_timed_graphs_wrote_is_compared_before_anything_else_runs(capsys, gpu, monkeypatch):
    def spoil(arms, rounds):
        monkeypatch.setattr(FakeArm, "wrong", (Mismatch("swa.1", "lengths", (3,), 4, 5),))
        return {arm.name: Spread(1.0, 1.0, 1.0) for arm in arms}

    monkeypatch.setattr(run, "device_times", spoil)
    monkeypatch.setattr(run, "cold_device_times", no_time)
    assert ended(capsys, "--rows", 7)[0] == 1


def test_without_a_gpu_there_is_nothing_to_time(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # what choosing a CPU sets, and no later test may see
    status, _, err = ended(capsys)
    assert status == 2
    assert err.startswith("onelaunch: device is 'cpu': the benchmark needs a GPU")


@pytest.mark.parametrize("rows", [0, 16_385])
def test_a_row_count_out_of_range_is_refused(capsys, gpu, rows):
    status, _, err = ended(capsys, "--rows", rows)
    assert status == 2
    assert "rows" in err


@pytest.mark.parametrize("option", ["--json", "--markdown", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(capsys, gpu, monkeypatch, tmp_path, option):
    monkeypatch.setattr(bench, "_measured", no_time)
    for path in (tmp_path / "missing" / "out", tmp_path):
        status, _, err = ended(capsys, option, path)
        assert status == 2
        assert option.strip("-") in err


def test_a_plot_without_matplotlib_is_refused_before_the_run(capsys, gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "_measured", no_time)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    status, _, err = ended(capsys, "--plot", tmp_path / "p.png")
    assert (status, err) == (2, "onelaunch: plot needs matplotlib: pip install onelaunch[plots]\n")


def test_a_narrow_terminal_cuts_no_time_short(capsys, gpu, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    table = tmp_path / "r.md"
    status, shown, _ = ended(capsys, "--rows", 7, "--markdown", table)
    assert status == 0
    times = [line.split() for line in shown.splitlines() if line.split()[:2] == ["7", "2.00"]]
    assert [len(cells) for cells in times] == [9, 6, 9]  # the row count, and each arm's time
    assert all(cell.replace(".", "").isdigit() for cells in times for cell in cells)
    assert "2.00 (1.00-3.00)" in table.read_text()  # the file has the spreads too
