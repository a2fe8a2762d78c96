"""Watching begins: PyTorch has just been imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from . import cpu, cuda
from .record import Record

_SYNCS = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "syncs.py"))


def install(torch: Any, device: str, record: Record) -> None:
    """Watch ``device``: "cpu", "cuda", or "auto" for CUDA where there is one."""
    try:
        if device == "auto":
            device = "cuda" if _has_cuda(torch) else "cpu"
        if device == "cuda":
            cuda.watch(torch, record.sync)
        else:
            cpu.watch(_syncs().WouldWait, record.sync)
        record.watched(device, hide=_SYNCS)
    except Exception as error:  # the program must run all the same
        record.failed(error)


def _has_cuda(torch: Any) -> bool:
    if torch.version.cuda is None and torch.version.hip is None:
        return False
    # Asked through the driver's management library. Else the driver would start here, before the program
    # has set CUDA_VISIBLE_DEVICES or forked.
    variable = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        return bool(torch.cuda.is_available())
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _syncs() -> ModuleType:
    """A copy of ``onelaunch.syncs`` alone: importing the package would import Triton too."""
    spec = importlib.util.spec_from_file_location("_onelaunch_syncs", _SYNCS)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_SYNCS} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
