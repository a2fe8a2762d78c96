"""Random cases on a GPU: many more, and much larger, than the interpreter could bear."""

from __future__ import annotations

from onelaunch.proof.verify import verify


def test_large_random_cases_agree(device):
    result = verify(300, seed=11, device=device)
    assert result.failure is None, result.failure
