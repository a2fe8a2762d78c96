"""A plan file: what it takes, and how each mistake is named."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from onelaunch.proof.ab.plan import make_plan, read_plan
from onelaunch.proof.processes.command import fill
from proof.ab.arena import plan, values

PLAN = """
rounds = 4
concurrency = [1, 8]
halves = ["0, 1", "2,3"]
device_variable = "HIP_VISIBLE_DEVICES"

[load]
client = "vllm"
command = "vllm bench serve --base-url {base_url} --max-concurrency {concurrency} --result-filename {result}"

[arms.base]
server = "serve 'my model' --port {port} --speculative-config '{\\"method\\": \\"mtp\\"}'"

[arms.change]
server = ["serve", "--port={port}", "--monokernel"]
env = { VLLM_USE = 1 }
load = { model = "m" }
"""


def test_a_plan_file_is_read_with_its_defaults(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("load = { model", "# "))
    plan = read_plan(path)
    assert (plan.rounds, plan.runs, plan.warmup, plan.concurrency) == (4, 3, 1, (1, 8))
    assert plan.halves == ("0,1", "2,3")
    assert plan.metric == "inter_token_latency"
    assert plan.arms["base"].server[:3] == ("serve", "my model", "--port")
    assert plan.arms["change"].env == {"VLLM_USE": "1"}
    assert plan.arms["base"].load == plan.arms["change"].load


def test_an_arm_may_have_a_load_of_its_own_but_no_other_client(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    with pytest.raises(ValueError, match=r"plan\.toml: the arms have different load clients"):
        read_plan(path)


def test_the_plans_of_the_documentation_are_plans():
    page = Path(__file__).parents[3] / "docs" / "ab.md"
    first, *loads = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL))
    assert make_plan(first).halves == ("0,1,2,3", "4,5,6,7")
    assert [make_plan({**first, **load}).arms["base"].load.client for load in loads] == ["vllm", "guidellm"]


def test_what_is_no_toml_is_refused_with_the_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("rounds = ")
    with pytest.raises(ValueError, match=r"plan\.toml is not TOML"):
        read_plan(path)


def test_placeholders_are_filled_in_and_other_braces_left_alone():
    words = ("--port={port}", '{"method": "mtp", "port": {}}', "{port}{concurrency}", "{other}")
    assert fill(words, port=1, concurrency=2) == ["--port=1", words[1], "12", "{other}"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 3}, "rounds is 3: it must be even"),
        ({"rounds": 0}, "rounds is 0: it must be a whole number of at least 2"),
        ({"rounds": True}, "rounds is True: it must be a whole number"),
        ({"runs": 0}, "runs is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"concurrency": []}, "concurrency is []: it must be a list of different whole numbers"),
        ({"concurrency": [2, 2]}, "concurrency is [2, 2]"),
        ({"metric": "speed"}, "metric is 'speed': it must be inter_token_latency or time_to_first_token"),
        ({"health": "health"}, "health is 'health': it must be a path that starts with /"),
        ({"ports": [8000]}, "ports is [8000]: it must be two ports"),
        ({"halves": ["0"]}, "halves is ['0']: it must be two device sets"),
        ({"halves": ["0,1", "1,2"]}, "no device in common"),
        ({"halves": ["0,1", "2"]}, "of equal size"),
        ({"device_variable": "GPUS"}, "device_variable is 'GPUS': it must be CUDA_VISIBLE_DEVICES or"),
        ({"timeouts": {"start": 0}}, "timeouts.start is 0: it must be a number of seconds above 0"),
        ({"timeouts": {"begin": 1}}, "timeouts.begin is no key of a plan"),
        ({"round": 4}, "round is no key of a plan"),
        ({"arms": None}, "arms is missing"),
        ({"arms": {"base": {"server": "a {port}"}}}, "arms.change is missing"),
        ({"load": None}, "arms.base.load is missing"),
        ({"load": {"prompt_tokens": 4}}, "load.model is missing: it must be a string"),
        ({"load": {"model": "m", "max_tokens": 1}}, "load.max_tokens is 1"),
        ({"load": {"model": "m", "command": "x"}}, "load.command is no key"),
        ({"load": {"client": "curl"}}, "load.client is 'curl': it must be built-in or vllm or guidellm"),
        ({"load": {"client": "vllm"}}, "load.command is missing: it must be a command line"),
        (
            {"load": {"client": "vllm", "command": "x {base_url} {concurrency}"}},
            "load.command has no {result}",
        ),
        (
            {"load": {"client": "guidellm", "command": "x {result} {concurrency}"}},
            "load.command has no {base_url} and no {port}",
        ),
    ],
)
def test_a_mistake_is_named_by_its_key(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_plan({**values(), **change})


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ({"server": "serve --port 8000"}, "arms.base.server has no {port}"),
        ({"server": "serve 'x --port {port}"}, "arms.base.server is"),
        ({"server": 3}, "arms.base.server is 3: it must be a command line"),
        ({"server": "a {port}", "env": {"A": [1]}}, "arms.base.env is"),
        ({"server": "a {port}", "envs": {}}, "arms.base.envs is no key of a plan"),
        (
            {"server": "a {port}", "env": {"CUDA_VISIBLE_DEVICES": "0"}},
            "arms.base.env sets CUDA_VISIBLE_DEVICES: halves set it already",
        ),
    ],
)
def test_a_mistake_in_an_arm_is_named_with_the_arm(arm, message):
    whole = values(halves=["0", "1"])
    whole["arms"]["base"] = arm
    with pytest.raises(ValueError, match=re.escape(message)):
        make_plan(whole)


def test_a_plan_kept_as_json_differs_in_nothing_but_what_was_changed():
    first = plan()
    kept = json.loads(json.dumps(first.as_json()))
    assert first.differences(kept) == []
    assert plan(runs=2, metric="time_to_first_token").differences(kept) == ["runs", "metric"]


def test_ports_and_timeouts_may_change_before_a_comparison_goes_on():
    assert plan(timeouts={"start": 99}).differences(plan().as_json()) == []
