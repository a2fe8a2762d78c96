"""A captured build, replayed on changed inputs."""

from __future__ import annotations

import pytest
import torch

from onelaunch import DecodeBatch, GroupInputs, PackedTopk, StepBuilder, WindowGroup, pack_topk
from onelaunch.proof.compare import compare_packed, compare_steps, poison

REPLAYS = 200
ROWS, REQUESTS, COLUMNS = 300, 60, 40

GROUPS = (
    WindowGroup("swa.0", window=128, block_size=64),
    WindowGroup("swa.1", window=128, block_size=64, make_slots=True),
    WindowGroup("draft.0", window=128, block_size=64, causal=False, draft_tokens=6),
)


def shuffled(batch: DecodeBatch, inputs: dict[str, GroupInputs], generator: torch.Generator) -> None:
    """New contents in the same tensors: other requests, lengths, blocks, holes and padding."""

    def random(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    live = int(random(1, REQUESTS + 1, 1))
    counts = random(1, 6, REQUESTS)
    counts[live:] = 0
    batch.query_start_loc[1:].copy_(counts.cumsum(0))
    batch.seq_lens.copy_(counts + random(0, 2500, REQUESTS))
    assert batch.replay_start is not None
    batch.replay_start.copy_(random(0, 2500, REQUESTS) * (random(0, 4, REQUESTS) == 0))
    for given in inputs.values():
        blocks = random(0, 9000, REQUESTS, COLUMNS)
        blocks[random(0, 10, REQUESTS, COLUMNS) == 0] = -1
        given.block_table.copy_(blocks)
        if given.slot_mapping is not None:
            slots = random(0, 100_000, ROWS)
            slots[int(counts.sum()) :] = -1
            slots[random(0, 10, ROWS) == 0] = -1
            given.slot_mapping.copy_(slots)


def test_replays_on_changed_inputs_equal_the_usual_build(device):
    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    batch = DecodeBatch(zeros(REQUESTS + 1), zeros(REQUESTS), ROWS, zeros(REQUESTS))
    inputs = {
        group.name: GroupInputs(
            zeros(REQUESTS, COLUMNS), None if group.make_slots else zeros(ROWS, dtype=torch.int64)
        )
        for group in GROUPS
    }
    usual, one = (
        StepBuilder(GROUPS, max_tokens=2048, max_requests=REQUESTS, device=device, backend=backend)
        for backend in ("reference", "kernel")
    )
    one.warmup()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # no build came before: a captured one must need none
        step = one.build(batch, inputs)

    generator = torch.Generator().manual_seed(0)
    for replay in range(REPLAYS):
        shuffled(batch, inputs, generator)
        poison(usual)
        poison(one)
        graph.replay()
        expected = usual.build(batch, inputs)
        assert compare_steps((usual, expected), (one, step)) == [], replay


def test_eager_builds_of_other_sizes_between_replays_change_nothing(device):
    from onelaunch.bench.inputs import step_inputs

    group = WindowGroup("swa.0", window=128, block_size=64)
    usual, one = (
        StepBuilder([group], max_tokens=4096, max_requests=600, device=device, backend=backend)
        for backend in ("reference", "kernel")
    )
    one.warmup()
    captured = step_inputs(700, device)
    inputs = {"swa.0": captured.inputs["swa.0"]}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step = one.build(captured.batch, inputs)
    for rows in (1, 4096, 33, 700, 2100, 64, 65):
        other = step_inputs(rows, device, seed=rows)
        one.build(other.batch, {"swa.0": other.inputs["swa.0"]})
        poison(usual)
        poison(one)
        graph.replay()
        assert compare_steps((usual, usual.build(captured.batch, inputs)), (one, step)) == [], rows


@pytest.mark.parametrize("rows", [5, 700])
def test_a_captured_pack_replays_on_changed_inputs(device, rows):
    def random(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    generator = torch.Generator().manual_seed(0)
    topk = torch.zeros(rows, 512, dtype=torch.int32, device=device)
    owners = torch.zeros(rows, dtype=torch.int32, device=device)
    valid = torch.ones(rows, dtype=torch.bool, device=device)
    blocks = torch.zeros(8, 64, dtype=torch.int32, device=device)
    pack_topk(topk, owners, valid, blocks, 64, backend="kernel")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got: PackedTopk = pack_topk(topk, owners, valid, blocks, 64, backend="kernel")
    for _ in range(50):
        entries = random(0, 64 * 70, rows, 512)  # some past the table
        entries[torch.arange(512) >= random(0, 513, rows, 1)] = -1
        topk.copy_(entries)
        owners.copy_(random(0, 8, rows))
        valid.copy_(random(0, 5, rows) > 0)
        blocks.copy_(random(-1, 9000, 8, 64))
        pack_topk(topk, owners, valid, blocks, 64, backend="kernel")  # an eager one between
        graph.replay()
        assert compare_packed(pack_topk(topk, owners, valid, blocks, 64, backend="reference"), got) == []


def test_builders_on_two_streams_at_once_do_not_meet(device):
    from onelaunch.bench.inputs import step_inputs

    group = WindowGroup("swa.0", window=128, block_size=64)
    step = step_inputs(900, device)
    inputs = {"swa.0": step.inputs["swa.0"]}
    usual, *kernels = (
        StepBuilder([group], max_tokens=1024, max_requests=200, device=device, backend=backend)
        for backend in ("reference", "kernel", "kernel")
    )
    streams = [torch.cuda.Stream() for _ in kernels]
    for kernel in (usual, *kernels):
        kernel.warmup()
        poison(kernel)
    torch.cuda.synchronize()
    for _ in range(50):
        for kernel, stream in zip(kernels, streams, strict=True):
            with torch.cuda.stream(stream):
                kernel.build(step.batch, inputs)
    torch.cuda.synchronize()
    expected = usual.build(step.batch, inputs)
    for kernel in kernels:
        assert compare_steps((usual, expected), (kernel, kernel.views(900))) == []
