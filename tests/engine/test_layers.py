"""Norms aside: the rotary embedding, the experts and the compressor, each by its definition."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from onelaunch.engine.model import PRESETS
from onelaunch.engine.model.attention import Compressor
from onelaunch.engine.model.layers import MoE, Rotary, rotate

CONFIG = PRESETS["tiny"]
ROTARY = Rotary(CONFIG)


def test_products_of_rotated_values_depend_on_their_distance_alone():
    a, b = torch.randn(32), torch.randn(32)

    def product(at: int, other: int) -> float:
        turns = ROTARY.turns(torch.tensor([at, other]))
        return float(rotate(a, turns[0]) @ rotate(b, turns[1]))

    assert product(3, 10) == pytest.approx(product(503, 510), abs=1e-3)
    assert product(3, 10) != pytest.approx(product(3, 12), abs=1e-3)


def test_turning_back_undoes_a_turn_and_the_first_values_stay():
    x, turns = torch.randn(5, 4, 32), ROTARY.turns(torch.arange(5))[:, None]
    turned = rotate(x, turns)
    assert torch.equal(turned[..., :16], x[..., :16])
    torch.testing.assert_close(rotate(turned, turns.conj()), x, atol=1e-6, rtol=0)


@torch.no_grad()
def test_experts_are_chosen_by_biased_affinity_and_weighed_without_the_bias():
    moe = MoE(CONFIG)
    for parameter in moe.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(9, CONFIG.hidden_size) * 3
    got = moe(x)
    for row in range(9):
        affinity = F.softplus(moe.router.weight @ x[row]).sqrt()
        chosen = sorted(range(4), key=lambda e: float(affinity[e] + moe.router_bias[e]), reverse=True)[:2]
        total = sum(float(affinity[e]) for e in chosen)
        expected = expert(moe, 0, x[row])
        for e in chosen:
            expected = expected + CONFIG.routed_scaling_factor * affinity[e] / total * expert(
                moe, e + 1, x[row]
            )
        torch.testing.assert_close(got[row], expected, atol=2e-3, rtol=1e-4)


def expert(moe, number, x):
    gate, up = (x @ moe.gate_up[number]).chunk(2)
    assert (gate.abs() > CONFIG.swiglu_limit).any()  # the clamps matter
    inner = F.silu(gate.clamp(max=CONFIG.swiglu_limit)) * up.clamp(-CONFIG.swiglu_limit, CONFIG.swiglu_limit)
    return inner @ moe.down[number]


def test_a_compressed_row_is_the_gated_mean_of_its_tokens_at_the_last_ones_position():
    compressor = Compressor(CONFIG, 2, ROTARY)
    torch.nn.init.normal_(compressor.gate)
    torch.nn.init.normal_(compressor.bias)
    plain = torch.randn(2, 32)
    turns = ROTARY.turns(torch.tensor([6, 7]))
    gate = (plain[:, :16] * compressor.gate).sum(-1) + compressor.bias
    weights = gate.softmax(0)
    expected = sum(weights[i] * rotate(plain[i], turns[1]) for i in range(2))
    got = compressor(torch.stack([rotate(plain[i], turns[i]) for i in range(2)])[None])[0]
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    single = Compressor(dataclasses.replace(CONFIG), 1, ROTARY)
    assert torch.equal(single(plain[:, None]), plain)
