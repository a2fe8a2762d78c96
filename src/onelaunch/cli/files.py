"""Files that commands write."""

from __future__ import annotations

from pathlib import Path


def require_writable(**paths: Path | None) -> None:
    """Raise ValueError for a file that can't be: now, and not after a whole run."""
    for name, path in paths.items():
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{name.replace('_', '-')} is {path}: there is no folder {path.parent}")
        if path.is_dir():
            raise ValueError(f"{name.replace('_', '-')} is {path}: it must be a file, not a folder")
