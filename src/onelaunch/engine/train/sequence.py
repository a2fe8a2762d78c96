"""The model's memory in training: whole sequences, and draft blocks at many places, without a cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onelaunch.engine.model.attention import Attention, IndexQuery
from onelaunch.engine.model.config import ModelConfig


class SequenceMemory:
    """B sequences of S rows, S a multiple of the window.

    Attributes:
        index_loss: mean over index layers of how far an indexer's scores are from the attention that they
            stand for, as a Kullback-Leibler divergence (DeepSeek-V3.2): the top-k itself passes no gradient.
    """

    def __init__(self, config: ModelConfig, batch_size: int, length: int) -> None:
        if length % config.sliding_window:
            raise ValueError(
                f"length is {length}: it must be a multiple of the window {config.sliding_window}"
            )
        self._config, self._batch_size, self._length = config, batch_size, length
        self._chosen: dict[int, Tensor] = {}
        self._index_losses: list[Tensor] = []

    @property
    def index_loss(self) -> Tensor:
        return torch.stack(self._index_losses).mean()

    def attend(self, layer: Attention, query: Tensor, kv: Tensor, index: IndexQuery | None) -> Tensor:
        window, heads = self._config.sliding_window, layer.num_heads
        kv = kv.view(self._batch_size, self._length, -1)
        blocks = kv.unflatten(1, (-1, window))
        before = torch.nn.functional.pad(blocks, (0, 0, 0, 0, 1, 0))[:, :-1]
        near = torch.cat((before, blocks), 2)  # the window before a block, and the block: [B, N, 2W, D]
        query = query.view(self._batch_size, -1, window, heads, layer.head_dim).transpose(2, 3)
        scores = [
            (query @ near[:, :, None].transpose(-1, -2) * layer.scale).float() + self._window_bias(kv.device),
            layer.sink.float()[:, None, None].expand(*query.shape[:2], heads, window, 1),
        ]
        made = None
        if layer.ratio:
            assert layer.compressor is not None
            pairs = kv.reshape(-1, layer.ratio, layer.head_dim)
            made = layer.compressor(pairs).view(self._batch_size, -1, layer.head_dim)
            far = (query @ made[:, None, None].transpose(-1, -2) * layer.scale).float()
            if index is not None:
                self._choose(layer, index, made, far)
            scores.append(far + self._chosen[layer.ratio][:, :, None])
        weights = torch.cat(scores, -1).softmax(-1).to(kv.dtype)
        out = weights[..., : 2 * window] @ near[:, :, None]
        if made is not None:
            out = out + weights[..., 2 * window + 1 :] @ made[:, None, None]
        return out.transpose(2, 3).reshape(-1, heads, layer.head_dim)

    def _window_bias(self, device: torch.device) -> Tensor:
        """[N, 1, W, 2W]: 0 where a row sees a key, else minus infinity."""
        window = self._config.sliding_window
        row = torch.arange(window, device=device)[:, None] + window
        key = torch.arange(2 * window, device=device)
        seen = (key <= row) & (key > row - window)
        first = seen & (key >= window)  # nothing is before the first block
        count = self._length // window
        all_seen = torch.cat((first[None], seen.expand(count - 1, -1, -1)))
        return torch.where(all_seen, 0.0, -torch.inf)[:, None]

    def _choose(self, layer: Attention, index: IndexQuery, made: Tensor, far: Tensor) -> None:
        """Choose the top-k, and hold the indexer to the attention over all compressed rows."""
        assert layer.indexer is not None
        window, count = self._config.sliding_window, made.shape[1]
        position = torch.arange(self._length, device=made.device)
        entry = torch.arange(count, device=made.device)
        hidden = entry >= (position[:, None] + 1) // layer.ratio
        # The indexer learns from its own loss alone, and nothing else from it.
        detached = IndexQuery(
            index.query.view(self._batch_size, self._length, *index.query.shape[1:]),
            index.weights.view(self._batch_size, self._length, -1),
        )
        scores = detached.scores_of_all(layer.indexer.key(made.detach())).masked_fill(hidden, -torch.inf)
        best = scores.detach().topk(min(self._config.index_topk, count), dim=-1)
        chosen = torch.full_like(scores, -torch.inf).scatter_(-1, best.indices, 0.0)
        self._chosen[layer.ratio] = chosen.masked_fill(hidden, -torch.inf).unflatten(1, (-1, window))
        with torch.no_grad():
            attention = far.masked_fill(hidden.unflatten(0, (-1, 1, window)), -torch.inf)
            wanted = attention.softmax(-1).nan_to_num().sum(2).flatten(1, 2)
            wanted = wanted / wanted.sum(-1, keepdim=True).clamp(min=1e-9)
        logprobs = scores.log_softmax(-1).masked_fill(hidden, 0.0)
        lost = (wanted * (wanted.clamp(min=1e-9).log() - logprobs)).sum(-1)
        self._index_losses.append(lost[:, layer.ratio :].mean())


class BlockMemory:
    """N draft blocks of k rows, each after a window of its sequence.

    Args:
        context: each draft layer's keys of whole sequences, [B, S, D] a layer.
        sequence, start: [N] int64, whose sequence a block is in, and at which position.
        first_layer: number of the first draft layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        context: Sequence[Tensor],
        sequence: Tensor,
        start: Tensor,
        num_drafts: int,
        first_layer: int,
    ) -> None:
        self._context, self._first_layer, self._num_drafts = context, first_layer, num_drafts
        before = start[:, None] + torch.arange(-config.sliding_window, 0, device=start.device)
        self._at = sequence[:, None], before.clamp(min=0)
        self._bias = torch.where(before >= 0, 0.0, -torch.inf)[:, None, None]

    def attend(self, layer: Attention, query: Tensor, kv: Tensor, index: IndexQuery | None) -> Tensor:
        k, heads = self._num_drafts, layer.num_heads
        own = kv.view(-1, k, layer.head_dim)
        window = self._context[layer.layer - self._first_layer][self._at]
        query = query.view(-1, k, heads, layer.head_dim).transpose(1, 2)
        scores = [
            (query @ window[:, None].transpose(-1, -2) * layer.scale).float() + self._bias,
            (query @ own[:, None].transpose(-1, -2) * layer.scale).float(),
            layer.sink.float()[:, None, None].expand(len(own), heads, k, 1),
        ]
        weights = torch.cat(scores, -1).softmax(-1).to(kv.dtype)
        size = window.shape[1]
        out = weights[..., :size] @ window[:, None] + weights[..., size:-1] @ own[:, None]
        return out.transpose(1, 2).reshape(-1, heads, layer.head_dim)
