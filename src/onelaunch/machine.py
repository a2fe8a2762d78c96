"""What a measurement was made with: the device, and the versions of everything that matters to it."""

from __future__ import annotations

import platform as host
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from onelaunch import __version__
from onelaunch.platform import Platform


def device_name(platform: Platform) -> str:
    """The GPU's name, or the processor's."""
    if platform.vendor != "cpu":
        return torch.cuda.get_device_name()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return host.processor() or host.machine()


def kernels() -> str:
    """How kernels run here."""
    try:
        from onelaunch._triton import interpreted
    except ImportError as error:
        return f"unavailable: {error}"
    return "run in Triton's interpreter" if interpreted() else "compiled by Triton"


def versions(platform: Platform) -> dict[str, str | None]:
    """Versions by name; None where a thing is not here."""
    found: dict[str, str | None] = {"onelaunch": __version__, "python": host.python_version()}
    for package in ("torch", "triton", "triton-rocm", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    found["torch"] = torch.__version__  # which build it is, too
    found["cuda"] = torch.version.cuda
    found["rocm"] = torch.version.hip
    found["driver"] = _driver(platform)
    return found


def _driver(platform: Platform) -> str | None:
    """The kernel driver's version, which PyTorch does not tell; None where it cannot be found out."""
    try:
        if platform.vendor == "amd":
            return Path("/sys/module/amdgpu/version").read_text().strip()
        if platform.vendor == "nvidia":
            query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
            return done.stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        pass
    return None
