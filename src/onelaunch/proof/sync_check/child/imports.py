"""Something to do when a module has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Then = Callable[[ModuleType], None]


def after_import(then: Mapping[str, Then]) -> None:
    """Call ``then[name](module)`` once the module ``name`` has been imported completely."""
    sys.meta_path.insert(0, _Finder(then))


class _Finder(MetaPathFinder):
    def __init__(self, then: Mapping[str, Then]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._then:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._extend(spec, self._then[name])
                return spec
        return None

    @staticmethod
    def _extend(spec: ModuleSpec, then: Then) -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None or isinstance(loader, type):
            return

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == spec.name:  # a loader may serve several modules
                then(module)

        loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]
