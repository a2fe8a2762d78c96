"""``onelaunch targets``: what it shows of the compiled kernels, and how it ends."""

from __future__ import annotations

import importlib
import json

import pytest

from onelaunch.cli import main
from onelaunch.proof.targets import TARGETS, Resources

targets = importlib.import_module("onelaunch.cli.targets")  # the package's attribute is the function


@pytest.fixture
def compiled(monkeypatch):
    """Callable that sets what compiling yields; returns the list of targets that are then asked for."""
    asked: list[str] = []

    def yields(*found: Resources) -> list[str]:
        def compile_all_apart(names, each):
            asked.extend(names)
            for one in found:
                each(one)

        monkeypatch.setattr(targets, "compile_all_apart", compile_all_apart)
        return asked

    return yields


def ended(capsys, *options: object) -> tuple[int, str, str]:
    """(status, stdout, stderr) of ``onelaunch targets``."""
    with pytest.raises(SystemExit) as stop:
        main(["targets", *map(str, options)])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def test_kernels_without_spills_pass_and_are_written(capsys, compiled, tmp_path):
    asked = compiled(Resources("k", "gfx942", 84, 106, 0), Resources("k", "sm_90", 64, None, 0))
    out = tmp_path / "t.json"
    status, shown, err = ended(capsys, "--target", "gfx942", "--target", "sm_90", "--json", out)
    assert (status, err) == (0, "")
    assert asked == ["gfx942", "sm_90"]
    assert "84+106" in shown
    assert "2 kernels compiled, no spills" in shown
    found = [(one["kernel"], one["target"], one["registers"]) for one in json.loads(out.read_text())]
    assert found == [("k", "gfx942", 84), ("k", "sm_90", 64)]


def test_a_spill_fails_and_names_the_kernel_and_the_target(capsys, compiled, tmp_path):
    compiled(Resources("k", "gfx942", 84, 106, 3), Resources("k", "sm_90", 64, None, 0))
    out = tmp_path / "t.json"
    status, shown, err = ended(capsys, "--target", "gfx942", "--target", "sm_90", "--json", out)
    assert (status, err) == (1, "onelaunch: registers spill: k for gfx942\n")
    assert "84+106 !3" in shown
    assert len(json.loads(out.read_text())) == 2  # a failure is written too


def test_all_targets_are_asked_for_by_default(capsys, compiled):
    asked = compiled(*(Resources("k", name, 64, None, 0) for name in TARGETS))
    assert ended(capsys)[0] == 0
    assert asked == list(TARGETS)


@pytest.mark.parametrize("name", ["h100", "sm90", "gfx1201", ""])
def test_a_target_that_is_none_is_refused(capsys, compiled, name):
    asked = compiled()
    status, _, err = ended(capsys, "--target", name)
    assert (status, err) == (2, f"onelaunch: target is {name!r}: it must be like gfx942 or sm_90\n")
    assert asked == []


def test_a_missing_folder_is_refused_before_anything_is_compiled(capsys, compiled, tmp_path):
    asked = compiled()
    status, _, err = ended(capsys, "--json", tmp_path / "missing" / "t.json")
    assert status == 2
    assert "json" in err
    assert asked == []
