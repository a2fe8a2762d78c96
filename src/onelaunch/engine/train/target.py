"""Training of the target: next tokens, and the indexers beside them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onelaunch.engine.model.layers import MoE
from onelaunch.engine.model.target import Model
from onelaunch.engine.train.sequence import SequenceMemory

_INDEX_WEIGHT = 0.1
_BIAS_STEP = 1e-3  # of a router's bias, at each step, towards equal loads


def target_loss(model: Model, token_ids: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Losses of a batch: "total", which is minimised, of answers' tokens alone, and of the indexers.

    Args:
        token_ids: [B, S + 1] int64.
        weights: [B, S + 1] float32, how much each token counts as the next one.
    """
    batch_size, length = token_ids.shape[0], token_ids.shape[1] - 1
    memory = SequenceMemory(model.config, batch_size, length)
    positions = torch.arange(length, device=token_ids.device).repeat(batch_size)
    hidden, _ = model(token_ids[:, :-1].flatten(), positions, memory)
    losses = F.cross_entropy(model.logits(hidden), token_ids[:, 1:].flatten(), reduction="none")
    counted = weights[:, 1:].flatten()
    next_token = (losses * counted).sum() / counted.sum()
    in_answers = (counted == 1).float()
    return {
        "total": next_token + _INDEX_WEIGHT * memory.index_loss,
        "answers": (losses * in_answers).sum() / in_answers.sum(),
        "indexer": memory.index_loss,
    }


class RouterLoads:
    """Balances experts without a loss: an overloaded one's bias falls (Wang et al., arXiv 2408.15664)."""

    def __init__(self, model: Model) -> None:
        self._routers = [module for module in model.modules() if isinstance(module, MoE)]
        self._loads: dict[MoE, Tensor] = {}
        for router in self._routers:
            router.register_forward_pre_hook(self._note)

    def _note(self, router: MoE, inputs: tuple[Tensor, ...]) -> None:
        if router.training and torch.is_grad_enabled():
            with torch.no_grad():
                self._loads[router] = (router.weights(inputs[0])[:, 1:] > 0).float().mean(0)

    def balance(self) -> None:
        """Move the biases by what this step's rows chose; a router that learned nothing in it stays."""
        with torch.no_grad():
            for router, load in self._loads.items():
                router.router_bias.add_((load.mean() - load).sign(), alpha=_BIAS_STEP)
        self._loads.clear()
