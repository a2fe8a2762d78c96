"""The demo: both paths over a trace, on every output; what it prints, keeps and refuses."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest
import torch
import typer
from typer.testing import CliRunner

from machine import DEVICE
from onelaunch.builder import StepBuilder
from onelaunch.cli.demo import demo
from onelaunch.cli.errors import CheckFailed
from onelaunch.proof.demo import run_demo
from onelaunch.proof.engine_demo import run_arms
from onelaunch.traffic import Request, generated_trace, write_trace

# Where both paths are the usual build: it needs no Triton.
CPU = torch.device("cpu")
USUAL_STEPS = {
    "compare",
    "fill_tail",
    "window_indices",
    "row_count",
    "cumsum",
    "compact",
    "copy_indices",
    "copy_indptr",
}

app = typer.Typer()
app.command()(demo)


def damaged(monkeypatch: pytest.MonkeyPatch, damage, from_build: int = 0) -> None:
    """Let the demo's kernel path be a copy of the usual build that ``damage`` then spoils.

    damage: called with (builder, step) after each build of the target from ``from_build`` on.
    """

    class Damaged(StepBuilder):
        def __init__(self, *args, backend: str, **options) -> None:
            super().__init__(*args, backend="reference", **options)
            self.spoil = backend == "kernel" and self.groups[0].causal
            self.builds = 0

        def build(self, batch, inputs):
            step = super().build(batch, inputs)
            if self.spoil and self.builds >= from_build:
                damage(self, step)
            self.builds += 1
            return step

    monkeypatch.setattr("onelaunch.proof.demo.StepBuilder", Damaged)


def test_both_paths_agree_and_their_launches_are_counted():
    # 260 tokens of context: blocks below the window are freed from the first step on.
    requests = [Request(0.0, 260, 9), Request(0.05, 3, 20)]
    shares: list[float] = []
    result = run_demo(requests, device=DEVICE, max_batch=2, steps=2, progress=shares.append)
    assert result.differences == {}
    assert (result.steps, result.builds, result.rows) == (2, 4, 13 + 26)
    assert result.launches_per_step["kernel"] == {"build_step": 2}
    assert result.launches_per_step["reference"] == {"token_to_request": 2, **dict.fromkeys(USUAL_STEPS, 7)}
    assert sum(result.launches["reference"].values()) == 2 * 58
    if DEVICE.type == "cpu":  # an interpreter's times say nothing
        assert result.host_us is None and result.device_us is None
    assert shares == sorted(shares) and shares[-1] == 1.0


def flip_valid(builder, step):
    step["swa.2"].is_valid[-1] ^= True


def add_length_at_the_buffers_end(builder, step):
    builder.buffers("swa.2").lengths[-1] += 1


def move_index(builder, step):
    step["swa.2"].indices[0, 0, -1] -= 1


def move_indptr(builder, step):
    step["swa.2"].ragged_indptr[-1] += 1


def move_last_entry(builder, step):
    group = step["swa.2"]
    group.ragged_indices[group.ragged_indptr[-1] - 1] += 1


def move_request(builder, step):
    step.token_to_request[-1] += 1


@pytest.mark.parametrize(
    ("damage", "output"),
    [
        (flip_valid, "swa.2.is_valid"),
        (add_length_at_the_buffers_end, "swa.2.lengths"),
        (move_index, "swa.2.indices"),
        (move_indptr, "swa.2.ragged_indptr"),
        (move_last_entry, "swa.2.ragged_indices"),
        (move_request, "target.token_to_request"),
    ],
)
def test_a_difference_in_any_output_is_found_with_its_first_step(monkeypatch, damage, output):
    damaged(monkeypatch, damage, from_build=3)
    result = run_demo(generated_trace(0, 5), device=CPU, max_batch=2, steps=6)
    assert result.differences == {output: 3}


def test_what_no_reader_reads_is_not_compared(monkeypatch):
    def damage(builder, step):
        group = step["swa.0"]
        group.ragged_indices[group.ragged_indptr[-1] :] += 1
        builder.buffers("swa.0").indices[step.num_tokens :] += 1

    damaged(monkeypatch, damage)
    # One prompt shorter than its window: its ragged list leaves entries unspecified.
    assert run_demo([Request(0.0, 5, 9)], device=CPU, max_batch=1).differences == {}


def test_a_whole_trace_is_served(monkeypatch):
    damaged(monkeypatch, lambda builder, step: None)
    requests = [Request(0.1 * i, 100 + 50 * i, 20 + 30 * i) for i in range(5)]
    result = run_demo(requests, device=CPU, acceptance_length=7.0, max_batch=4)
    assert result.requests_served == result.requests == 5
    assert result.tokens == sum(request.generated_tokens - 1 for request in requests)
    assert result.mean_acceptance_length == 7.0
    assert result.differences == {}


def test_the_command_prints_both_paths_and_keeps_the_result(tmp_path):
    trace, out = tmp_path / "trace.csv", tmp_path / "out.json"
    write_trace(trace, [Request(0.0, 130, 40)])
    arguments = ["--trace", str(trace), "--steps", "2", "--max-batch", "1", "--no-engine"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "all outputs equal over 4 builds" in result.output
    assert [line.split()[1::2] for line in result.output.splitlines() if "cumsum" in line] == [
        ["cumsum", "7", "-"]
    ]
    kept = json.loads(out.read_text())
    assert kept["launches_per_step"]["kernel"] == {"build_step": 2}
    assert kept["builds"] == 4 and kept["differences"] == {} and kept["source"] == "trace.csv, 1 requests"


def test_the_command_fails_on_a_difference(monkeypatch):
    damaged(monkeypatch, move_index)
    result = CliRunner().invoke(app, ["--steps", "1", "--max-batch", "1", "--no-engine"])
    assert isinstance(result.exception, CheckFailed)
    assert "swa.2.indices (first in step 0)" in str(result.exception)
    assert "all outputs equal" not in result.output


def test_the_engine_generates_by_both_paths(monkeypatch):
    pytest.importorskip("tokenizers")
    command = sys.modules["onelaunch.cli.demo"]  # whose name in its package is the function's
    monkeypatch.setattr(command, "_CPU_TOKENS", 3)
    arguments = ["--steps", "1", "--max-batch", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "6 tokens of 2 requests" in " ".join(result.output.split())  # a title may be broken
    assert "all tokens equal" in result.output
    [launches] = [line for line in result.output.splitlines() if "metadata launches of a step" in line]
    assert launches.split("│")[2:4] == ["          73 ", "         4 "]

    def differ(*_):
        name, (usual, one) = run_arms(CPU, 1)
        return name, [usual, dataclasses.replace(one, token_ids=((1,), (2,)))]

    monkeypatch.setattr(command, "run_arms", differ)
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CheckFailed) and "tokens differ" in str(result.exception)
    assert "all tokens equal" not in result.output


def test_without_the_engines_packages_the_demo_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["--steps", "1", "--max-batch", "1"])
    assert result.exit_code == 0 and "tokenizers is missing (pip install onelaunch[engine])" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--acceptance-length", "7.5"], "mean_length is 7.5"),
        (["--device", "tpu"], "device is 'tpu'"),
        (["--step-ms", "0"], "step_s is 0.0"),
        (["--json", "/no/such/folder/out.json"], "no folder /no/such/folder"),
    ],
)
def test_the_command_names_a_bad_option(arguments, says):
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, ValueError) and says in str(result.exception)


def test_a_trace_without_decode_steps_is_refused():
    with pytest.raises(ValueError, match="no decode step"):
        run_demo([Request(0.0, 5, 1)], device=DEVICE)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_both_paths_are_timed_by_host_and_device():
    result = run_demo(generated_trace(0, 40), device=torch.device("cuda"), max_batch=16, steps=200)
    assert result.differences == {}
    assert result.launches_per_step["kernel"] == {"build_step": 2}
    assert result.host_us is not None and result.device_us is not None
    for times in (result.host_us, result.device_us):
        assert times.keys() == {"reference", "kernel"}
        assert all(time > 0 for time in times.values())
