"""Python imports this at its start, as its folder is first on PYTHONPATH; then the sitecustomize it hides."""

import contextlib
import importlib
import os
import sys


def _watch() -> None:
    import importlib.util

    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "child")
    # By path: the program's Python may not have onelaunch, or another one.
    name = "_onelaunch_sync_check"
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "__init__.py"))
    if spec is not None and spec.loader is not None:
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        sys.modules[name].watch()


def _continue() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if mine is not None:
            sys.modules["sitecustomize"] = mine  # which the import system expects to find
        if error.name != "sitecustomize":
            raise


with contextlib.suppress(Exception):  # whatever goes wrong here, the program runs; it is then not watched
    _watch()
_continue()
