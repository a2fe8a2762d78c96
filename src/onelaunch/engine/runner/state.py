"""What stays on the device between steps, by request row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class RequestState:
    """N request rows, and one more for padding requests to write to.

    Attributes:
        last_token: [N + 1] int64, the last sampled token, which is not in the cache yet.
        draft_tokens: [N + 1, k] int64, what the draft expects after it.
        draft_probs: [N + 1, k, vocab] float32, what they were sampled from; None when they were the
            likeliest.
        confidence: [N + 1, k] float32, that each is accepted given those before it.
    """

    last_token: Tensor
    draft_tokens: Tensor
    draft_probs: Tensor | None
    confidence: Tensor

    @staticmethod
    def allocate(
        max_requests: int, num_drafts: int, vocab_size: int, device: torch.device, *, probabilistic: bool
    ) -> RequestState:
        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(max_requests + 1, *shape, dtype=dtype, device=device)

        return RequestState(
            last_token=zeros(),
            draft_tokens=zeros(num_drafts),
            draft_probs=zeros(num_drafts, vocab_size, dtype=torch.float32) if probabilistic else None,
            confidence=zeros(num_drafts, dtype=torch.float32),
        )
