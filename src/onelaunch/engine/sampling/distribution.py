"""From logits to probabilities, tokens and log-probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

# Logits divided by less may overflow; what is left is greedy all the same, but for ties.
_MIN_TEMPERATURE = 1e-6


def probabilities(
    logits: Tensor, temperature: Tensor, top_k: Tensor | None = None, top_p: Tensor | None = None
) -> Tensor:
    """What each row is sampled from.

    Args:
        logits: [N, V] float32.
        temperature: [N] float32; 0 is greedy: all the probability on the first of the largest logits.
        top_k: [N] int32, candidates kept; 0 keeps all. None, of no row, saves a sort.
        top_p: [N] float32, probability mass of the candidates kept, the last one that reaches it included; 1
            keeps all. It counts what top-k left.

    Returns:
        [N, V] float32, rows that sum to 1.
    """
    greedy = temperature == 0
    probs = (logits / temperature.clamp(min=_MIN_TEMPERATURE)[:, None]).softmax(-1)
    if top_k is not None or top_p is not None:
        probs = _kept(probs, top_k, top_p)
    best = torch.zeros_like(probs).scatter_(-1, logits.argmax(-1, keepdim=True), 1)
    return torch.where(greedy[:, None], best, probs)


def _kept(probs: Tensor, top_k: Tensor | None, top_p: Tensor | None) -> Tensor:
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    if top_k is not None:
        rank = torch.arange(probs.shape[-1], device=probs.device)
        keeps_all = (top_k == 0)[:, None]
        ordered = ordered.where(keeps_all | (rank < top_k[:, None]), 0)
    ordered = ordered / ordered.sum(-1, keepdim=True)
    if top_p is not None:
        before = ordered.cumsum(-1) - ordered
        # The sum may stop short of 1, and a row that keeps all must keep its tail.
        ordered = ordered.where((before < top_p[:, None]) | (top_p >= 1)[:, None], 0)
    kept = torch.zeros_like(probs).scatter_(-1, order, ordered)
    return kept / kept.sum(-1, keepdim=True)


def sample(weights: Tensor, u: Tensor) -> Tensor:
    """Token ids [N] int64 in proportion to ``weights`` [N, V], not negative and not all zero.

    A race of exponential clocks: the token whose ``-log(1 - u) / weight`` is smallest comes first. ``u``
    [N, V] is uniform in (0, 1). A row with one positive weight gives that token, whatever ``u`` is.
    """
    # Early clocks decide. They come from a small u, where float32 is finest; -log(u) has them near 1.
    return (weights / -torch.log1p(-u)).argmax(-1)


def token_logprobs(logits: Tensor, token_ids: Tensor, num_top: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities before temperature.

    Args:
        logits: [N, V] float32.
        token_ids: [N] int64.
        num_top: likeliest tokens wanted of each row.

    Returns:
        of the given tokens [N] float32; ids of the likeliest [N, num_top] int64, and theirs [N, num_top]
        float32.
    """
    logprobs = logits.log_softmax(-1)
    best = logprobs.topk(num_top, dim=-1)
    return logprobs.gather(-1, token_ids[:, None]).squeeze(-1), best.indices, best.values
