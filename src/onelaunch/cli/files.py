"""Files that commands read and write, as options and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def file_option(*names: str, help: str) -> Any:
    """A file that must be there."""
    return typer.Option(*names, exists=True, dir_okay=False, readable=True, help=help)


def file_argument(metavar: str, help: str) -> Any:
    """A file that must be there."""
    return typer.Argument(metavar=metavar, exists=True, dir_okay=False, readable=True, help=help)


def json_option(help: str = "Write the result to this file.") -> Any:
    """``--json OUT``, a file to be written beside what is printed."""
    return typer.Option("--json", metavar="OUT", help=help)


Against = Annotated[Path | None, file_option(help="An earlier --json to compare with.")]


def require_writable(**paths: Path | None) -> None:
    """Raise ValueError for a file that can't be: now, and not after a whole run."""
    for name, path in paths.items():
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{name.replace('_', '-')} is {path}: there is no folder {path.parent}")
        if path.is_dir():
            raise ValueError(f"{name.replace('_', '-')} is {path}: it must be a file, not a folder")
