"""The number accepted, against the papers' rules in a plain loop and float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from onelaunch.engine.sampling.acceptance import accept_block, accept_standard, accept_synthetic

Rows = NDArray[np.float64]


def standard_by_hand(x: list[int], q: Rows, p: Rows, u: Rows) -> tuple[int, float, float]:
    """Accepted, scale, and how near any decision was."""
    near = 1.0
    for i, token in enumerate(x):
        ratio = p[i, token] / q[i, token]
        near = min(near, abs(u[i] - ratio))
        if u[i] >= ratio:
            return i, 1.0, near
    return len(x), 1.0, near


def block_by_hand(x: list[int], q: Rows, p: Rows, u: Rows) -> tuple[int, float, float]:
    accepted, scale, near, kept = 0, 1.0, 1.0, 1.0
    for i, token in enumerate(x):
        kept = min(1.0, kept * p[i, token] / q[i, token])
        chance = kept
        if i + 1 < len(x):
            left = sum(max(kept * a - b, 0.0) for a, b in zip(p[i + 1], q[i + 1], strict=True))
            chance = left / (left + 1 - kept) if left + 1 - kept > 0 else 1.0
        near = min(near, abs(u[i] - chance))
        if u[i] < chance:
            accepted, scale = i + 1, kept
    return accepted, scale, near


def case(seed: int, rows: int, k: int, vocab: int, apart: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draft tokens from q, and q, p, u; ``apart`` in logits."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(rows, k + 1, vocab, generator=generator) * 2
    p = base.softmax(-1)
    q = (base + torch.randn(rows, k + 1, vocab, generator=generator) * apart).softmax(-1)[:, :k]
    drafts = q.flatten(0, 1).multinomial(1, generator=generator).view(rows, k)
    return drafts, q.contiguous(), p, torch.rand(rows, k, generator=generator)


@pytest.mark.parametrize(
    ("accept", "by_hand"), [(accept_standard, standard_by_hand), (accept_block, block_by_hand)]
)
@pytest.mark.parametrize("greedy_draft", [True, False])
@pytest.mark.parametrize(
    ("rows", "vocab", "apart"),
    [
        (300, 5, 1.0),  # every branch
        (12, 8192, 1.0),  # long sums
        (12, 8192, 1e-3),  # of small differences
    ],
)
def test_as_in_the_paper(accept, by_hand, greedy_draft, rows, vocab, apart):
    k = 6
    drafts, q, p, u = case(7, rows, k, vocab, apart)
    if greedy_draft:
        drafts = q.argmax(-1)
        q = torch.zeros_like(q).scatter_(-1, drafts[..., None], 1)
    num_drafts = torch.arange(rows) % (k + 1)
    accepted, scale = accept(drafts, None if greedy_draft else q, p, num_drafts, u)
    checked = 0
    for row, n in enumerate(num_drafts.tolist()):
        as_doubles = (part[row].double().numpy() for part in (q, p, u))
        want, want_scale, near = by_hand(drafts[row, :n].tolist(), *as_doubles)
        if near < 1e-5:  # float32 may decide otherwise
            continue
        checked += 1
        assert int(accepted[row]) == want
        if want < n:
            assert float(scale[row]) == pytest.approx(want_scale, abs=1e-5)
    assert checked > rows * 0.8


@pytest.mark.parametrize("accept", [accept_standard, accept_block])
def test_a_token_that_the_draft_could_not_say_is_accepted_if_the_target_could(accept):
    q = torch.tensor([[[0.0, 1.0]]]).expand(2, 1, 2)
    p = torch.tensor([[[0.5, 0.5]] * 2, [[0.0, 1.0]] * 2])
    drafts, one, u = torch.zeros(2, 1, dtype=torch.int64), torch.ones(2).long(), torch.full((2, 1), 0.9)
    assert accept(drafts, q, p, one, u)[0].tolist() == [1, 0]


def test_synthetic_acceptance_is_a_whole_number_or_one_more():
    u = torch.tensor([[0.9, 0.9, 0.86, 0.01], [0.9, 0.9, 0.88, 0.01], [0.9, 0.9, 0.86, 0.01]])
    assert accept_synthetic(torch.tensor([4, 4, 1]), u, 3.87).tolist() == [3, 2, 1]
