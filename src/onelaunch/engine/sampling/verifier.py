"""Verify a step's drafts, and sample the token after the accepted ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from onelaunch.engine.sampling.acceptance import accept_block, accept_standard, accept_synthetic
from onelaunch.engine.sampling.distribution import sample
from onelaunch.engine.sampling.noise import ACCEPT, TARGET, uniform


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """What a step gives each request.

    Attributes:
        token_ids: [R, k + 1] int64: the accepted draft tokens, one sampled token, then -1.
        num_accepted: [R] int64.
    """

    token_ids: Tensor
    num_accepted: Tensor


class Verifier:
    """One method of verification.

    Args:
        method: "block", "standard" or "synthetic".
        num_drafts: k; 0 without drafting.
        synthetic_acceptance_length: mean tokens a step, with "synthetic".
    """

    def __init__(
        self, method: str, num_drafts: int, synthetic_acceptance_length: float | None = None
    ) -> None:
        self._method = method
        self._num_drafts = num_drafts
        self._synthetic_acceptance_length = synthetic_acceptance_length

    def verify(
        self,
        draft_token_ids: Tensor,
        draft_probs: Tensor | None,
        target_probs: Tensor,
        num_drafts: Tensor,
        seed: Tensor,
        position: Tensor,
    ) -> Verified:
        """Accept drafts, and sample one token more.

        Args:
            draft_token_ids: [R, k] int64.
            draft_probs: [R, k, V] float32, what they were sampled from; None when they were the likeliest.
            target_probs: [R, k + 1, V] float32.
            num_drafts: [R] int64, verified of each request. What the three above hold past it (for
                ``target_probs``: past one more) makes no difference, token ids out of range included.
            seed: [R] int64, of each request's random numbers.
            position: [R] int64, of the first token of the step; no two steps of a request share one.
        """
        places = torch.arange(self._num_drafts + 1, device=num_drafts.device)
        draft_token_ids = draft_token_ids.where(places[:-1] < num_drafts[:, None], 0)
        accepted, scale = self._accept(draft_token_ids, draft_probs, target_probs, num_drafts, seed, position)
        request = torch.arange(len(accepted), device=accepted.device)
        base = target_probs[request, accepted]
        weights = base
        if scale is not None:
            place = accepted.clamp(max=self._num_drafts - 1)
            rejected = (accepted < num_drafts)[:, None]
            weights = torch.where(
                rejected, self._residual(draft_token_ids, draft_probs, base, scale, place), base
            )
        u = uniform(seed, position + accepted, TARGET, target_probs.shape[-1])
        token = sample(weights, u)
        tokens = torch.nn.functional.pad(draft_token_ids, (0, 1))
        tokens = torch.where(places == accepted[:, None], token[:, None], tokens)
        return Verified(torch.where(places <= accepted[:, None], tokens, -1), accepted)

    def _accept(
        self,
        draft_token_ids: Tensor,
        draft_probs: Tensor | None,
        target_probs: Tensor,
        num_drafts: Tensor,
        seed: Tensor,
        position: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        if not self._num_drafts:
            return torch.zeros_like(num_drafts), None
        # By the step's position and the place, not by the token's position: in block verification the numbers
        # of all places decide, so a later step that took any of them again would not be exact.
        u = uniform(seed, position, ACCEPT, self._num_drafts)
        if self._method == "synthetic":
            assert self._synthetic_acceptance_length is not None
            return accept_synthetic(num_drafts, u, self._synthetic_acceptance_length), None
        accept = accept_block if self._method == "block" else accept_standard
        return accept(draft_token_ids, draft_probs, target_probs, num_drafts, u)

    @staticmethod
    def _residual(
        draft_token_ids: Tensor, draft_probs: Tensor | None, base: Tensor, scale: Tensor, place: Tensor
    ) -> Tensor:
        """[R, V] ``max(scale * p - q, 0)`` at the place after the accepted drafts."""
        request = torch.arange(len(place), device=place.device)
        if draft_probs is None:
            left = base.scatter(-1, draft_token_ids[request, place][:, None], 0)
        else:
            left = (scale[:, None] * base - draft_probs[request, place]).clamp(min=0)
        # Rounding may leave nothing of two equal distributions; the target's own is right then.
        return torch.where(left.sum(-1, keepdim=True) > 0, left, base)
