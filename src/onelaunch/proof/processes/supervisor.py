"""Runs a command, and leaves nothing of it behind: ``python supervisor.py SECONDS COMMAND``.

A program of its own. It stops the command when its standard input ends, and that happens whenever the process
that started it ends, even by SIGKILL. Standard library only, so that starting it takes no time.

It is the subreaper (prctl(2)) of what it starts: a process whose parent died becomes its child. So workers
of a server are found even in sessions of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_ORPHANS_S = 2.0  # for what is left when the command itself has ended
_KILL_S = 10.0  # a process in an uninterruptible wait (a hung driver) outlives SIGKILL
NOT_FOUND, NOT_KILLED = 127, 125


class _Stop(Exception):
    pass


class _Command:
    """The command and everything that it started."""

    def __init__(self, words: list[str]) -> None:
        # A group of its own: SIGINT goes to all of it, as from a terminal.
        self.pid = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True).pid
        self.status: int | None = None

    def wait(self) -> None:
        """Until the command ends or standard input does, which raises _Stop."""
        ended = os.pidfd_open(self.pid)
        while self.status is None:
            readable, _, _ = select.select([0, ended], [], [])
            if 0 in readable and not os.read(0, 4096):
                raise _Stop
            self.reap()
        os.close(ended)

    def reap(self) -> None:
        """Take the status of whatever has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.status = code if code >= 0 else 128 - code

    def stop(self, seconds: float) -> bool:
        """SIGINT, then SIGTERM, then SIGKILL, each with its time. Whether all is gone."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGINT)
            if self._gone(seconds):
                return True
        _signal_all(signal.SIGTERM)
        if self._gone(seconds if self.status is None else min(seconds, _ORPHANS_S)):
            return True
        deadline = time.monotonic() + _KILL_S
        while time.monotonic() < deadline:  # again and again: a process may fork in between
            _signal_all(signal.SIGKILL)
            if self._gone(_POLL_S):
                return True
        return False

    def _gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            was_running = self.status is None
            self.reap()
            if not descendants(os.getpid()):
                return True
            now = time.monotonic()
            if was_running and self.status is not None:
                deadline = min(deadline, now + _ORPHANS_S)
            if now >= deadline:
                return False
            time.sleep(_POLL_S)


def descendants(root: int) -> list[int]:
    """Living processes below ``root``, from /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                # "pid (name) state parent ...": the name may hold spaces and brackets.
                state, parent = file.read().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _signal_all(number: int) -> None:
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _stop_at(number: int, frame: FrameType | None) -> None:
    raise _Stop


def main() -> int:
    """Run the command; its exit status, 128 + n for a signal, or 0 when it was stopped."""
    seconds, words = float(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        command = _Command(words)
    except OSError as error:
        print(f"{words[0]} can't be run: {error.strerror}", file=sys.stderr)
        return NOT_FOUND
    stopped = False
    signal.signal(signal.SIGTERM, _stop_at)
    try:
        command.wait()
    except _Stop:
        stopped = True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not command.stop(seconds):
        left = ", ".join(map(str, descendants(os.getpid())))
        print(f"processes {left} outlive SIGKILL", file=sys.stderr)
        return NOT_KILLED
    return 0 if stopped else command.status or 0


if __name__ == "__main__":
    sys.exit(main())
