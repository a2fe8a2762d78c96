"""A program run from beginning to end, or until Ctrl-C, and what was recorded of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onelaunch.proof.processes import supervisor
from onelaunch.proof.processes.failure import ProcessFailed
from onelaunch.proof.sync_check.program import Program, watching
from onelaunch.proof.sync_check.result import Result, read
from onelaunch.proof.sync_check.warmup import NEVER, Warmup

_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """How a program ended.

    Attributes:
        status: its exit status, 128 + n for a signal; None when it was stopped by Ctrl-C.
        stuck: processes of it are left, as not even SIGKILL ends them.
    """

    result: Result
    status: int | None
    stuck: bool = False


def run(
    command: Sequence[str],
    device: str = "auto",
    warmup: Warmup | None = None,
    step: str | None = None,
    stop_timeout: float = 30.0,
) -> Run:
    """Run ``command`` and record its synchronisations, those of processes that it starts included.

    Args:
        command: its words; no shell.
        device: "cuda", "cpu", or "auto": CUDA in a process that has it.
        step: ``MODULE:FUNCTION``: count only what happens in its calls.
        stop_timeout: seconds for SIGINT, and again for SIGTERM, before SIGKILL, on Ctrl-C.

    Raises:
        OSError: the command can't be run.
    """
    warmup = warmup or Warmup()
    with tempfile.TemporaryDirectory(prefix="onelaunch-sync-check-") as name:
        folder = Path(name)
        env = watching(folder, device, step, unbuffered=warmup.after is not None)
        begun = time.monotonic()
        program = Program(command, env, stop_timeout, warmup.after)
        status, stuck = None, False
        try:
            with program:
                while status is None:
                    status = program.wait(_WAIT_S)
        except KeyboardInterrupt:
            status = None
        except ProcessFailed:
            stuck = True
        if not stuck:
            program.finish_output()
        now = time.monotonic()
        asked_at = begun + warmup.seconds
        if warmup.after is not None:
            asked_at = max(asked_at, NEVER if program.found_at is None else program.found_at)
        result = read(folder, asked_at, now, step, warmup.steps)
    return Run(result, status, stuck or status == supervisor.NOT_KILLED)
