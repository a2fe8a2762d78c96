"""Files that are never half written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` at once: whoever reads it finds the old or the new."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)
