"""Detection with the GPU runtime faked, as no machine has both vendors."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from onelaunch.platform import Platform, detect


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def fake_gpu(monkeypatch):
    """Callable that makes PyTorch report a GPU: of ``arch`` on a ROCm build, else of ``capability``."""

    def fake(*, arch: str | None = None, capability: tuple[int, int] | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.version, "hip", "7.2.0" if arch else None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(gcnArchName=arch))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)

    return fake


@pytest.mark.parametrize(
    ("reported", "arch"),
    [("gfx942:sramecc+:xnack-", "gfx942"), ("gfx950:sramecc+:xnack-", "gfx950"), ("gfx1201", "gfx1201")],
)
def test_an_amd_gpu_is_named_without_its_target_features(fake_gpu, reported, arch):
    fake_gpu(arch=reported)
    assert detect() == detect("cuda:0") == Platform("amd", arch)


@pytest.mark.parametrize(
    ("capability", "arch"), [((7, 5), "sm_75"), ((9, 0), "sm_90"), ((10, 3), "sm_103"), ((12, 0), "sm_120")]
)
def test_an_nvidia_gpu_is_named_by_its_compute_capability(fake_gpu, capability, arch):
    fake_gpu(capability=capability)
    assert detect() == detect(torch.device("cuda")) == Platform("nvidia", arch)


def test_the_cpu_is_found_when_asked_for_or_when_there_is_nothing_else(fake_gpu, monkeypatch):
    fake_gpu(capability=(9, 0))
    assert detect("cpu") == Platform("cpu", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert detect() == Platform("cpu", "")


def test_a_gpu_that_is_not_there_is_refused(no_gpu):
    with pytest.raises(ValueError, match=r"^device is cuda:1: .* finds no GPU"):
        detect("cuda:1")


def test_a_device_of_another_kind_is_refused():
    with pytest.raises(ValueError, match=r"^device is meta: it must be"):
        detect("meta")


def test_an_import_does_not_start_the_gpu_runtime():
    # A fresh process: here, something else may have started it already.
    script = "import torch, onelaunch.builder, onelaunch.gate; assert not torch.cuda.is_initialized()"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("platform", "text"), [(Platform("amd", "gfx942"), "amd gfx942"), (Platform("cpu", ""), "cpu")]
)
def test_a_platform_prints_as_the_gate_names_it(platform, text):
    assert str(platform) == text
