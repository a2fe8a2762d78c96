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

from dataclasses import dataclass

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
        return
    # Not at the top: with the flag off the plug-in costs no import.
    from onelaunch.vllm_plugin import patches
    from onelaunch.vllm_plugin.guard import logger

    if patches.installed():
        return
    try:
        import vllm

        supported.require_version(vllm.__version__)
    except (ImportError, supported.Unsupported) as problem:
        logger.warning("onelaunch patches nothing: %s", problem)
        return
    patches.install()


def status() -> Status:
    """What the plug-in does in this process."""
    from onelaunch.vllm_plugin import counters, guard, patches

    return Status(
        registered=patches.installed(),
        patched=tuple(patches.patched()),
        disarmed=guard.disarmed(),
        counts={str(event): number for event, number in counters.counts.items()},
    )
