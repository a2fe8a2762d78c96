"""Checks of what an engine or a request is asked to do."""

from __future__ import annotations

from typing import Any


def require(name: str, value: object, holds: bool, expected: str) -> None:
    """Raise ValueError, naming what it was and what it must be, unless ``holds``."""
    if not holds:
        raise ValueError(f"{name} is {value!r}: it must be {expected}")


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``known``."""
    require(name, value, value in known, f"one of {', '.join(known)}")


def is_int(value: Any) -> bool:
    """An integer, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """An integer or a float, and not a bool."""
    return is_int(value) or isinstance(value, float)
