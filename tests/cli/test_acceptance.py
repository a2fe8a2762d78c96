"""``onelaunch acceptance`` as a command."""

from __future__ import annotations

import json
import sys

import httpx
import pytest

from onelaunch.cli import main
from proof.evaluate.answering_server import answering, said

ASK = "import sys, httpx; httpx.post(sys.argv[1] + '/v1/completions', json={})"


def run(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["acceptance", *map(str, arguments)])
    return exit_.value.code


@pytest.fixture
def server():
    with answering(lambda *_: said(" 1")) as (url, record):
        httpx.post(f"{url}/v1/completions", json={})  # what was before does not count
        yield url, record


def test_around_a_command(server, tmp_path, capsys):
    url, record = server
    out = tmp_path / "out.json"
    command = ("--", sys.executable, "-c", ASK, url)
    assert run("--metrics-url", f"{url}/metrics", "--json", out, *command) == 0
    assert len(record.bodies) == 2
    result = json.loads(out.read_text())
    assert result["drafts"] == 10 and result["acceptance_length"] == pytest.approx(3.3)
    assert "mean acceptance length 3.300 over 10 drafts" in capsys.readouterr().out


def test_gates(server, tmp_path, capsys):
    url, _ = server
    before = tmp_path / "before.json"
    command = ("--", sys.executable, "-c", ASK, url)
    good = ("--metrics-url", f"{url}/metrics")
    assert run(*good, "--min-length", 3.2, "--json", before, *command) == 0
    assert run(*good, "--min-length", 3.4, *command) == 1
    assert "it must be at least 3.4" in capsys.readouterr().err
    assert run(*good, "--against", before, "--max-loss", 1, *command) == 0
    kept = json.loads(before.read_text())
    before.write_text(json.dumps({**kept, "acceptance_length": 4.65}))
    assert run(*good, "--against", before, "--max-loss", 28, *command) == 1
    assert "(-29.03%)" in capsys.readouterr().err


def test_over_a_time(server, capsys):
    url, _ = server
    assert run("--metrics-url", f"{url}/metrics", "--seconds", 0.05) == 2
    assert "no draft was verified" in capsys.readouterr().err


def test_a_command_that_fails_gives_no_number(server, tmp_path, capsys):
    url, _ = server
    out = tmp_path / "out.json"
    fails = ("--", sys.executable, "-c", f"{ASK}; sys.exit(3)", url)
    assert run("--metrics-url", f"{url}/metrics", "--json", out, *fails) == 1
    said_ = capsys.readouterr()
    assert "status 3" in said_.err and "acceptance length 3" not in said_.out
    assert not out.exists()
    assert run("--metrics-url", f"{url}/metrics", "--", "/no/such/command") == 2


def test_wrong_input_is_named_before_the_command_runs(server, tmp_path, capsys):
    url, record = server
    command = ("--", sys.executable, "-c", ASK, url)
    for arguments, says in [
        (("--metrics-url", f"{url}/metrics"), "either a command after -- or seconds"),
        (("--metrics-url", f"{url}/metrics", "--seconds", 1, *command), "either a command"),
        (("--metrics-url", f"{url}/metrics", "--max-loss", 1, *command), "max-loss needs against"),
        (("--metrics-url", f"{url}/v1/models", *command), "no Prometheus text"),
        (("--metrics-url", "http://127.0.0.1:9/metrics", *command), "can't be read"),
        (("--metrics-url", f"{url}/metrics", "--model", "gone", *command), "of model gone"),
        (("--metrics-url", f"{url}/metrics", "--json", tmp_path / "a" / "b", *command), "there is no folder"),
    ]:
        assert run(*arguments) == 2, says
        assert says in capsys.readouterr().err
    assert len(record.bodies) == 1


def test_the_engine_counts_what_is_read():
    """A real server with synthetic acceptance: the length that was asked for is the one that is read."""
    from onelaunch.engine.config import EngineConfig
    from onelaunch.engine.core import EngineCore
    from onelaunch.proof.acceptance.reading import read_metrics
    from onelaunch.proof.acceptance.result import make_result
    from server.conftest import running

    speculative = '{"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 3}'
    options = {"preset": "tiny", "device": "cpu", "block_size": 16, "max_model_len": 512, "max_num_seqs": 8}
    with running(lambda: EngineCore(EngineConfig.make(**options, speculative=speculative))) as served:
        before = read_metrics(f"{served.url}/metrics")
        served.client.completions.create(
            model="tiny",
            prompt=[[i, 2, 3] for i in range(8)],
            max_tokens=200,
            extra_body={"ignore_eos": True},
        )
        result = make_result(before, read_metrics(f"{served.url}/metrics"), 1.0)
    assert result["acceptance_length"] == pytest.approx(3.0, abs=0.25)
    rates = result["acceptance_rate_per_position"]
    assert len(rates) == 6 and sum(rates) == pytest.approx(result["acceptance_length"] - 1)
