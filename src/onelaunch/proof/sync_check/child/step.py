"""A function of the program whose calls are its steps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .record import Record


def wrap(module: ModuleType, name: str, record: Record) -> None:
    """Record calls of ``name``, a function of ``module`` or a method (``Class.method``)."""
    try:
        owner: Any = module
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        function = inspect.getattr_static(owner, last)
        if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"{module.__name__}:{name} is not a plain function or method")
        setattr(owner, last, _recorded(function, record))
    except AttributeError:
        record.failed(AttributeError(f"{module.__name__} has no {name}"))
    except Exception as error:  # the program must run all the same
        record.failed(error)


def _recorded(function: Callable[..., Any], record: Record) -> Callable[..., Any]:
    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        with record.step():
            return function(*args, **kwargs)

    return step
