"""``onelaunch load`` as a command."""

from __future__ import annotations

import json

import pytest

from onelaunch.cli import main
from proof.load.completion_server import completion_server


def run(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["load", *map(str, arguments)])
    return exit_.value.code


def test_the_result_is_shown_and_written(tmp_path, capsys):
    out = tmp_path / "load.json"
    with completion_server() as (url, record):
        sizes = ("--concurrency", 2, "--requests", 5, "--prompt-tokens", 6, "--max-tokens", 4)
        assert run("--base-url", f"{url}/v1/", "--model", "m", *sizes, "--json", out) == 0
    assert "5 requests, 2 in flight" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert len(record.bodies) == len(result["inter_token_latency_us"]["values"]) == 5
    assert result["output_tokens"] == 20
    assert result["base_url"] == url


def test_a_failed_request_is_a_failed_check_and_nothing_is_written(tmp_path, capsys):
    out = tmp_path / "load.json"
    with completion_server(fails_at=1) as (url, _):
        assert run("--base-url", url, "--model", "m", "--max-tokens", 2, "--json", out) == 1
    assert "request 2 of 4 failed" in capsys.readouterr().err
    assert not out.exists()


def test_bad_input_is_named_before_anything_is_sent(tmp_path, capsys):
    with completion_server() as (url, record):
        assert run("--base-url", url, "--model", "m", "--max-tokens", 1) == 2
        assert "max-tokens is 1" in capsys.readouterr().err
        assert run("--base-url", url, "--model", "m", "--json", tmp_path / "no" / "load.json") == 2
        assert "there is no folder" in capsys.readouterr().err
    assert record.bodies == []
