"""How many draft tokens of each request are accepted, by three methods, and what is left to sample from.

R requests, k draft tokens each of which the first n are verified, vocabulary V. ``p[i]`` is the target's
distribution and ``q[i]`` the draft's of the token at place i, given the draft's tokens before it; x[i] is the
draft's token there. ``q`` may be None: the draft was greedy, and q[i] is 1 at x[i].

Each function returns the number accepted [R] int64, and [R] float32, how much of the target's distribution at
the place after them counts against the draft's: the next token is sampled from ``max(scale * p - q, 0)``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def accept_standard(
    draft_token_ids: Tensor, q: Tensor | None, p: Tensor, num_drafts: Tensor, u: Tensor
) -> tuple[Tensor, Tensor]:
    """Token by token: x[i] is accepted with probability ``min(p[x] / q[x], 1)`` if all before it were.

    Leviathan et al., "Fast inference from transformers via speculative decoding" (arXiv 2211.17192), and Chen
    et al. (arXiv 2302.01318). The output's distribution is the target's.
    """
    ratio = _ratio(draft_token_ids, q, p)
    return _prefix(u < ratio, num_drafts), torch.ones_like(ratio[:, 0])


def accept_block(
    draft_token_ids: Tensor, q: Tensor | None, p: Tensor, num_drafts: Tensor, u: Tensor
) -> tuple[Tensor, Tensor]:
    """All tokens together: never fewer accepted than token by token, on average, and the same distribution.

    Sun et al., "Block verification accelerates speculative decoding" (arXiv 2403.10444), algorithm 2. With
    ``r[0] = 1`` and ``r[i] = min(r[i-1] * p[x] / q[x], 1)``, the block of the first i tokens passes with
    probability ``s / (s + 1 - r[i])``, where ``s`` sums ``max(r[i] * p[i] - q[i], 0)`` over the vocabulary,
    and the whole block with ``r[n]``. The longest block that passes is accepted.
    """
    num_places = draft_token_ids.shape[1]
    ratio = _ratio(draft_token_ids, q, p)
    kept = torch.ones_like(ratio[:, 0])
    scales, passes = [kept], []
    for place in range(num_places):
        kept = (kept * ratio[:, place]).clamp(max=1)
        whole = num_drafts == place + 1
        chance = kept
        if place + 1 < num_places:
            left = _left(
                draft_token_ids[:, place + 1], None if q is None else q[:, place + 1], p[:, place + 1], kept
            )
            # Nothing left and nothing lost: the target agrees with the draft, and the block passes.
            total = left + 1 - kept
            chance = torch.where(whole, kept, torch.where(total > 0, left / total, 1))
        passes.append((u[:, place] < chance) & (num_drafts > place))
        scales.append(kept)
    longest = torch.arange(1, num_places + 1, device=p.device)
    accepted = torch.where(torch.stack(passes, 1), longest, 0).amax(1)
    return accepted, torch.stack(scales, 1).gather(1, accepted[:, None]).squeeze(1)


def accept_synthetic(num_drafts: Tensor, u: Tensor, acceptance_length: float) -> Tensor:
    """Accept by count, whatever the tokens are: [R] int64, ``acceptance_length - 1`` on average.

    As vLLM reads its ``synthetic_acceptance_length``: each step accepts that mean's floor or one more. So if
    all before it were, x[i] is accepted with probability ``min(max(acceptance_length - 1 - i, 0), 1)``,
    i from 0. A request with fewer drafts than that accepts them all.
    """
    places = torch.arange(u.shape[1], device=u.device)
    return _prefix(u < (acceptance_length - 1 - places).clamp(0, 1), num_drafts)


def _ratio(draft_token_ids: Tensor, q: Tensor | None, p: Tensor) -> Tensor:
    """[R, k] ``p[x] / q[x]``."""
    at = draft_token_ids[..., None]
    target = p[:, :-1].gather(-1, at).squeeze(-1)
    # A row that nobody verifies may hold anything, a zero included.
    return target if q is None else target / q.gather(-1, at).squeeze(-1).clamp(min=torch.finfo(q.dtype).tiny)


def _left(next_token: Tensor, q: Tensor | None, p: Tensor, scale: Tensor) -> Tensor:
    """[R] sum over the vocabulary of ``max(scale * p - q, 0)``."""
    scaled = scale[:, None] * p
    if q is None:  # only the draft's own token has anything taken from it, all that it has
        return scaled.scatter(-1, next_token[:, None], 0).sum(-1)
    return (scaled - q).clamp(min=0).sum(-1)


def _prefix(accepted: Tensor, num_drafts: Tensor) -> Tensor:
    """How many of the first ``num_drafts`` are accepted before the first that is not."""
    places = torch.arange(accepted.shape[1], device=accepted.device)
    return (accepted & (places < num_drafts[:, None])).long().cumprod(1).sum(1)
