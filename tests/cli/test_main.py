"""How the command ends: the exit status, and one line on stderr when it is not 0."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from onelaunch import __version__
from onelaunch.cli import main


def ended(capsys, *arguments: str) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a command."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def test_version(capsys):
    assert ended(capsys, "--version") == (0, f"onelaunch {__version__}\n", "")


def test_help_names_every_subcommand(capsys):
    status, out, _ = ended(capsys, "--help")
    assert status == 0
    for name in ("demo", "verify", "bench", "doctor", "targets"):
        assert name in out


def test_no_subcommand_shows_the_help(capsys):
    status, out, err = ended(capsys)
    assert (status, err) == (0, "")
    assert "Usage: onelaunch" in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--verison"], "--verison"),
        (["doktor"], "doktor"),
        (["doctor", "--yaml"], "--yaml"),
        (["doctor", "now"], "now"),
        (["demo", "--steps", "many"], "--steps"),
        (["demo", "--trace", "no-such-file.csv"], "no-such-file.csv"),
        (["demo", "--device", "tpu"], "tpu"),  # a ValueError of ours, the ones above are Typer's
    ],
)
def test_bad_input_ends_with_status_2_and_one_line_that_names_it(capsys, arguments, named):
    status, out, err = ended(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("onelaunch: ")
    assert named in err
    assert err.count("\n") == 1


def test_the_module_runs_as_the_command_does():
    command = [sys.executable, "-m", "onelaunch", "doktor"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("onelaunch: ")


def test_a_fault_of_ours_is_not_dressed_as_bad_input(monkeypatch):
    def broken(*_, **__):
        raise KeyError("swa.0")

    # By module: the name onelaunch.cli.doctor is the function.
    monkeypatch.setattr(importlib.import_module("onelaunch.cli.doctor"), "detect", broken)
    with pytest.raises(KeyError):
        main(["doctor"])
