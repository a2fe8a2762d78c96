"""A training step as one CUDA graph: so small a model takes longer to launch than to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARMUP = 3  # steps before the capture: gradients and the optimizer's state get their places


def captured(
    step: Callable[..., dict[str, Tensor]], batch: Sequence[Tensor], device: torch.device
) -> Callable[..., dict[str, Tensor]]:
    """``step`` captured: a function of batches of the same shapes as ``batch``, which is trained on first.

    The result's tensors are overwritten by the next call.
    """
    places = [tensor.to(device) for tensor in batch]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARMUP):
            step(*places)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = step(*places)

    def replay(*given: Tensor) -> dict[str, Tensor]:
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor.pin_memory(), non_blocking=True)
        graph.replay()
        return losses

    return replay
