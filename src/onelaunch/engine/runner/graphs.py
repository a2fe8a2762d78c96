"""CUDA graphs of decode steps, one set for each padded number of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from onelaunch.engine.runner.step import Piece, StepTensors
from onelaunch.launches import counting


def capture_sizes(max_requests: int) -> list[int]:
    """Numbers of requests that graphs are captured for: 1, 2, 4, then multiples of 8, and the largest."""
    return sorted({1, 2, 4, *range(8, max_requests + 1, 8), max_requests} & set(range(1, max_requests + 1)))


@dataclass(frozen=True, slots=True, eq=False)
class CapturedStep:
    """A step of decodes.

    Attributes:
        tensors: where it leaves its results.
        run: what is called to run it, in order.
        launches: of one step, those in graphs included.
    """

    tensors: StepTensors
    run: tuple[Callable[[], object], ...]
    launches: Counter[str]


class DecodeGraphs:
    """Captured steps by number of requests, in one memory pool.

    Args:
        fuse_metadata: metadata builds are one launch and join the graph: a step is one graph. Else they are
            launched between graphs, as they are today in engines whose decode graph holds the model alone.
    """

    def __init__(self, *, fuse_metadata: bool) -> None:
        self._fuse_metadata = fuse_metadata
        self._steps: dict[int, CapturedStep] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, tensors: StepTensors, pieces: Sequence[Piece]) -> None:
        """Capture a step; its inputs must be ones of padding alone. Largest first: smaller ones fit in its
        memory.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), counting() as launches:  # compiles, and makes what a capture may not
            for piece in pieces:
                piece.run()
        torch.cuda.current_stream().wait_stream(stream)
        run: list[Callable[[], object]] = []
        for eager, together in groupby(pieces, lambda piece: piece.is_metadata and not self._fuse_metadata):
            functions = [piece.run for piece in together]
            if eager:
                for function in functions:
                    function()
                run += functions
                continue
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                for function in functions:
                    function()
            run.append(graph.replay)
        self._steps[tensors.num_requests] = CapturedStep(tensors, tuple(run), launches)

    def find(self, num_requests: int) -> CapturedStep | None:
        """The smallest captured step that holds ``num_requests``."""
        fitting = [size for size in self._steps if size >= num_requests]
        return self._steps[min(fitting)] if fitting else None
