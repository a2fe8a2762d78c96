"""Random numbers by counter: each follows from a request's seed, a position and a use, and from nothing else.

A request's samples then don't depend on the requests beside it, on a graph's replay or on a preemption. The
hash is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014), in 64-bit integers, so a CPU and a GPU draw the same numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What a number is for; two uses at one position must not share one.
TARGET, DRAFT, ACCEPT = range(3)

_GOLDEN = 0x9E3779B97F4A7C15
_BITS = 23  # (n + 1/2) / 2**23 has 24 significant bits: exact in float32, and never 0 or 1


def uniform(seed: Tensor, position: Tensor, stream: int, width: int | None = None) -> Tensor:
    """Numbers in the open interval (0, 1).

    Args:
        seed: [R] int64.
        position: [R] or [R, n] int64, sequence positions that the numbers are for.
        stream: TARGET, DRAFT or ACCEPT.
        width: numbers at each position; None is one, without a dimension.

    Returns:
        float32, [*position.shape] or [*position.shape, width].
    """
    state = _mix(seed + _signed(_GOLDEN * (stream + 1)))
    state = _mix(state.view(-1, *[1] * (position.dim() - 1)) + position * _signed(_GOLDEN))
    if width is not None:
        column = torch.arange(1, width + 1, device=seed.device)
        state = _mix(state[..., None] + column * _signed(_GOLDEN))
    return (_shift(state, 64 - _BITS) + 0.5) * 2.0**-_BITS


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shift right as an unsigned number."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 of the same bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
