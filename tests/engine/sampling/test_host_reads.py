"""Nothing is read back to the host: the functions run in a CUDA graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onelaunch.engine.sampling import (
    Verifier,
    allocate_drafts,
    probabilities,
    sample,
    token_logprobs,
    uniform,
)
from onelaunch.engine.sampling.noise import DRAFT
from onelaunch.syncs import policing

R, K, V = 4, 3, 16


def run(method: str, greedy_draft: bool, device: str) -> Tensor:
    """Every function of the package, on one device."""
    with torch.device(device):
        logits, seed, position = torch.randn(R * (K + 1), V), torch.arange(R), torch.full((R,), 5)
        temperature, top_p = torch.ones(R * (K + 1)), torch.full((R * (K + 1),), 0.9)
        top_k = torch.full((R * (K + 1),), 5, dtype=torch.int32)
        confidence, available, budget = torch.rand(R, K), torch.full((R,), K), torch.tensor(5)
    probs = probabilities(logits, temperature, top_k, top_p).view(R, K + 1, V)
    drafts = torch.stack([sample(probs[:, i], uniform(seed, position, DRAFT + i, V)) for i in range(K)], 1)
    num_drafts = allocate_drafts(confidence, available, budget)
    draft_probs = None if greedy_draft else probs[:, :K]
    verified = Verifier(method, K, 2.5).verify(drafts, draft_probs, probs, num_drafts, seed, position)
    token_logprobs(logits, verified.token_ids.flatten().clamp(min=0), 2)
    return verified.token_ids


@pytest.mark.parametrize("method", ["block", "standard", "synthetic"])
@pytest.mark.parametrize("greedy_draft", [True, False])
def test_no_value_is_read_and_all_stays_on_its_device(method, greedy_draft):
    with policing("error", torch.device("cpu")):
        assert run(method, greedy_draft, "cpu").shape == (R, K + 1)
    # A meta tensor has no values, so reading one fails; and it doesn't mix with another device's.
    assert run(method, greedy_draft, "meta").device.type == "meta"
