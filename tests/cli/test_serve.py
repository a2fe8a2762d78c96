"""``onelaunch serve`` and ``generate`` as processes and commands: how they start, stop and refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
import openai
import pytest
import torch

from onelaunch.cli import main
from onelaunch.cli.engine_options import engine_config

TINY = ("--preset", "tiny", "--device", "cpu")


@contextmanager
def server(*options: str, **environment: str):
    """A server process and its address, once it says where it serves."""
    command = [sys.executable, "-m", "onelaunch", "serve", *TINY, "--port", "0", *options]
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "serving at " in line:
                yield process, line.split("serving at ")[1].strip(), said
                return
        raise AssertionError(process.stderr.read())
    finally:
        process.kill()
        process.communicate()


def test_a_server_answers_and_lets_a_stream_end_after_sigterm():
    with server("--served-model-name", "mine") as (process, url, said):
        assert httpx.get(f"{url}/health").status_code == 200
        assert "metadata by the reference" in said
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0)
        stream = client.completions.create(
            model="mine", prompt=[1, 2, 3], max_tokens=100, stream=True, extra_body={"ignore_eos": True}
        )
        chunks = iter(stream)
        next(chunks)
        process.send_signal(signal.SIGTERM)
        *_, last = chunks
        assert last.choices[0].finish_reason == "length"
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_a_stream_that_runs_too_long_is_told_and_the_key_may_be_in_the_environment():
    with server("--shutdown-timeout", "0.1", "--no-speculative", ONELAUNCH_API_KEY="k") as (process, url, _):
        assert httpx.get(f"{url}/v1/models").status_code == 401
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        stream = client.completions.create(
            model="tiny", prompt="a", max_tokens=1000, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        process.send_signal(signal.SIGINT)
        with pytest.raises(openai.APIError, match="the server stopped"):
            list(stream)
        assert process.wait(20) == 0


def ended(capsys, *arguments: str) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a command."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--preset", "huge"), "preset"),
        (("--preset", "tiny", "--model", "/nowhere"), "preset"),
        (("--model", "/nowhere"), "nowhere"),
        (("--attention", "fast"), "attention"),
        (("--speculative-config", "{"), "speculative-config"),
        (("--speculative-config", '{"method": "eagle"}'), "method"),
        (("--speculative-config", '{"num_speculative_tokens": 0}'), "num_speculative_tokens"),
        (("--speculative-config", "{}", "--no-speculative"), "no-speculative"),
        (("--max-num-seqs", "0"), "max_num_seqs"),
        (("--max-model-len", "100000"), "max_model_len"),
        (("--num-blocks", "1"), "num_blocks"),
        (("--device", "tpu"), "device"),
        (("--port", "70000"), "port"),
        (("--api-key", ""), "api-key"),
        (("--no-such-option",), "no-such-option"),
    ],
)
def test_bad_options_end_with_status_2_and_one_line(capsys, options, named):
    status, out, err = ended(capsys, "serve", *options)
    assert status == 2 and out == ""
    assert err.count("\n") == 1 and named in err


def test_an_address_that_is_taken_ends_with_status_2_before_anything_is_loaded(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = ended(capsys, "serve", *TINY, "--port", str(taken.getsockname()[1]))
    assert status == 2 and "can't be listened at" in err


def test_without_the_extra_the_command_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, _, err = ended(capsys, "serve", *TINY)
    assert status == 2 and "pip install onelaunch[engine]" in err


@pytest.mark.parametrize(("environment", "want"), [(None, 1), ("2", 2)])
def test_on_a_cpu_a_step_is_one_thread_unless_the_environment_says_otherwise(monkeypatch, environment, want):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    torch.set_num_threads(2)
    try:
        engine_config(preset=None, model=None, device="cpu", speculative_config=None, no_speculative=False)
        assert torch.get_num_threads() == want
    finally:
        torch.set_num_threads(before)


def test_generate_shows_texts_and_what_they_took(capsys):
    status, out, _ = ended(
        capsys, "generate", *TINY, "--prompt", "one", "--prompt", "two", "--max-tokens", "8", "--ignore-eos"
    )
    assert status == 0
    *texts, summary = out.split("\n")[:-1]
    assert "\n".join(texts).startswith("one") and "\ntwo" in "\n".join(texts)
    assert re.fullmatch(
        r"16 tokens in \d+\.\d\d s, \d+ steps; [\d.]+ ms a step \(median\); acceptance length \d\.\d\d; "
        r"\d+ metadata launches a step \(reference\)",
        summary,
    )


def test_generate_keeps_tokens_and_numbers_and_compares_them(capsys, tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    given = ("generate", *TINY, "--prompt", "one", "--max-tokens", "8", "--ignore-eos")
    assert ended(capsys, *given, "--no-monokernel", "--json", str(first))[0] == 0
    assert ended(capsys, *given, "--monokernel", "--against", str(first), "--json", str(second))[0] == 0
    base, change = (json.loads(path.read_text()) for path in (first, second))
    assert change["same_tokens"] and change["token_ids"] == base["token_ids"]
    assert (len(base["token_ids"][0]), base["tokens"]) == (8, 8)
    assert sum(base["launches"].values()) == base["launches_per_step"] > change["launches_per_step"] == 4
    status, _, err = ended(capsys, *given, "--no-monokernel", "--max-launches", "4")
    assert status == 1 and "metadata launches a step: at most 4" in err
    first.write_text(json.dumps({"token_ids": [[1]]}))
    status, _, err = ended(capsys, *given, "--against", str(first))
    assert status == 1 and "other tokens than in" in err
    first.write_text("[]")
    assert ended(capsys, *given, "--against", str(first))[0] == 2


def test_generate_records_its_steps_for_a_profile(capsys, tmp_path):
    trace = tmp_path / "trace.json"
    given = ("generate", *TINY, "--prompt", "one", "--max-tokens", "4", "--ignore-eos", "--no-speculative")
    assert ended(capsys, *given, "--profile", str(trace))[0] == 0
    names = [event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]]
    assert sum(name.startswith("ProfilerStep#") for name in names) >= 4


def test_generate_without_drafts_has_no_acceptance_length(capsys):
    _, out, _ = ended(capsys, "generate", *TINY, "--prompt", "one", "--max-tokens", "2", "--no-speculative")
    assert "acceptance" not in out and "metadata launches" in out


@pytest.mark.parametrize("options", [("--temperature", "nan"), ("--max-tokens", "0"), ("--prompt", "")])
def test_generate_refuses_what_can_not_be_sampled(capsys, options):
    given = () if "--prompt" in options else ("--prompt", "a")
    status, _, err = ended(capsys, "generate", *TINY, *given, *options)
    assert status == 2 and err.count("\n") == 1
