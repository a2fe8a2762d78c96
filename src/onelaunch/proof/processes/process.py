"""A command with a log file, never left running: servers, and load programs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from onelaunch.proof.processes import supervisor
from onelaunch.proof.processes.command import runnable
from onelaunch.proof.processes.failure import naming

_MARGIN_S = 20.0  # of the supervisor, over the time that its signals may take


class Process:
    """A command under its supervisor. As a context manager it stops the command, and all that it started.

    Args:
        command: its words; no shell. ``onelaunch`` is this installation's.
        log: gets its output and errors; None leaves them where ours go.
        env: additions to this process's environment.
        stop_timeout: seconds for SIGINT, and again for SIGTERM, before SIGKILL.

    Raises:
        ProcessFailed: from ``stop``, when a process outlives even SIGKILL.
    """

    def __init__(
        self, command: Sequence[str], log: Path | None, env: Mapping[str, str], stop_timeout: float
    ) -> None:
        self.log = Path(os.devnull) if log is None else log
        if log is None:
            self._start(command, env, stop_timeout, None, None)
            return
        with log.open("wb") as output:
            self._start(command, env, stop_timeout, output, subprocess.STDOUT)

    def _start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        stop_timeout: float,
        stdout: IO[bytes] | int | None,
        stderr: int | None,
    ) -> None:
        self._stop_timeout = stop_timeout
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(stop_timeout), *runnable(command)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **env},
            start_new_session=True,  # a Ctrl-C in the terminal reaches it through us, in order
        )

    def status(self) -> int | None:
        """The command's exit status, or None while it runs."""
        return self._supervisor.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit status, or None if it still runs after ``seconds``."""
        try:
            return self._supervisor.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Begin stopping, without waiting for the end."""
        if self._supervisor.stdin is not None:
            with contextlib.suppress(OSError):
                self._supervisor.stdin.close()

    def stop(self) -> None:
        """Stop the command and all that it started; nothing happens if it has ended.

        A Ctrl-C while it waits is raised again once the command is gone: it does not leave it running.
        """
        if self.status() is not None:
            return
        self.ask_to_stop()
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                status = self.wait(2 * self._stop_timeout + _MARGIN_S)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if status is None or status == supervisor.NOT_KILLED:
            raise naming(self.log, "a process can't be stopped, even by SIGKILL")
        if interrupt is not None:
            raise interrupt

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
