"""vLLM's window metadata of a decode step in one launch: a plug-in of ``vllm.general_plugins``.

vLLM calls :func:`register` in every process. With the flag on, it patches four things as vLLM imports them
(:mod:`.patches`):

    build_attn_metadata    opens a step: the window groups of the call and their inputs (:mod:`.step`)
    builder.build          the first launches all (:mod:`.run`), the rest return views (:mod:`.window`)
    draft updates          the same two, when vLLM refreshes metadata between draft steps
    _forked_build          builds that vLLM records: the window groups on one branch

A set of groups has a :mod:`.plan`. Its launches are compared with vLLM's own (:mod:`.rehearsal`,
:mod:`.verification`) before they replace it, and the first difference ends it all (:mod:`.guard`).
docs/vllm.md has the whole on one page.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from onelaunch.vllm_plugin import settings, supported


@dataclass(frozen=True, slots=True)
class Status:
    """What the plug-in does in this process.

    Attributes:
        registered: the flag was on and vLLM is supported, so builders are patched as they are imported.
        patched: the builder classes that are.
        disarmed: why vLLM builds everything itself again; None while it need not.
        counts: builds and draft updates of groups by path ("kernel", "verify", "vllm"), steps "verified", and
            "disarms".
    """

    registered: bool
    patched: tuple[str, ...]
    disarmed: str | None
    counts: dict[str, int]


def register() -> None:
    """Patch vLLM, if the flag is on and the version supported. Does nothing the second time."""
    if not settings.requested():
        if not settings.decided():
            _ask_again()
        return
    # Not at the top: with the flag off the plug-in costs no import.
    from onelaunch.vllm_plugin import patches
    from onelaunch.vllm_plugin.log import warn_once

    if patches.installed():
        return
    try:
        import vllm

        supported.require_version(vllm.__version__)
    except (ImportError, supported.Unsupported) as problem:
        warn_once(f"onelaunch patches nothing: {problem}")
        return
    patches.install()


def _ask_again() -> None:
    """Have vLLM's later loads of plug-ins come here too.

    Its first may be before there is a configuration, as when the command line is parsed, and makes all later
    ones of the process and its forks do nothing.
    """
    plugins: Any = sys.modules.get("vllm.plugins")
    usual = getattr(plugins, "load_general_plugins", None)
    if usual is None or getattr(usual, "asks_onelaunch", False):
        return

    @functools.wraps(usual)
    def load_general_plugins() -> None:
        usual()
        register()

    load_general_plugins.asks_onelaunch = True  # type: ignore[attr-defined]
    plugins.load_general_plugins = load_general_plugins


def status() -> Status:
    """What the plug-in does in this process."""
    from onelaunch.vllm_plugin import counters, guard, patches

    return Status(
        registered=patches.installed(),
        patched=tuple(patches.patched()),
        disarmed=guard.disarmed(),
        counts={str(event): number for event, number in counters.counts.items()},
    )
