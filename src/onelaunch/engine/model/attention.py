"""Latent attention with one key-value head that is its own value; its compressor and indexer."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onelaunch.engine.model.config import ModelConfig
from onelaunch.engine.model.layers import RMSNorm, Rotary, rotate

_TIE = 1e-12  # between neighbouring rows: nothing beside a score that is not zero


class Memory(Protocol):
    """Where the keys of earlier rows are: a paged cache when serving, the sequence itself in training."""

    def attend(self, layer: Attention, query: Tensor, kv: Tensor, index: IndexQuery | None) -> Tensor:
        """Keep these rows' keys and attend to all that each row may see.

        Args:
            layer: whose cache it is.
            query: [T, H, D], rotated.
            kv: [T, D], rotated.
            index: what scores compressed rows, in an index layer.

        Returns:
            [T, H, D].
        """
        ...


class IndexQuery:
    """One row's side of an index score: ``sum over heads of weights * relu(query . key)``."""

    def __init__(self, query: Tensor, weights: Tensor) -> None:
        self.query = query  # [T, heads, index_head_dim]
        self.weights = weights  # [T, heads]

    def scores(self, keys: Tensor) -> Tensor:
        """Scores of ``keys`` [T, M, index_head_dim], each row its own: [T, M] float32."""
        dots = torch.einsum("thd,tmd->thm", self.query, keys).float().relu()
        return _latest_first(torch.einsum("thm,th->tm", dots, self.weights.float()))

    def scores_of_all(self, keys: Tensor) -> Tensor:
        """Of rows [B, S, ...] with all ``keys`` [B, M, index_head_dim] of their sequence: [B, S, M]."""
        dots = torch.einsum("bshd,bmd->bshm", self.query, keys).float().relu()
        return _latest_first(torch.einsum("bshm,bsh->bsm", dots, self.weights.float()))


def _latest_first(scores: Tensor) -> Tensor:
    """Scores of zero are common: of those the latest row is best, on every device alike."""
    return scores + torch.arange(scores.shape[-1], device=scores.device) * _TIE


class Indexer(nn.Module):
    """Scores compressed rows for a row's top-k: the lightning indexer of DeepSeek-V3.2 (2025)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.index_num_heads
        self.query = nn.Linear(config.q_lora_rank, self.num_heads * config.index_head_dim, bias=False)
        self.weights = nn.Linear(config.hidden_size, self.num_heads, bias=False)
        self.key = nn.Linear(config.head_dim, config.index_head_dim, bias=False)

    def forward(self, x: Tensor, latent: Tensor) -> IndexQuery:
        return IndexQuery(self.query(latent).unflatten(-1, (self.num_heads, -1)), self.weights(x))


class Compressor(nn.Module):
    """Makes one row of ``ratio`` neighbouring ones: their gated mean, at the position of the last.

    It needs nothing but the rows' keys, which the window cache still holds when the last one is written: no
    state of its own has to be kept, rolled back or shared through the prefix cache.
    """

    def __init__(self, config: ModelConfig, ratio: int, rotary: Rotary) -> None:
        super().__init__()
        self.ratio = ratio
        self._rotary = [rotary]  # not a submodule: the model has one
        self._num_still = config.head_dim - config.rope_head_dim
        self.gate = nn.Parameter(torch.zeros(ratio, self._num_still))
        self.bias = nn.Parameter(torch.zeros(ratio))

    def forward(self, kv: Tensor) -> Tensor:
        """Rotated keys [T, ratio, D], oldest first -> [T, D]."""
        if self.ratio == 1:
            return kv[:, 0]
        gate = (kv[..., : self._num_still] * self.gate).sum(-1) + self.bias
        ahead = torch.arange(self.ratio - 1, -1, -1, device=kv.device)
        aligned = rotate(kv, self._rotary[0].turns(ahead))  # to the last one's position
        return torch.einsum("tr,trd->td", gate.softmax(-1).to(kv.dtype), aligned)


class Attention(nn.Module):
    """One layer's attention.

    Attributes:
        layer: its number; draft layers count on from the target's.
        ratio: 0, or tokens of a compressed row.
        sink: [H] a learned logit that joins each head's softmax and has no value.
    """

    def __init__(self, config: ModelConfig, layer: int, ratio: int, rotary: Rotary, *, index: bool) -> None:
        super().__init__()
        hidden, heads, dim = config.hidden_size, config.num_attention_heads, config.head_dim
        self.layer, self.ratio = layer, ratio
        self.num_heads, self.head_dim, self.eps = heads, dim, config.rms_norm_eps
        self.scale = dim**-0.5
        self.q_a = nn.Linear(hidden, config.q_lora_rank, bias=False)
        self.q_norm = RMSNorm(config.q_lora_rank, config.rms_norm_eps)
        self.q_b = nn.Linear(config.q_lora_rank, heads * dim, bias=False)
        self.kv = nn.Linear(hidden, dim, bias=False)
        self.kv_norm = RMSNorm(dim, config.rms_norm_eps)
        self.sink = nn.Parameter(torch.zeros(heads))
        self.o = nn.Linear(heads * dim, hidden, bias=False)
        self.compressor = Compressor(config, ratio, rotary) if ratio else None
        self.indexer = Indexer(config) if index else None

    def forward(self, x: Tensor, turns: Tensor, memory: Memory) -> Tensor:
        """[T, hidden], :meth:`Rotary.turns` of the rows -> [T, hidden]."""
        latent = self.q_norm(self.q_a(x))
        query = self.q_b(latent).unflatten(-1, (self.num_heads, self.head_dim))
        query = rotate(F.rms_norm(query, (self.head_dim,), eps=self.eps), turns[..., None, :])
        index = None if self.indexer is None else self.indexer(x, latent)
        out = memory.attend(self, query, self.keys(x, turns), index)
        return self.o(rotate(out, turns[..., None, :].conj()).flatten(-2))

    def keys(self, x: Tensor, turns: Tensor) -> Tensor:
        """The rows' rotated keys: [T, hidden] -> [T, D]."""
        return rotate(self.kv_norm(self.kv(x)), turns)
