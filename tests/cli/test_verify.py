"""``onelaunch verify``: what it prints, the case it writes, and how it ends."""

from __future__ import annotations

import json
import re
import sys

import pytest

from onelaunch.cli import main
from onelaunch.proof import case_file
from onelaunch.proof.compare import Mismatch
from onelaunch.proof.features import FEATURES
from onelaunch.proof.random_cases import random_case
from onelaunch.proof.topk_cases import TOPK_FEATURES
from onelaunch.proof.verify import Failure, VerifyResult


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["verify", *map(str, arguments)])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def fault(monkeypatch):
    """A kernel path whose lengths are one too many in every row; returns what removes the fault."""
    from onelaunch.builder import StepBuilder

    class Faulty(StepBuilder):
        def __init__(self, *args, backend: str, **options) -> None:
            super().__init__(*args, backend="reference", **options)
            self.spoiled = backend == "kernel"

        def build(self, batch, inputs):
            step = super().build(batch, inputs)
            if self.spoiled:
                for name in step:
                    step[name].lengths.add_(1)
            return step

    monkeypatch.setattr("onelaunch.proof.verify.StepBuilder", Faulty)
    return monkeypatch.undo


def test_equal_paths_end_well(capsys, tmp_path):
    status, out, err = run(capsys, "--cases", 6, "--seed", 2, "--json", tmp_path / "out.json")
    assert (status, err) == (0, "")
    assert "6 cases" in out
    assert "all outputs equal" in out
    kept = json.loads((tmp_path / "out.json").read_text())
    assert kept["cases"] == kept["builds"] + kept["packs"] == 6
    assert kept["mismatches"] == []


def test_a_difference_writes_a_case_that_replays(capsys, tmp_path, fault):
    case = tmp_path / "case.json"
    status, _, err = run(capsys, "--cases", 20, "--out", case)
    assert status == 1
    assert err.startswith("onelaunch: the paths differ: ")
    assert f"onelaunch verify --case {case}" in err
    assert err.count("\n") == 1

    status, out, err = run(capsys, "--case", case)
    assert status == 1
    assert "lengths" in out
    fault()
    status, out, err = run(capsys, "--case", case)
    assert (status, err) == (0, "")
    assert "all outputs equal" in out


def test_a_folder_takes_the_case_under_its_usual_name(capsys, tmp_path, fault):
    status, _, err = run(capsys, "--cases", 20, "--out", tmp_path)
    assert status == 1
    assert str(tmp_path / "onelaunch-case.json") in err
    assert (tmp_path / "onelaunch-case.json").is_file()


def test_a_replay_writes_its_result_too(capsys, tmp_path, fault):
    case, out = tmp_path / "case.json", tmp_path / "out.json"
    run(capsys, "--cases", 20, "--out", case)
    status, _, _ = run(capsys, "--case", case, "--json", out)
    assert status == 1
    kept = json.loads(out.read_text())
    assert kept["steps"] == 1
    assert "lengths" in kept["mismatches"][0]


def test_a_difference_that_does_not_repeat_is_called_one(capsys, tmp_path, monkeypatch):
    case = random_case(0)
    failure = Failure([case], [Mismatch("swa.0", "lengths", (0,), 1, 2)], repeats=False)
    # The package's attribute of this name is the command, not its module.
    module = sys.modules["onelaunch.cli.verify"]
    monkeypatch.setattr(module, "run_verify", lambda *_, **__: VerifyResult(failure=failure))
    status, _, err = run(capsys, "--out", tmp_path)
    assert status == 1
    assert "but not when the case was built again" in err
    assert case_file.read(tmp_path / "onelaunch-case.json") == [case]


def test_features_that_were_never_reached_are_shown_with_a_zero(capsys):
    _, out, _ = run(capsys, "--cases", 1)
    assert re.search(r"\b0  top-k over 1024\b", out)
    assert all(feature in out for feature in (*FEATURES, *TOPK_FEATURES))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cases", 0], "--cases"),
        (["--case", "no-such-file.json"], "no-such-file.json"),
        (["--out", "no/such/folder/case.json"], "out is no/such/folder/case.json"),
        (["--json", "no/such/folder/out.json"], "json is no/such/folder/out.json"),
        (["--json", "."], "json is .: it must be a file"),
        (["--device", "tpu"], "device is 'tpu'"),
        (["--seed", -1], "--seed"),
    ],
)
def test_bad_input_is_named(capsys, arguments, named):
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert named in err


def test_a_malformed_case_is_named(capsys, tmp_path):
    path = tmp_path / "case.json"
    path.write_text("{}")
    status, _, err = run(capsys, "--case", path)
    assert status == 2
    assert err.startswith(f"onelaunch: {path}: format is not")
