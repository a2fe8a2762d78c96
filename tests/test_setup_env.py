"""Which PyTorch the Makefile's environment gets, on machines that are not here."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
import setup_env
from setup_env import CPU_INDEX, ROCM_INDEX, TORCH, find_gpu, project_requirements, torch_sources

MIRROR = "https://mirror.example/simple"


@pytest.mark.parametrize(
    ("gpu", "index_url", "system", "sources"),
    [
        (None, None, "linux", [[f"torch=={TORCH}+cpu"], ["--index-url", CPU_INDEX, f"torch=={TORCH}+cpu"]]),
        (None, MIRROR, "linux", [["--index-url", MIRROR, f"torch=={TORCH}+cpu"]]),
        (None, None, "darwin", [[f"torch=={TORCH}"]]),
        ("nvidia", None, "linux", [[f"torch=={TORCH}"]]),
        ("nvidia", MIRROR, "linux", [["--index-url", MIRROR, f"torch=={TORCH}"]]),
        ("amd", None, "linux", [["--index-url", ROCM_INDEX, f"torch=={TORCH}"]]),
    ],
)
def test_pytorch_suits_the_machine(gpu, index_url, system, sources):
    assert torch_sources(gpu, index_url, system) == sources


def test_triton_is_left_to_pytorch_on_rocm():
    needed, project = project_requirements("amd")
    names = {requirement.partition(">")[0].partition("<")[0] for requirement in needed}
    assert {"numpy", "rich", "typer", "pytest", "matplotlib", "ruff"} <= names
    assert not names & {"torch", "triton"}
    assert "--no-deps" in project


@pytest.mark.parametrize(
    "error", [FileNotFoundError("nvidia-smi"), subprocess.TimeoutExpired("nvidia-smi", 60)]
)
def test_a_driver_that_does_not_answer_counts_as_no_gpu(monkeypatch, error):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(setup_env.Path, "exists", lambda _: False)
    assert find_gpu() is None


@pytest.mark.parametrize(
    ("printed", "kfd", "gpu"),
    [
        (b"GPU 0: NVIDIA H200 (UUID: GPU-1)\n", False, "nvidia"),
        (b"No devices found.\n", False, None),  # with exit status 0 in some drivers
        (b"", True, "amd"),
    ],
)
def test_a_gpu_is_found_by_its_driver(monkeypatch, printed, kfd, gpu):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=printed))
    monkeypatch.setattr(setup_env.Path, "exists", lambda _: kfd)
    assert find_gpu() == gpu
