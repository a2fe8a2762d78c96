"""The flag that turns the plug-in on, and its settings, all read from the environment."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onelaunch.vllm_plugin.log import warn_once

FLAG = "ONELAUNCH"
_ON = ("1", "true", "on", "yes")
_OFF = ("", "0", "false", "off", "no")


def requested() -> bool:
    """Whether the user asked for the plug-in: ``ONELAUNCH``, or else ``--additional-config``."""
    flag = os.environ.get(FLAG)
    if flag is not None:
        return _is_on(FLAG, flag)
    return any(
        _is_on("onelaunch of --additional-config", config.get("onelaunch", False))
        for config in _configs_of_callers()
    )


def decided() -> bool:
    """Whether ``ONELAUNCH`` answers for the life of the process, so that no configuration is asked."""
    return FLAG in os.environ


def verify_builds() -> int:
    """Builds that are compared with vLLM's own before a set of groups is armed.

    Raises:
        ValueError: the setting is no number of builds.
    """
    value = os.environ.get("ONELAUNCH_VERIFY_BUILDS", "8")
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"ONELAUNCH_VERIFY_BUILDS is {value!r}: it must be an integer of at least 1")
    return int(value)


def case_dir() -> Path:
    """Where the case of a wrong build is written."""
    return Path(os.environ.get("ONELAUNCH_CASE_DIR") or tempfile.gettempdir())


def rocm_draft_update() -> bool:
    """Whether ROCm drafters may refresh their metadata on the device instead of rebuilding it."""
    name = "ONELAUNCH_ROCM_DRAFT_UPDATE"
    return _is_on(name, os.environ.get(name, ""))


def _is_on(name: str, value: object) -> bool:
    """A flag, of the environment or of JSON. What is no flag is off, with a warning."""
    text = str(value).strip().lower()
    if text not in _ON + _OFF:
        warn_once(f"{name} is {value!r}, which counts as off: it must be one of {', '.join(_ON + _OFF[1:])}")
    return text in _ON


def _configs_of_callers() -> Iterator[dict[Any, Any]]:
    """``additional_config`` of every configuration that a caller of the plug-in holds.

    vLLM loads plug-ins from the engine arguments, the engine core and the worker wrapper. Each holds the
    configuration by then, but none hands it over, and no global names it yet.
    """
    frame = sys._getframe(1).f_back
    while frame is not None:
        for name in ("vllm_config", "self"):
            holder = _attributes(frame.f_locals.get(name))
            for config in (holder, _attributes(holder.get("vllm_config"))):
                additional = config.get("additional_config")
                if isinstance(additional, dict):
                    yield additional
        frame = frame.f_back


def _attributes(holder: object) -> dict[str, Any]:
    """What an object holds itself: asking it could run code, and a half-made worker wrapper never ends."""
    try:
        return vars(holder)
    except TypeError:  # it has none
        return {}
