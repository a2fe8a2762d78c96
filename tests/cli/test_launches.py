"""``onelaunch launches``: what it prints, and its refusals."""

from __future__ import annotations

import json
import sys

import pytest

from onelaunch import cli
from onelaunch.cli import launches as command
from proof.profile.traces import TraceMaker


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["launches", *map(str, arguments)])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def traces(tmp_path):
    def write(name: str, eager: int):
        maker = TraceMaker()
        for step in range(3):
            maker.annotate(f"decode {step}", 10_000 * step, 9_000)
            for i in range(eager):
                maker.launch("k", 10_000 * step + 10 * i)
            maker.launch("same", 10_000 * step + 500)
        return maker.write(tmp_path / name)

    return write("a.json.gz", 4), write("b.json", 1)


def test_a_trace_as_json(capsys, traces):
    status, out, err = run(capsys, traces[0], "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["steps"] == 3
    assert found["launches"] == {"mode": 5, "share": 1.0, "others": {}}
    assert found["kernels"]["k"]["mode"] == 4
    assert found["kernels"]["k"]["device_us"] == 12
    assert (found["graph_launches"], found["graph_nodes"]) == (0, 0)


def test_two_traces_as_json(capsys, traces):
    status, out, _ = run(capsys, *traces, "--json")
    found = json.loads(out)
    assert status == 0
    assert (found["a"]["launches"]["mode"], found["b"]["launches"]["mode"]) == (5, 2)
    assert found["changed"] == [{"name": "k", "a": 4, "b": 1, "a_us": 12.0, "b_us": 3.0}]
    assert [row["name"] for row in found["unchanged"]] == ["same"]


def test_markdown_says_what_the_steps_are(capsys, traces):
    status, out, err = run(capsys, traces[0])
    assert (status, err) == (0, "")
    assert "3 steps, from annotation decode N; device 0" in out
    status, out, _ = run(capsys, *traces)
    assert status == 0
    assert "## Kernels whose count differs" in out


def test_a_page_is_written_beside(capsys, traces, tmp_path):
    status, out, _ = run(capsys, *traces, "--json", "--html", tmp_path / "page.html")
    assert status == 0
    assert json.loads(out)["changed"]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_refusals_are_one_line_and_status_2(capsys, traces, tmp_path):
    (tmp_path / "bad.json.gz").write_bytes(b"{}")
    for arguments, message in (
        ([tmp_path / "none.json"], "does not exist"),
        ([tmp_path / "bad.json.gz"], "bad.json.gz"),
        ([traces[0], tmp_path / "bad.json.gz"], "bad.json.gz"),
        ([traces[0], "--annotation", "("], "not a regular expression"),
        ([traces[0], "--annotation", "prefill"], "no annotation matches 'prefill'"),
        ([traces[0], "--device", "3"], "device is '3'"),
        ([traces[0], "--html", tmp_path / "none" / "page.html"], "there is no folder"),
    ):
        status, out, err = run(capsys, *arguments)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_slow_reading_shows_a_bar_on_stderr(capsys, traces, monkeypatch):
    monkeypatch.setattr(sys.modules[command.__module__], "_PATIENCE", -1.0)
    status, out, err = run(capsys, traces[0], "--json")
    assert status == 0
    assert json.loads(out)["steps"] == 3
    assert "a.json.gz" in err


def test_the_json_goes_to_a_file_beside_the_tables(capsys, traces, tmp_path):
    kept = tmp_path / "kept.json"
    status, out, _ = run(capsys, *traces, "--json-file", kept)
    assert status == 0 and "| k" in out
    assert json.loads(kept.read_text())["b"]["launches"]["mode"] == 2
    status, _, err = run(capsys, *traces, "--json-file", tmp_path / "no" / "kept.json")
    assert status == 2 and "json-file is" in err


def test_a_trace_is_not_written_over(capsys, traces):
    status, _, err = run(capsys, traces[0], "--html", traces[0])
    assert status == 2 and "must not be written over" in err and traces[0].stat().st_size


def test_fewer_launches_may_be_expected(capsys, traces):
    assert run(capsys, *traces, "--expect-fewer")[0] == 0
    status, _, err = run(capsys, *reversed(traces), "--expect-fewer")
    assert status == 1 and "5 launches a step in" in err
    assert run(capsys, traces[0], traces[0], "--expect-fewer")[0] == 1
    status, _, err = run(capsys, traces[0], "--expect-fewer")
    assert status == 2 and "needs a second trace" in err
