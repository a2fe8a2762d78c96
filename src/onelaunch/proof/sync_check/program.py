"""The program that is checked: started so that every Python below it is watched."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from onelaunch.proof.processes.process import Process

DEVICES = ("auto", "cuda", "cpu")
_START = Path(__file__).parent / "start"


class Program(Process):
    """A command under its supervisor, its output where ours goes. It has no standard input.

    Args:
        command: its words; no shell.
        env: additions to this process's environment.
        stop_timeout: seconds for SIGINT, and again for SIGTERM, before SIGKILL.
        look_for: text in its output; None leaves the output alone, a terminal included.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], stop_timeout: float, look_for: str | None
    ) -> None:
        self.log = Path(os.devnull)
        self.found_at: float | None = None  # time.monotonic() when look_for was printed
        output = None if look_for is None else subprocess.PIPE
        self._start(command, env, stop_timeout, output, output)
        self._readers = [
            threading.Thread(target=self._pass_on, args=(source, target, look_for.encode()), daemon=True)
            for source, target in ((self._supervisor.stdout, 1), (self._supervisor.stderr, 2))
            if look_for is not None and source is not None
        ]
        for reader in self._readers:
            reader.start()

    def finish_output(self) -> None:
        """After the end: wait for what it had printed."""
        for reader in self._readers:
            reader.join()

    def _pass_on(self, source: IO[bytes], target: int, text: bytes) -> None:
        tail = b""
        while piece := os.read(source.fileno(), 65536):
            if self.found_at is None and text in tail + piece:
                self.found_at = time.monotonic()
            tail = (tail + piece)[-len(text) :]
            with contextlib.suppress(OSError):  # nobody reads ours any more: the program goes on
                while piece:
                    piece = piece[os.write(target, piece) :]


def watching(folder: Path, device: str, step: str | None, unbuffered: bool) -> dict[str, str]:
    """The environment that has every Python process watched, and what it finds written to ``folder``.

    Args:
        device: one of ``DEVICES``.
        step: ``MODULE:FUNCTION`` whose calls are steps.
        unbuffered: print at once, though into a pipe.
    """
    paths = [str(_START)]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    env = {
        "PYTHONPATH": os.pathsep.join(paths),
        "ONELAUNCH_SYNC_RECORD": str(folder),
        "ONELAUNCH_SYNC_RECORD_DEVICE": device,
        "ONELAUNCH_SYNC_RECORD_STEP": step or "",
    }
    if unbuffered:
        env["PYTHONUNBUFFERED"] = "1"
    return env
