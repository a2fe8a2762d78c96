"""Packages that only some commands need."""

from __future__ import annotations

import importlib.util


def require(*packages: str) -> None:
    """Raise ValueError for the first that is missing: now, and not after hours of measuring."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{package} is not installed: pip install onelaunch[proof]")
