"""Which drafts are worth verifying: those that the confidence head expects to survive."""

from __future__ import annotations

import torch
from torch import Tensor


def allocate_drafts(confidence: Tensor, num_drafts: Tensor, budget: Tensor | int) -> Tensor:
    """Spend a step's budget on the likeliest drafts of all requests.

    A draft survives with the product of the confidences up to it. That never rises along a request, so the
    best of all requests are always the first ones of each; equal ones go to the earlier place, then to the
    earlier request.

    Whether draft i is verified follows from its request's confidences up to i alone. As long as these don't
    depend on draft i itself, only on those before it, verification stays exact: a draft that is left out for
    what it is would be missing from the output.

    Args:
        confidence: [R, k] float32 in [0, 1], that each draft is accepted given those before it.
        num_drafts: [R] int64, drafts of each request at most.
        budget: drafts in all; a tensor [] int64 or a number.

    Returns:
        [R] int64, drafts to verify of each request.
    """
    places = torch.arange(confidence.shape[1], device=confidence.device)
    there = places < num_drafts[:, None]
    survival = torch.where(there, confidence.cumprod(1), -1)
    order = survival.T.flatten().argsort(descending=True, stable=True)  # place by place, then by request
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    chosen = there & (budget > rank.view(survival.T.shape).T)
    return chosen.sum(1)
