"""Random numbers by counter: each follows from a request's seed, a position and a use, and from nothing else.

A request's samples then don't depend on the requests beside it, on a graph's replay or on a preemption (but
for adaptive verification, where its neighbours decide how many of its drafts are verified). The hash is the
finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), in
64-bit integers, so a CPU and a GPU draw the same numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What a number is for; two uses at one position must not share one. A draft token has DRAFT + i, its place in
# its block, and the position where the block begins: block verification looks at drafts that it then rejects,
# so the next block's token at the same position must not come from the same numbers.
TARGET, ACCEPT, DRAFT = range(3)

_GOLDEN = 0x9E3779B97F4A7C15
# Steps of 2**-40 near 0, where float32 can tell them apart: a token of probability 1e-9 has its chance.
_BITS = 40
_BELOW_ONE = 1 - 2.0**-24


def uniform(seed: Tensor, position: Tensor, stream: int, width: int | None = None) -> Tensor:
    """Numbers in the open interval (0, 1).

    Args:
        seed: [R] int64.
        position: [R] or [R, n] int64, sequence positions that the numbers are for.
        stream: TARGET, ACCEPT, or DRAFT + i.
        width: numbers at each position; None is one, without a dimension.

    Returns:
        float32, [*position.shape] or [*position.shape, width]: ``(n + 1) / 2**40`` of a 40-bit n, rounded.
    """
    state = _mix(seed + _signed(_GOLDEN * (stream + 1)))
    state = _mix(state.view(-1, *[1] * (position.dim() - 1)) + position * _signed(_GOLDEN))
    if width is not None:
        column = torch.arange(1, width + 1, device=seed.device)
        state = _mix(state[..., None] + column * _signed(_GOLDEN))
    return ((_shift(state, 64 - _BITS) + 1).float() * 2.0**-_BITS).clamp(max=_BELOW_ONE)


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
