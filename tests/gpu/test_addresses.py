"""Addresses past 32 bits."""

from __future__ import annotations

import torch

from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup
from onelaunch.proof.compare import compare_steps, poison


def test_block_table_rows_more_than_two_to_the_31_entries_in(device):
    requests, columns, stride = 4, 64, 2**30 - 512
    whole = torch.zeros((requests - 1) * stride + columns, dtype=torch.int32, device=device)  # 12 GiB
    block_table = whole.as_strided((requests, columns), (stride, 1))
    block_table.copy_(torch.randint(1, 9000, (requests, columns)))
    rows = 2 * requests
    batch = DecodeBatch(
        torch.arange(0, rows + 1, 2, dtype=torch.int32, device=device),
        torch.tensor([4000, 3000, 2000, 4096], dtype=torch.int32, device=device),
        rows,
    )
    inputs = {"swa.0": GroupInputs(block_table, torch.arange(rows, device=device))}
    builders = [
        StepBuilder(
            [WindowGroup("swa.0", window=128, block_size=64)],
            max_tokens=64,
            max_requests=requests,
            device=device,
            backend=backend,
        )
        for backend in ("reference", "kernel")
    ]
    steps = []
    for builder in builders:
        poison(builder)
        steps.append(builder.build(batch, inputs))
    assert compare_steps((builders[0], steps[0]), (builders[1], steps[1])) == []
