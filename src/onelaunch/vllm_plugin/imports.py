"""Runs an action on a module once it has been imported.

The plug-in is loaded in every process of vLLM, before most of vLLM. Importing what it patches there would
cost seconds in processes that never build metadata, and on NVIDIA the ROCm modules can't be imported at all.
So each patch waits for vLLM's own import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


def when_imported(name: str, action: Action) -> None:
    """Call ``action(module)``: now if the module is there, else right after its code has run."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    _waiting.actions.setdefault(name, []).append(action)
    if _waiting not in sys.meta_path:
        sys.meta_path.insert(0, _waiting)


def forget() -> None:
    """Drop all actions that still wait."""
    _waiting.actions.clear()
    if _waiting in sys.meta_path:
        sys.meta_path.remove(_waiting)


class _Waiting(MetaPathFinder):
    """Finds nothing itself: it hands on what the other finders find, with the actions tied to its loader."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.actions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._tie(spec.loader, fullname)
                return spec
        return None

    def _tie(self, loader: Any, fullname: str) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for action in self.actions.pop(fullname, ()):
                action(module)

        loader.exec_module = exec_module  # the loader is this one module's


_waiting = _Waiting()
