"""Disarming: what went wrong, said once, and vLLM's own builds from then on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from onelaunch.proof.case_file import AnyCase, write
from onelaunch.proof.cases import Case
from onelaunch.proof.compare import Mismatch
from onelaunch.vllm_plugin import counters, log, settings

_SHRINK_SECONDS = 15.0  # the engine waits meanwhile

_reason: str | None = None
_recorded = False


def disarmed() -> str | None:
    """Why the plug-in builds nothing any more in this process; None while it may."""
    return _reason


def rearm() -> None:
    """Forget an earlier disarm: for tests."""
    global _reason, _recorded
    _reason, _recorded = None, False
    log.forget()


def recorded() -> None:
    """A launch goes into a CUDA graph, which no disarm can take it out of."""
    global _recorded
    _recorded = True


def stand_aside(reason: str) -> None:
    """Say, once, why a build is left to vLLM although nothing is wrong with the kernel."""
    log.warn_once(f"onelaunch leaves window metadata to vLLM: {reason}")


def disarm(reason: str) -> None:
    """Leave every later build of this process to vLLM."""
    global _reason
    if _reason is not None:
        return
    _reason = reason
    counters.count("disarms")
    log.logger.error("onelaunch is disarmed, vLLM builds its window metadata itself: %s", reason)
    if _recorded:
        log.logger.error(
            "CUDA graphs that vLLM recorded of draft steps before keep onelaunch's launch: "
            "restart the server with ONELAUNCH=0"
        )


def disarm_on_mismatch(found: Sequence[Mismatch], case: Case | None) -> None:
    """Disarm over a build that differs from vLLM's. Its batch is kept in a case file, made small first."""
    if _reason is not None:
        return
    disarm(f"{found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''}. {_keep(case)}")


def _keep(case: Case | None) -> str:
    if case is None:
        return "The batch could not be read back."
    path = settings.case_dir() / f"onelaunch-case-{os.getpid()}.json"
    try:
        write(path, [case])
        return _shrink(case, path)
    except Exception as error:
        return f"Its case could not be kept in {path}: {error}"


def _shrink(case: Case, path: Path) -> str:
    from onelaunch.proof.shrink import shrink
    from onelaunch.proof.verify import run_steps

    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

    def fails(steps: list[AnyCase]) -> bool:
        return bool(run_steps(steps, device))

    if not fails([case]):
        return (
            f"Both of onelaunch's own builds agree on this batch, kept in {path}: vLLM's differs from them."
        )
    write(path, shrink([case], fails, max_seconds=_SHRINK_SECONDS))
    return f"Replay the smallest such batch: onelaunch verify --case {path}"
