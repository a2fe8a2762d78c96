"""Commands that keep what they finished, and go on from there when they are run again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.progress import Progress

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.signals import INTERRUPTED, signals_interrupt
from onelaunch.proof.load import RequestFailed
from onelaunch.proof.processes.failure import ProcessFailed


@contextmanager
def resumable(
    progress: Progress, saved: Callable[[], str], *, stopped: str = "stopped", failed: str = ""
) -> Iterator[None]:
    """One line that says what is kept when such a command ends early: with status 1 after a failure, and 130
    after a signal.

    Args:
        progress: taken off the terminal before the line.
        saved: what is kept, once it is over.
        stopped, failed: how the line begins after a signal, and before a failure's own words.
    """
    try:
        with signals_interrupt():
            yield
    except (ProcessFailed, RequestFailed) as error:
        raise CheckFailed(f"{failed}{error}; {saved()}") from None
    except KeyboardInterrupt:
        progress.stop()
        print(f"onelaunch: {stopped}; {saved()}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def kept_in(where: Path, what: str) -> str:
    """Words for what is kept."""
    return f"{what} are kept in {where}: the same command goes on from there"
