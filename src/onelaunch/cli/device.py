"""The ``--device`` option of the commands that build."""

from __future__ import annotations

import os

import torch


def chosen_device(name: str | None) -> torch.device:
    """The device an option names; a GPU if there is one when it names none.

    Raises:
        ValueError: it names no device that commands know, or a GPU where there is none.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cuda", "cpu"):
        raise ValueError(f"device is {name!r}: it must be cuda or cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda': PyTorch finds no GPU here")
    if name == "cpu":
        # Triton is imported by the first builder, and decides then: on a GPU machine it would compile.
        os.environ.setdefault("TRITON_INTERPRET", "1")
    return torch.device(name)
