"""Builds by path, verify passes and disarms; ``prometheus_client`` metrics too where that is installed."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from onelaunch.vllm_plugin.log import warn_once

# A group's build or draft update by the kernel, both ways, or vLLM's own code; a step of real batches whose
# groups all agreed; a wrong build that turned the plug-in off.
Event = Literal["kernel", "verify", "vllm", "verified", "disarms"]

counts: Counter[Event] = Counter()

_metrics: dict[Event, Any] | None = None  # None before the first count


def count(event: Event) -> None:
    global _metrics
    counts[event] += 1
    try:
        if _metrics is None:
            _metrics = _made()
        if event in _metrics:
            _metrics[event].inc()
    except Exception as error:  # a build must not end over its metric
        _metrics = {}
        warn_once(f"onelaunch counts nothing for Prometheus: {type(error).__name__}: {error}")


def _made() -> dict[Event, Any]:
    try:
        from prometheus_client import Counter as Metric  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    builds = Metric("onelaunch_builds", "Window-metadata builds and draft updates of groups.", ["path"])
    return {
        "kernel": builds.labels(path="kernel"),
        "verify": builds.labels(path="verify"),
        "vllm": builds.labels(path="vllm"),
        "verified": Metric("onelaunch_verified", "Steps found equal to vLLM's own, rehearsals aside."),
        "disarms": Metric("onelaunch_disarms", "Times that a wrong build turned the plug-in off."),
    }
