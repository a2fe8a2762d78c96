"""The one place that imports Triton.

Triton decides between its compiler and its interpreter when its own library is imported, so the choice
must be made before that: without a GPU, kernels run in the interpreter.
"""

from __future__ import annotations

import os
import sys

import torch

if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

__all__ = ["interpreted", "tl", "triton"]


def interpreted() -> bool:
    """Whether kernels defined now run in Triton's interpreter instead of being compiled."""
    return bool(triton.knobs.runtime.interpret)
