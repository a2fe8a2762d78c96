"""Which GPU a build would run on: its vendor and architecture, as the gate names them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of device. Made by :func:`detect`, or by hand to ask the gate about another machine.

    Attributes:
        vendor: "amd", "nvidia" or "cpu".
        arch: "gfx942", "sm_90"; "" on a CPU.
    """

    vendor: Literal["amd", "nvidia", "cpu"]
    arch: str

    def __str__(self) -> str:
        return f"{self.vendor} {self.arch}".rstrip()


def detect(device: torch.device | str | None = None) -> Platform:
    """The platform of ``device``; of the current GPU, or the CPU where there is none, when None.

    Touches the GPU runtime only when called: an import of onelaunch must not start CUDA, as engines fork
    their workers after it.

    Raises:
        ValueError: ``device`` is neither a CPU nor a GPU, or it is a GPU and PyTorch finds none.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    if device.type == "cpu":
        return Platform("cpu", "")
    if device.type != "cuda":  # "cuda" on ROCm builds too
        raise ValueError(f"device is {device}: it must be a CPU or a CUDA or ROCm GPU")
    if not torch.cuda.is_available():
        raise ValueError(f"device is {device}: PyTorch {torch.__version__} finds no GPU here")
    if torch.version.hip:
        # The driver appends target features: "gfx942:sramecc+:xnack-".
        return Platform("amd", torch.cuda.get_device_properties(device).gcnArchName.split(":")[0])
    major, minor = torch.cuda.get_device_capability(device)
    return Platform("nvidia", f"sm_{major}{minor}")


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Launches in the block are on ``device``, whichever GPU is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
