"""The plug-in's log lines."""

from __future__ import annotations

import logging
import re

# A child of vLLM's logger, so that the lines look and go where vLLM's do.
logger = logging.getLogger("vllm.onelaunch")

_said: set[str] = set()


def warn_once(line: str) -> None:
    """Warn, unless the same was said before, numbers aside: some lines have a batch's sizes in them."""
    key = re.sub(r"\d+", "0", line)
    if key not in _said:
        _said.add(key)
        logger.warning("%s", line)


def forget() -> None:
    """Say everything anew: for tests."""
    _said.clear()
