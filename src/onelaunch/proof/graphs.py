"""Work recorded in a CUDA graph, and how long the device takes for it."""

from __future__ import annotations

from collections.abc import Callable

import torch


def record(run: Callable[[], None], times: int) -> torch.cuda.CUDAGraph:
    """``run`` in a CUDA graph, so many times in a row."""
    run()  # whatever compiles lazily does so now
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()
    return graph


def elapsed_us(run: Callable[[], None]) -> float:
    """Microseconds of device time that ``run`` takes; waits for them."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000
