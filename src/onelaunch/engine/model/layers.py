"""Norm, rotary embedding and mixture of experts: the parts that know nothing of a KV cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onelaunch.engine.model.config import ModelConfig


class RMSNorm(nn.Module):
    """``x / rms(x) * weight``, added up in float32 (Zhang and Sennrich, 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), self.eps)


# A draft block may reach past the longest sequence; nothing there is ever accepted.
_PAST_THE_END = 64


class Rotary(nn.Module):
    """Rotary position embedding of the last ``rope_head_dim`` values of a head (Su et al., 2021).

    Neighbouring values are a complex number, which a position turns. Turns come from a table, as a position
    may be known only on the device.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dim = config.rope_head_dim
        half = torch.arange(self.dim // 2, dtype=torch.float64)
        frequency = config.rope_theta ** (-2 * half / self.dim)
        positions = torch.arange(config.max_position_embeddings + _PAST_THE_END, dtype=torch.float64)
        angle = positions[:, None] * frequency
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def turns(self, positions: Tensor) -> Tensor:
        """[...] positions -> [..., rope_head_dim / 2] complex64. Layers of a pass share them."""
        return torch.complex(self.cos[positions], self.sin[positions])


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the last values of ``x`` [..., D] by ``turns``, which broadcast over the dimensions before.

    As a row's values are its key, its attention output is turned by every position it read; turning it back
    by the row's own, ``turns.conj()``, leaves distances alone.
    """
    size = 2 * turns.shape[-1]
    still, moved = x.split((x.shape[-1] - size, size), dim=-1)  # type: ignore[no-untyped-call]
    turned = torch.view_as_complex(moved.float().unflatten(-1, (-1, 2))) * turns
    return torch.cat((still, torch.view_as_real(turned).flatten(-2).to(x.dtype)), dim=-1)


class MoE(nn.Module):
    """A shared expert for every row, and the router's choice of the others, as in DeepSeek-V4.

    A router's affinity is ``sqrt(softplus(logit))``; the bias helps an expert to be chosen and does not weigh
    in its output; chosen affinities are normalised to sum to ``routed_scaling_factor``. Every expert computes
    every row and the weights drop what was not chosen: with few experts that costs less than sorting rows,
    and its shapes are the host's to know, so it can be captured in a CUDA graph.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        experts, hidden, inner = config.num_experts, config.hidden_size, config.moe_intermediate_size
        self.num_chosen = config.num_experts_per_token
        self.scaling = config.routed_scaling_factor
        self.limit = config.swiglu_limit
        self.router = nn.Linear(hidden, experts, bias=False)
        self.router_bias = nn.Parameter(torch.zeros(experts))
        # The shared expert is the first: all are one batched product.
        self.gate_up = nn.Parameter(torch.empty(experts + 1, hidden, 2 * inner))
        self.down = nn.Parameter(torch.empty(experts + 1, inner, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden] -> [T, hidden]."""
        rows = x.expand(self.gate_up.shape[0], *x.shape)
        gate, up = torch.bmm(rows, self.gate_up).chunk(2, dim=-1)
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        outputs = torch.bmm(F.silu(gate) * up, self.down)  # [experts + 1, T, hidden]
        return torch.einsum("te,eth->th", self.weights(x).to(x.dtype), outputs)

    def weights(self, x: Tensor) -> Tensor:
        """[T, hidden] -> [T, 1 + experts] float32: 1 for the shared expert, 0 for those not chosen."""
        affinity = F.softplus(self.router(x).float()).sqrt()
        chosen = (affinity + self.router_bias.float()).topk(self.num_chosen, dim=-1).indices
        picked = affinity.gather(-1, chosen)
        picked = picked / picked.sum(-1, keepdim=True) * self.scaling
        routed = torch.zeros_like(affinity).scatter(-1, chosen, picked)
        return torch.cat((torch.ones_like(routed[:, :1]), routed), dim=-1)
