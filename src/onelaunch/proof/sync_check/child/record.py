"""What a watched process writes: a line of JSON for each stack, one for each synchronisation there.

A file a process, opened anew for each line: a program may fork, or close all files it does not know.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable

Frame = tuple[str, int, str]  # file, line, function

_HERE = os.path.dirname(os.path.abspath(__file__))


class Record:
    """The lines of this process, in ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._device: str | None = None
        self._ending = False
        self._hidden: tuple[str, ...] = (_HERE + os.sep, threading.__file__, "<frozen importlib")
        self._of_thread = threading.local()
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        # A private name, but what runs right after the program's last line: atexit runs last what came first.
        at_end: Callable[[Callable[[], None]], object] = getattr(
            threading, "_register_atexit", atexit.register
        )
        at_end(self._main_ends)

    def _begin(self) -> None:
        self._path = os.path.join(self._folder, f"{os.getpid()}-{time.monotonic_ns()}.jsonl")
        self._stacks: dict[tuple[str, tuple[Frame, ...]], int] = {}
        self._ids = itertools.count()
        self._steps = itertools.count(1)
        self._write({"process": os.getpid(), "command": getattr(sys, "orig_argv", [])})
        if self._device is not None:
            self._write({"device": self._device})

    def _main_ends(self) -> None:
        self._ending = True

    def _write(self, line: dict[str, object]) -> None:
        with contextlib.suppress(OSError), open(self._path, "ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def watched(self, device: str, hide: str) -> None:
        """PyTorch was imported, and is watched. Frames of the file ``hide`` are left out."""
        self._device = device
        self._hidden = (*self._hidden, hide)
        self._write({"device": device})

    def failed(self, error: BaseException) -> None:
        """This process can't be watched."""
        self._write({"failed": f"{type(error).__name__}: {error}"})

    @contextlib.contextmanager
    def step(self):  # type: ignore[no-untyped-def]
        """The block is a step; one within it belongs to it."""
        before = getattr(self._of_thread, "step", None)
        if before is None:
            self._of_thread.step = next(self._steps)
            self._write({"step": self._of_thread.step, "at": time.monotonic()})
        try:
            yield
        finally:
            self._of_thread.step = before

    def sync(self, what: str) -> None:
        """A synchronisation, by the caller. Those of the interpreter's exit are left out."""
        if sys.is_finalizing() or (self._ending and threading.current_thread() is threading.main_thread()):
            return
        program = sys.modules.get("onelaunch.syncs")  # the program's own: not the copy that watches
        is_allowed = getattr(program, "is_allowed", None)
        if is_allowed is not None and is_allowed():
            return
        key = (what, self._frames())
        number = next(self._ids)
        stack = self._stacks.setdefault(key, number)
        if stack == number:
            self._write({"stack": stack, "what": what, "frames": key[1]})
        line: dict[str, object] = {
            "sync": stack,
            "at": time.monotonic(),
            "thread": threading.current_thread().name,
        }
        step = getattr(self._of_thread, "step", None)
        if step is not None:
            line["in_step"] = step
        self._write(line)

    # As torch.compiler.disable does, without its seconds of import: torch.compile need not look inside.
    sync._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _frames(self) -> tuple[Frame, ...]:
        """Outermost first."""
        frames = []
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(self._hidden):
                frames.append((code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)))
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(reversed(frames))
