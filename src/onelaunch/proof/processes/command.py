"""Command lines of plans."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence


def runnable(words: Sequence[str]) -> list[str]:
    """``onelaunch`` in a command is this installation's, also where it is not on the PATH."""
    own = [sys.executable, "-m", "onelaunch"]
    return [*(own if words[0] == "onelaunch" else words[:1]), *words[1:]]


def fill(command: Sequence[str], **values: object) -> list[str]:
    """A command with its placeholders filled in. Other braces, as those of JSON, are left alone."""
    pattern = re.compile("|".join(rf"\{{{name}\}}" for name in values))
    return [pattern.sub(lambda match: str(values[match[0][1:-1]]), word) for word in command]
