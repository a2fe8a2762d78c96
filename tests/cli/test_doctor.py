"""What the doctor finds here, and on machines that are not here."""

from __future__ import annotations

import importlib
import json
import re

import numpy
import pytest
import torch

from onelaunch.cli import main
from onelaunch.platform import Platform, detect

doctor = importlib.import_module("onelaunch.cli.doctor")  # the package's attribute is the function


def examine(capsys, *options: str) -> tuple[int, str, str]:
    """(status, stdout, stderr) of ``onelaunch doctor``."""
    with pytest.raises(SystemExit) as stop:
        main(["doctor", *options])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def self_check(monkeypatch):
    """Callable that replaces the self-check by its outcome."""

    def outcome(*failures: str) -> None:
        found = {"batches": 3, "seconds": 1.0, "failures": list(failures)}
        monkeypatch.setattr(doctor, "_self_check", lambda device: found)

    return outcome


def test_a_sound_machine_passes(capsys):
    status, out, err = examine(capsys, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["platform"]["vendor"] == detect().vendor
    assert found["gate"]["flag off"]["enabled"] is False
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["numpy"] == numpy.__version__
    assert found["self-check"]["batches"] >= 1
    assert found["self-check"]["failures"] == []
    if found["platform"]["vendor"] == "cpu":
        assert found["gate"]["flag on"]["enabled"] is False
        assert "interpreter" in found["kernels"]


@pytest.mark.parametrize(
    ("platform", "answer"),
    [(Platform("amd", "gfx950"), "one launch"), (Platform("amd", "gfx1201"), "usual build")],
)
def test_the_table_shows_the_gates_answer_for_both_flags(capsys, monkeypatch, self_check, platform, answer):
    monkeypatch.setattr(doctor, "detect", lambda: platform)
    monkeypatch.setattr(doctor, "device_name", lambda device: "a GPU")
    self_check()
    status, out, _ = examine(capsys)
    assert status == 0
    assert re.search(rf"^platform +{platform} \(a GPU\)", out, re.M)
    assert re.search(rf"^gate, flag on +{answer}: ", out, re.M)
    assert re.search(r"^gate, flag off +usual build: the monokernel flag is off", out, re.M)
    assert re.search(r"^self-check +passed: 3 batches", out, re.M)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_failed_self_check_is_reported_and_ends_with_status_1(capsys, self_check, options):
    self_check("seed 2: swa.0: lengths[3] is 5, expected 4")
    status, out, err = examine(capsys, *options)
    assert status == 1
    assert "lengths[3] is 5, expected 4" in out
    assert err == "onelaunch: the self-check failed: seed 2: swa.0: lengths[3] is 5, expected 4\n"


def test_a_self_check_that_cannot_run_is_a_finding(capsys, monkeypatch):
    def broken(case, device):
        raise RuntimeError("no ptxas")

    monkeypatch.setattr("onelaunch.proof.verify.run_case", broken)
    status, out, err = examine(capsys)
    assert status == 1
    assert re.search(r"^self-check +failed", out, re.M)
    assert "RuntimeError: no ptxas" in err
