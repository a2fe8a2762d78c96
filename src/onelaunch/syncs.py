"""Waits for the device, noticed where they happen.

A host that waits for its GPU in the middle of a step leaves the GPU idle afterwards. On a GPU PyTorch notices
most of such calls itself (``torch.cuda.set_sync_debug_mode``). On a CPU nothing waits, so :func:`policing`
looks for the calls that would on a GPU: reading a value, and results whose shape depends on values.

What neither notices: ``torch.cuda.synchronize`` and waiting for an event, which are asked for by name;
blocking copies from pageable memory, on a CPU. On a CPU only the calling thread is looked at.

``onelaunch sync-check`` does the same for a whole program that knows nothing of this module, by-name waits
and all threads included. A program that does know it says :func:`warmed_up` and :func:`allowed`.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

MODES = ("off", "warn", "error")


@dataclass(frozen=True, slots=True)
class Sync:
    """A call that waits for the device.

    Attributes:
        what: the call.
        stack: where, innermost last, as :func:`traceback.format_stack` writes it.
    """

    what: str
    stack: tuple[str, ...]


class SyncError(RuntimeError):
    """A call waits for the device where none may."""


_of_thread = local()
_told: int | None = None  # the process that called warmed_up: a fork has its own warm-up


@contextmanager
def policing(
    mode: str, device: torch.device, on_sync: Callable[[Sync], None] | None = None
) -> Iterator[None]:
    """Notice calls in the block that wait for ``device``.

    Args:
        mode: "off"; "warn" reports each to ``on_sync``; "error" also stops at the first.
        on_sync: by default a Python warning with the place.

    Raises:
        ValueError: an unknown mode.
        SyncError: in mode "error", from the call that waits.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}: it must be one of {', '.join(MODES)}")
    if mode == "off":
        yield
        return

    def report(what: str) -> None:
        if is_allowed():
            return
        stack = traceback.format_stack()[:-2]
        sync = Sync(what, tuple(stack))
        if on_sync is None:
            warnings.warn(
                f"{what} waits for the device:\n{''.join(stack[-3:])}", RuntimeWarning, stacklevel=4
            )
        else:
            on_sync(sync)
        if mode == "error":
            raise SyncError(f"{what} waits for the device")

    # As torch.compiler.disable does, without its seconds of import: torch.compile need not look inside.
    report._torchdynamo_disable = True  # type: ignore[attr-defined]
    with _on_gpu(report) if device.type == "cuda" else WouldWait(report):
        yield


@contextmanager
def allowed(reason: str) -> Iterator[None]:
    """Waits in the block are meant: ``reason`` says why to who reads the code."""
    before = getattr(_of_thread, "allowed", 0)
    _of_thread.allowed = before + 1
    policed = torch.cuda.is_available() and torch.cuda.get_sync_debug_mode()
    if policed:
        torch.cuda.set_sync_debug_mode("default")
    try:
        yield
    finally:
        _of_thread.allowed = before
        if policed:
            torch.cuda.set_sync_debug_mode(policed)


def is_allowed() -> bool:
    """Whether this thread is in a block of :func:`allowed`."""
    return bool(getattr(_of_thread, "allowed", 0))


def warmed_up() -> None:
    """Tell ``onelaunch sync-check``, if this process runs below it, that warm-up is over.

    The first call of a process counts, so it may be made every step.
    """
    global _told
    folder = os.environ.get("ONELAUNCH_SYNC_RECORD")
    if folder and _told != os.getpid():
        _told = os.getpid()
        with suppress(OSError):
            Path(folder, f"{_told}-{time.monotonic_ns()}.warm").touch()


def not_on_gpu(device: torch.device) -> AbstractContextManager[None]:
    """For code that has another form on a GPU: what it does on a CPU is not held against it."""
    return allowed("a GPU runs other code") if device.type == "cpu" else nullcontext()


@contextmanager
def _on_gpu(report: Callable[[str], None]) -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    show = warnings.showwarning

    def noticed(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **more: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            report(f"a call at {filename}:{lineno}")
        else:
            show(message, category, filename, lineno, *rest, **more)

    with warnings.catch_warnings():
        # Each one, and not only the first of a place.
        warnings.filterwarnings("always", message=".*synchronizing CUDA operation")
        warnings.showwarning = noticed
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
            warnings.showwarning = show


_READS = {
    "item", "tolist", "numpy", "cpu", "__array__", "__repr__", "__format__",
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__",
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount",
    "equal", "allclose", "is_nonzero",
}  # fmt: skip


# Where a number is wanted, a tensor is read. The first argument of the second set is the tensor itself.
_SIZED = {"zeros", "ones", "empty", "full", "rand", "randn", "arange", "linspace"}
_SIZED_METHODS = {"view", "reshape", "expand", "repeat", "narrow", "split", "topk"}


class WouldWait(TorchFunctionMode):
    """Reports calls of its thread that would wait on a GPU, all tensors taken for a GPU's.

    ``torch.compile`` traces this too, so a report breaks its graph: where the read would, as a rule.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__()
        self._report = report

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in _READS or _copies_to_host(name, args, kwargs) or _depends_on_values(name, args, kwargs):
            self._report(name)
        return func(*args, **kwargs)


def _copies_to_host(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """``to("cpu")``, as text: a ``torch.device`` is where the program works, and here that is the CPU."""
    target = args[1] if len(args) > 1 else kwargs.get("device")
    return name == "to" and target == "cpu" and isinstance(target, str) and not kwargs.get("non_blocking")


def _depends_on_values(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if name in ("__getitem__", "__setitem__", "index_put_"):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        if name != "index_put_" and any(map(_reads_position, index)):
            return True
        # Writing one value under a mask is a masked fill; reading under one has a shape that depends on it.
        masked = any(
            isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8) for one in index
        )
        return masked and (name == "__getitem__" or isinstance(args[2], torch.Tensor))
    if name in _SIZED or name in _SIZED_METHODS:
        return _has_tensor(args if name in _SIZED else args[1:])
    if name == "repeat_interleave":
        repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0])
        return isinstance(repeats, torch.Tensor) and kwargs.get("output_size") is None
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name in ("tensor", "as_tensor"):
        return isinstance(args[0], (list, tuple)) and _has_tensor(args[0])
    return False


def _reads_position(index: Any) -> bool:
    if isinstance(index, slice):
        return any(isinstance(one, torch.Tensor) for one in (index.start, index.stop, index.step))
    if not isinstance(index, torch.Tensor) or index.dim() > 0:
        return False
    return not index.is_floating_point() and index.dtype not in (torch.bool, torch.uint8)


def _has_tensor(args: Sequence[Any]) -> bool:
    return any(
        isinstance(one, torch.Tensor) or (isinstance(one, (list, tuple)) and _has_tensor(one)) for one in args
    )
