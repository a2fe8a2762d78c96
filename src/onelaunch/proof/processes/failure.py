"""How a run of other programs ends early."""

from __future__ import annotations

from pathlib import Path


class ProcessFailed(Exception):
    """A server or a command broke, so there is nothing to report. The message names the log to read.

    What was finished is kept, and the same command goes on from there.
    """


def last_line(log: Path) -> str:
    """The last line of a log that says anything, shortened: what a program said before it died."""
    try:
        lines = log.read_bytes()[-10_000:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][-200:] if said else ""


def naming(log: Path, what: str) -> ProcessFailed:
    """A failure with its log, and the log's last line."""
    line = last_line(log)
    return ProcessFailed(f"{what}; log: {log}" + (f", which ends: {line}" if line else ", which is empty"))
