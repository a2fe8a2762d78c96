"""The model: a decoder, and the draft that reads its layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from onelaunch.engine.model.attention import Attention, Memory
from onelaunch.engine.model.config import ModelConfig
from onelaunch.engine.model.draft import Draft
from onelaunch.engine.model.layers import MoE, RMSNorm, Rotary


class DecoderLayer(nn.Module):
    """Attention and mixture of experts, each on the normed sum of what came before."""

    def __init__(
        self, config: ModelConfig, layer: int, ratio: int, rotary: Rotary, *, index: bool = False
    ) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config, layer, ratio, rotary, index=index)
        self.moe_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.moe = MoE(config)

    def forward(self, x: Tensor, turns: Tensor, memory: Memory) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turns, memory)
        return x + self.moe(self.moe_norm(x))


class Model(nn.Module):
    """Rows in, hidden states out. The draft shares the embedding and the head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.rotary = Rotary(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(config, layer, ratio, self.rotary, index=layer in config.index_layers)
            for layer, ratio in enumerate(config.compress_ratios)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        draft_layers = [
            DecoderLayer(config, config.num_hidden_layers + i, 0, self.rotary)
            for i in range(config.num_draft_layers)
        ]
        self.draft = Draft(config, draft_layers)

    def forward(self, token_ids: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """The target.

        Args:
            token_ids, positions: [T] int64.
            memory: keys of earlier rows.

        Returns:
            hidden states [T, hidden], for :meth:`logits`; the draft's layers' outputs side by side
            [T, hidden * n], for :meth:`Draft.context`.
        """
        x, turns = self.embed(token_ids), self.rotary.turns(positions)
        read = []
        for layer, block in enumerate(self.layers):
            x = block(x, turns, memory)
            if layer in self.config.draft_target_layers:
                read.append(x)
        return x, torch.cat(read, dim=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, hidden] -> [N, vocab] float32."""
        return self.lm_head(self.norm(hidden)).float()

    def draft_logits(self, hidden: Tensor) -> Tensor:
        """The draft's, before the Markov head's bias."""
        return self.lm_head(self.draft.norm(hidden)).float()

    @property
    def attentions(self) -> list[Attention]:
        """Of all layers, the draft's last: a list by layer number."""
        return [block.attention for block in (*self.layers, *self.draft.layers)]  # type: ignore[union-attr,misc]
