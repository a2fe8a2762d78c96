"""On a GPU: PyTorch's own warnings of synchronisations, and the calls that synchronise by name."""

from __future__ import annotations

import functools
import re
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

Report = Callable[[str], None]

_SYNC = "called a synchronizing CUDA operation"
_OURS = re.compile(f"{_SYNC}|Synchronization debug mode is a prototype")
_FILTER = ("always", _OURS, Warning, None, 0)
_OFF, _WARN = 0, 1  # of torch.cuda.set_sync_debug_mode

_of_thread = threading.local()


def watch(torch: Any, report: Report) -> None:
    """Watch all threads. CUDA is not started: watching begins when the program does so."""
    wanted = _debug_mode(torch)
    _warnings(report, lambda: wanted[0] != _OFF)
    _named(torch, report)


def _debug_mode(torch: Any) -> list[int]:
    """PyTorch warns from now on. What the program wants, and is told, is in the list."""
    wanted = [_OFF]
    change = torch.cuda.set_sync_debug_mode

    @functools.wraps(change)
    def set_sync_debug_mode(debug_mode: int | str) -> None:
        change(debug_mode)  # which refuses what is no mode
        names = {"default": 0, "warn": 1, "error": 2}
        wanted[0] = names[debug_mode] if isinstance(debug_mode, str) else debug_mode
        if wanted[0] == _OFF:
            change(_WARN)

    @functools.wraps(torch.cuda.get_sync_debug_mode)
    def get_sync_debug_mode() -> int:
        return wanted[0]

    torch.cuda.set_sync_debug_mode = set_sync_debug_mode
    torch.cuda.get_sync_debug_mode = get_sync_debug_mode
    # Private, but the public call would start CUDA here, and no program could fork or choose devices then.
    torch.cuda._lazy_call(lambda: change(_WARN))
    return wanted


def _warnings(report: Report, wanted: Callable[[], bool]) -> None:
    """Take PyTorch's warnings, whatever the program does with warnings.

    ``_showwarnmsg`` is what warnings.catch_warnings leaves in place; pytest runs every test in one.
    """
    module: Any = warnings
    show = module._showwarnmsg

    def _showwarnmsg(message: Any) -> None:
        text = str(message.message)
        if _SYNC in text and not getattr(_of_thread, "named", False):
            report("a call that waits")
        if wanted() or not _OURS.match(text):
            show(message)

    module._showwarnmsg = _showwarnmsg
    for owner, names in (
        (warnings, ("filterwarnings", "simplefilter", "resetwarnings")),
        (warnings.catch_warnings, ("__enter__", "__exit__")),
    ):
        for name in names:
            setattr(owner, name, _then_ours(getattr(owner, name)))
    _ours_first()


def _ours_first() -> None:
    """Our filter before all others: ``ignore`` would hide a synchronisation, ``error`` raise it."""
    filters: Any = warnings.filters
    if not filters or filters[0] is not _FILTER:
        filters[:] = [_FILTER, *(one for one in filters if one is not _FILTER)]
        # Else the old ones stay in effect. Python 3.14 has a lock, and another name.
        module: Any = warnings
        with getattr(module, "_lock", nullcontext()):
            (getattr(module, "_filters_mutated", None) or module._filters_mutated_lock_held)()


def _then_ours(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            _ours_first()

    return changed


def _named(torch: Any, report: Report) -> None:
    for owner, where in (
        (torch.cuda, "torch.cuda"),
        (torch.cuda.Event, "torch.cuda.Event"),
        (torch.cuda.Stream, "torch.cuda.Stream"),
        (getattr(torch, "accelerator", None), "torch.accelerator"),
    ):
        function = getattr(owner, "synchronize", None)
        if function is not None:
            setattr(owner, "synchronize", _reported(function, f"{where}.synchronize", report))  # noqa: B010


def _reported(function: Callable[..., Any], what: str, report: Report) -> Callable[..., Any]:
    @functools.wraps(function)
    def synchronize(*args: Any, **kwargs: Any) -> Any:
        if getattr(_of_thread, "named", False):
            return function(*args, **kwargs)
        report(what)
        _of_thread.named = True  # some of them warn as well
        try:
            return function(*args, **kwargs)
        finally:
            _of_thread.named = False

    return synchronize
