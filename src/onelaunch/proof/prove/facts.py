"""What a piece of evidence was gathered with."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path


def facts(where: Path) -> dict[str, str]:
    """Of this machine, now, and of the working tree at ``where``."""
    from onelaunch.machine import device_name, versions
    from onelaunch.platform import detect

    platform = detect()
    found = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": f"{device_name(platform)} ({platform})",
        **versions(platform),
        "commit": _commit(where),
    }
    return {name: value for name, value in found.items() if value is not None}


def _commit(where: Path) -> str | None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(where), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + (", with uncommitted changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
