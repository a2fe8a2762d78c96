"""DSpark's draft: a block of k rows in one pass, then its tokens from left to right.

Each draft layer keeps keys of the sequence made from the *target's* hidden states (its context), so a pass
over the block alone is enough. The block's rows see each other both ways: the first holds the anchor, the
last verified token; the others a noise token. Row i predicts the token after its position. What the rows
don't know of each other's choices a Markov head adds: a low-rank bias from the token chosen just before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from onelaunch.engine.model.attention import Attention, Memory
from onelaunch.engine.model.config import ModelConfig
from onelaunch.engine.model.layers import RMSNorm


class Draft(nn.Module):
    """The draft's own layers and heads; embedding and output head are the target's."""

    def __init__(self, config: ModelConfig, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        hidden, rank = config.hidden_size, config.draft_markov_rank
        self.main = nn.Linear(hidden * len(config.draft_target_layers), hidden, bias=False)
        self.main_norm = RMSNorm(hidden, config.rms_norm_eps)
        self.layers = nn.ModuleList(layers)
        self.norm = RMSNorm(hidden, config.rms_norm_eps)
        self.markov_embed = nn.Embedding(config.vocab_size, rank)
        self.markov_bias = nn.Linear(rank, config.vocab_size, bias=False)
        self.confidence_head = nn.Linear(hidden + rank, 1)

    def context(self, read: Tensor) -> Tensor:
        """The target's layers' outputs [T, hidden * n] -> what the draft's keys are made of [T, hidden]."""
        return self.main_norm(self.main(read))

    def context_keys(self, context: Tensor, turns: Tensor) -> list[Tensor]:
        """Each draft layer's keys of verified rows: [T, D] a layer."""
        attentions: list[Attention] = [block.attention for block in self.layers]  # type: ignore[misc]
        return [attention.keys(context, turns) for attention in attentions]

    def forward(self, embedded: Tensor, turns: Tensor, memory: Memory) -> Tensor:
        """Block rows' embeddings [N, hidden] -> hidden states [N, hidden]."""
        for block in self.layers:
            embedded = block(embedded, turns, memory)
        return embedded

    def bias(self, previous: Tensor) -> Tensor:
        """The Markov head: tokens chosen just before [R] -> logit bias [R, vocab] float32."""
        return self.markov_bias(self.markov_embed(previous)).float()

    def confidence(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """Probability that a row's draft token is accepted given that those before it are.

        [..., hidden] and [...] the tokens chosen just before -> [...] float32.
        """
        return self.confidence_logits(hidden, previous).sigmoid()

    def confidence_logits(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """:meth:`confidence` before the sigmoid, for training."""
        joined = torch.cat((hidden, self.markov_embed(previous)), dim=-1)
        return self.confidence_head(joined).squeeze(-1).float()
