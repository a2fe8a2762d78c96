"""Which vLLM the plug-in knows: versions, and the shape of what it patches."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from typing import Any

VERSIONS = "0.33"
_VERSION = re.compile(r"0\.33(\.\d+)?(\.post\d+)?(\+.*)?")  # no pre-release: its code may still change


class Unsupported(Exception):
    """Why something of vLLM is not patched."""


def require_version(version: str) -> None:
    if not _VERSION.fullmatch(version):
        raise Unsupported(f"vLLM is {version}: the versions supported are {VERSIONS}.*")


def require_parameters(owner: Any, name: str, parameters: str) -> Any:
    """The function ``owner.name``, whose parameters must be these, space-separated.

    Raises:
        Unsupported: it is not there, or takes others.
    """
    function = getattr(owner, name, None)
    where = f"{owner.__name__}.{name}"
    if not callable(function):
        raise Unsupported(f"vLLM has no {where}")
    found = " ".join(inspect.signature(function).parameters)
    if found != parameters:
        raise Unsupported(f"{where} of vLLM takes ({found}): it must take ({parameters})")
    return function


def require_fields(owner: type, names: Iterable[str]) -> None:
    """``owner`` must be a dataclass that has these fields."""
    fields = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    missing = [name for name in names if name not in fields]
    if missing:
        raise Unsupported(f"{owner.__name__} of vLLM has no {', '.join(missing)}")
