"""The gate: whether a build may take the one-launch kernel on a platform.

Pure and without state: an engine records its flag and asks once, when it starts, so no forward reads a
global configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onelaunch.platform import Platform

# CDNA 3 and CDNA 4: where vLLM enables its own one-launch build, and the only AMD targets that are compiled
# and checked for spills here.
_AMD_ARCHS = frozenset({"gfx942", "gfx950"})

# Triton's compiler supports compute capability 8.0 and up.
_NVIDIA_OLDEST = 80

# "sm_90", "sm_103"; an "a" or "f" after it names architecture-specific features of the same chip.
_NVIDIA_ARCH = re.compile(r"sm_(\d+)[af]?")


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's answer.

    Attributes:
        enabled: the one-launch kernel may be used.
        reason: why, or why not, in a sentence that names the platform.
    """

    enabled: bool
    reason: str


def decide(flag: bool, platform: Platform) -> Decision:
    """Enabled when ``flag`` is on and the platform is AMD gfx942 or gfx950, or NVIDIA sm_80 or newer.

    Args:
        flag: the engine's opt-in, ``monokernel``.
        platform: where the build would run.
    """
    if not flag:
        return Decision(False, f"the monokernel flag is off ({platform})")
    if _supported(platform):
        return Decision(True, f"the monokernel flag is on and {platform} is supported")
    return Decision(
        False, f"{platform} is not supported: it must be amd gfx942 or gfx950, or nvidia sm_80 or newer"
    )


def _supported(platform: Platform) -> bool:
    if platform.vendor == "amd":
        return platform.arch in _AMD_ARCHS
    match = _NVIDIA_ARCH.fullmatch(platform.arch)
    # As numbers: as strings, "100" sorts before "80".
    return platform.vendor == "nvidia" and match is not None and int(match[1]) >= _NVIDIA_OLDEST
