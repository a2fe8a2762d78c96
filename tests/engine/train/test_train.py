"""The training command: two stages into a checkpoint that serves, and goes on where it was stopped."""

from __future__ import annotations

import json

import pytest
import torch

pytest.importorskip("matplotlib")

from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.train.__main__ import train


def run(out, minutes: float, start_from=None) -> dict[str, dict[str, torch.Tensor]]:
    """Weights after each stage."""
    train(
        out, target_minutes=minutes, draft_minutes=minutes, preset="tiny", start_from=start_from,
        batch_size=2, length=64, short_length=32, short_share=0.5, learning_rate=1e-3, num_drafts=3,
        fuse=False, workers=0, seed=1,
    )  # fmt: skip
    kept = {
        stage: torch.load(out / f"{stage}.unfinished.pt", weights_only=True) for stage in ("target", "draft")
    }
    assert not minutes or min(state["step"] for state in kept.values()) > 0
    return {stage: state["model"] for stage, state in kept.items()}


def test_a_draft_is_trained_beside_a_target_that_stays_and_both_serve(tmp_path):
    after = run(tmp_path, 0.05)
    for name, weight in after["draft"].items():
        same = torch.equal(weight, after["target"][name])
        if not name.startswith("draft."):
            assert same, name
        elif weight.dim() > 1:  # a gate of one row, say, has nothing to learn
            assert not same, name
    assert (tmp_path / "training.png").exists()
    assert set(json.loads((tmp_path / "training.json").read_text())) == {"target", "draft"}
    llm = LLM(model=tmp_path, device="cpu", block_size=16, max_model_len=128)
    [completion] = llm.generate(["Question: Ada has 3 pears."], SamplingParams(max_tokens=4))
    assert len(completion.token_ids) == 4

    again = run(tmp_path, 0.05)  # its time is up: nothing more is learned
    assert all(torch.equal(weight, after["draft"][name]) for name, weight in again["draft"].items())

    other = run(tmp_path / "other", 0.0, start_from=tmp_path)
    assert all(torch.equal(weight, after["draft"][name]) for name, weight in other["draft"].items())
    assert (tmp_path / "other" / "tokenizer.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
