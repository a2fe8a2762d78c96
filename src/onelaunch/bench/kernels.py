"""The benchmark's own kernels: nothing, a read and a copy."""

from __future__ import annotations

from onelaunch._triton import tl, triton


@triton.jit
def empty_kernel():
    pass


@triton.jit
def read_kernel(source_ptr, result_ptr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    total = tl.sum(tl.load(source_ptr + block * BLOCK + tl.arange(0, BLOCK)))
    tl.store(result_ptr + block, total)


@triton.jit
def copy_kernel(source_ptr, target_ptr, BLOCK: tl.constexpr):
    entries = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + entries, tl.load(source_ptr + entries))
