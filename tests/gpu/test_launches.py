"""What a profiler sees: one kernel a build, eight a group for the usual build; no sync, no compilation."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from onelaunch import StepBuilder, pack_topk
from onelaunch.bench.inputs import step_inputs, window_groups
from onelaunch.launches import counting
from onelaunch.proof.topk_cases import random_topk_case


def kernels(run) -> Counter[str]:
    """Everything the device does during ``run``, by name: kernels, copies and fills."""
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    return Counter(
        event.name for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA
    )


def build(backend: str, device: torch.device, *, ragged: bool = True, rows: int = 20):
    """(builder, run) of the target's four groups."""
    groups = window_groups(ragged=ragged)[0]
    step = step_inputs(rows, device)
    builder = StepBuilder(groups, max_tokens=4096, max_requests=16, device=device, backend=backend)
    builder.warmup()
    inputs = {group.name: step.inputs[group.name] for group in groups}
    return builder, lambda: builder.build(step.batch, inputs)


def test_a_build_is_one_kernel(device):
    _, run = build("kernel", device)
    assert kernels(run) == {"build_step_kernel": 1}


@pytest.mark.parametrize(("ragged", "a_group"), [(True, 8), (False, 3)])
def test_the_usual_build_is_as_many_kernels_as_it_counts(device, ragged, a_group):
    _, run = build("reference", device, ragged=ragged)
    with counting() as counted:
        run()
    assert counted.total() == 4 * a_group + 1  # and the token map
    assert kernels(run).total() == counted.total()


def test_a_topk_pack_is_one_kernel_and_the_usual_one_four(device):
    arguments = random_topk_case(3, large=True).arguments(device)
    assert kernels(lambda: pack_topk(*arguments, backend="kernel")) == {"pack_topk_kernel": 1}
    assert kernels(lambda: pack_topk(*arguments, backend="reference")).total() == 4


@pytest.fixture
def no_sync():
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_a_build_never_waits_for_the_device(device, backend, request):
    _, run = build(backend, device)
    run()
    request.getfixturevalue("no_sync")
    run()


def test_no_row_count_compiles_anything_after_warmup(device, monkeypatch):
    import triton

    groups = window_groups(ragged=True)[0]
    builder = StepBuilder(groups, max_tokens=16_384, max_requests=4096, device=device, backend="kernel")
    builder.warmup()
    compiled: list[str] = []
    loaded = triton.compiler.CompiledKernel._init_handles
    monkeypatch.setattr(triton, "compile", lambda *_, **__: compiled.append("compile"))
    monkeypatch.setattr(
        triton.compiler.CompiledKernel,
        "_init_handles",
        lambda kernel: (kernel.module is None and compiled.append("load"), loaded(kernel)),
    )
    for rows in (1, 2, 3, 16, 31, 32, 33, 64, 65, 100, 1024, 1025, 2048, 2049, 5000, 8193, 16_384):
        step = step_inputs(rows, device, context=2048)
        builder.build(step.batch, {group.name: step.inputs[group.name] for group in groups})
    torch.cuda.synchronize()
    assert compiled == []
