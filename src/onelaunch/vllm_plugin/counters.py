"""Builds by path, verify passes and disarms; ``prometheus_client`` metrics too where that is installed."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Literal

# A group's build or draft update by the kernel, both ways, or vLLM's own code; a step whose groups all
# agreed; a wrong build that turned the plug-in off.
Event = Literal["kernel", "verify", "vllm", "verified", "disarms"]

counts: Counter[Event] = Counter()


def count(event: Event) -> None:
    counts[event] += 1
    metric = _metrics().get(event)
    if metric is not None:
        metric.inc()


@cache
def _metrics() -> dict[Event, Any]:
    try:
        from prometheus_client import Counter as Metric  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    builds = Metric("onelaunch_builds", "Window-metadata builds and draft updates of groups.", ["path"])
    return {
        "kernel": builds.labels(path="kernel"),
        "verify": builds.labels(path="verify"),
        "vllm": builds.labels(path="vllm"),
        "verified": Metric("onelaunch_verified", "Steps found equal to vLLM's own."),
        "disarms": Metric("onelaunch_disarms", "Times that a wrong build turned the plug-in off."),
    }
