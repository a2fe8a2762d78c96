"""Every kernel compiled for hardware that need not be here; its registers and spills, from the assembly.

A compiler that runs out of registers keeps values in memory. On so short a kernel that costs more than
anything else, so a spill is a failure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from onelaunch.groups import WindowGroup

TARGETS = ("gfx942", "gfx950", "sm_80", "sm_90", "sm_100", "sm_120")

_GROUPS: dict[str, tuple[WindowGroup, ...]] = {
    "target": tuple(WindowGroup(f"swa.{i}", 128, 64) for i in range(4)),
    "draft": tuple(WindowGroup(f"draft.{i}", 128, 64, causal=False, draft_tokens=6) for i in range(3)),
    "dense": (
        WindowGroup("swa.0", 128, 64, ragged=False),
        WindowGroup("draft.0", 128, 64, causal=False, draft_tokens=6, ragged=False),
    ),
    # Both kinds in one kernel, making their slots; blocks so small that entries are looked up one by one.
    "mixed": (
        WindowGroup("swa.0", 128, 16, make_slots=True),
        WindowGroup("draft.0", 128, 64, causal=False, draft_tokens=6, make_slots=True),
    ),
    "wide": (WindowGroup("swa.0", 1000, 48),),
}
_TOPK = (1, 64, 512, 2048)
# The usual build's kernels: a program of one row, so their constants are the widths alone.
_REFERENCE_WIDTHS = {"target": (128, 128, True), "draft": (128, 192, False)}
_REFERENCE_PREFIX = "usual "
# Attention readers of the presets small and bench: heads, dimension.
_READER_SHAPES = ((6, 64), (32, 128))
_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compiled kernel uses.

    Attributes:
        kernel: its variant, for a person.
        target: "gfx942", "sm_90".
        registers: vector registers of a thread.
        scalar_registers: of a wave on AMD; None on NVIDIA.
        spills: registers kept in memory; on NVIDIA, bytes of a thread's stack and local memory.
        scalar_sources: on AMD, pointers that are read through the scalar cache, the kernel's arguments
            aside: a copy from the host may not reach that cache before a graph replay (ROCm/ATOM 1434).
        uncached_loads: on AMD, loads past all caches. Polling needs them, in its loop too, or may never end.
    """

    kernel: str
    target: str
    registers: int
    scalar_registers: int | None
    spills: int
    scalar_sources: int | None = None
    uncached_loads: int | None = None


def compile_all(targets: Sequence[str] = TARGETS) -> Iterator[Resources]:
    """Compile every variant for each target. Triton must not be interpreting.

    Raises:
        ValueError: a target is not "gfx..." or "sm_...".
    """
    check_targets(targets)
    gpu_targets = {name: _gpu_target(name) for name in targets}
    for name, gpu_target in gpu_targets.items():
        for kernel, compiled in _variants():
            yield resources(kernel, name, compiled(gpu_target).asm)


def check_targets(targets: Sequence[str]) -> None:
    """Raise ValueError unless all are names of GPUs that kernels can be compiled for."""
    for name in targets:
        if not re.fullmatch(r"sm_\d+|gfx9[0-9a-f]+", name):
            raise ValueError(f"target is {name!r}: it must be like gfx942 or sm_90")


def num_variants() -> int:
    """Kernels that :func:`compile_all` compiles for a target."""
    from onelaunch.kernels.launch import TILES

    others = sum(1 for _ in _reference_kernels()) + sum(1 for _ in _reader_kernels())
    return len(_GROUPS) * len(TILES) + len(_TOPK) + others


def _gpu_target(name: str) -> Any:
    from triton.backends.compiler import GPUTarget

    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_")), 32)
    return GPUTarget("hip", name, 64)  # CDNA: waves of 64


def _variants() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Each variant's name, and what compiles it for a ``GPUTarget``."""
    from onelaunch.kernels.launch import TILES, StepSpec, compile_step
    from onelaunch.kernels.topk import compile_topk

    for name, groups in _GROUPS.items():
        spec = StepSpec.of(groups)
        for tile in TILES:
            kernel = f"build_step {name}, {tile.rows} rows a program"
            yield kernel, partial(compile_step, spec, tile)
    for topk in _TOPK:
        yield f"pack_topk {topk}", partial(compile_topk, topk)
    for name, kernel, constants in _reference_kernels():
        yield _REFERENCE_PREFIX + name, partial(_compile, kernel, constants, _reference_types(kernel))
    for name, kernel, constants, types in _reader_kernels():
        yield name, partial(_compile_reader, kernel, constants, types)


def _reference_kernels() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The Triton steps of the usual build: name, kernel and compile-time arguments."""
    from onelaunch._triton import triton
    from onelaunch.reference import gpu_steps, gpu_topk

    yield "token_to_request", gpu_steps._token_to_request_kernel, {"BLOCK": gpu_steps._REQUEST_BLOCK}
    yield "slot_mapping", gpu_steps._slot_mapping_kernel, {"BLOCK_SIZE": 64}
    for name, (window, width, causal) in _REFERENCE_WIDTHS.items():
        row = {"WIDTH": width, "COLUMNS": triton.next_power_of_2(width)}
        facts = {"WINDOW": window, "BLOCK_SIZE": 64, "CAUSAL": causal, "HAS_REPLAY": causal}
        yield f"window_indices {name}", gpu_steps._window_indices_kernel, row | facts
        yield f"row_count {name}", gpu_steps._row_count_kernel, row
        yield f"compact {name}", gpu_steps._compact_kernel, row
    widest = {"COLUMNS": _TOPK[-1]}
    yield f"topk_lengths {_TOPK[-1]}", gpu_topk._lengths_kernel, widest
    yield f"topk_map {_TOPK[-1]}", gpu_topk._map_kernel, widest


def _reference_types(kernel: Any) -> dict[str, str]:
    slots = {"out_ptr": "*i64"} if kernel.fn.__name__ == "_slot_mapping_kernel" else {}
    return {"is_valid_ptr": "*i1"} | slots


def _reader_kernels() -> Iterator[tuple[str, Any, dict[str, Any], dict[str, str]]]:
    """The engine's attention kernels: name, kernel, compile-time arguments but the plan's, and types."""
    from onelaunch.engine.attention import kernels

    parts = dict.fromkeys(("sink_ptr", "tops_ptr", "totals_ptr", "accs_ptr"), "*fp32")
    rows = dict.fromkeys(("query_ptr", "cache_ptr", "compressed_ptr", "out_ptr"), "*bf16")
    types = parts | rows | {"scale": "fp32"}
    for heads, dim in _READER_SHAPES:
        shape = {"HEADS": heads, "DIM": dim}
        name = f"{heads} heads of {dim}"
        splits = {"SPLIT": 128, "WINDOW_SPLITS": 2, "SPLITS": 10}
        yield f"dense_attention {name}", kernels._dense_kernel, shape | {"HAS_COMPRESSED": True}, types
        yield f"ragged_attention {name}", kernels._ragged_kernel, shape | splits, types
        combine = shape | {"SPLITS": 10, "SPLITS_PADDED": 16}
        yield f"combine_splits {name}", kernels._combine_kernel, combine, types


def _compile_reader(kernel: Any, constants: dict[str, Any], types: dict[str, str], target: Any) -> Any:
    from onelaunch.engine.attention.kernels import plan

    planned = plan(constants["HEADS"], constants["DIM"], amd=target.backend == "hip")
    constants = constants | {name: planned[name] for name in kernel.arg_names if name in planned}
    num_warps = planned["num_warps"] if "ENTRIES" in constants else 4
    return _compile(kernel, constants, types, target, num_warps)


def _compile(
    kernel: Any, constants: dict[str, Any], types: dict[str, str], target: Any, num_warps: int = 4
) -> Any:
    """Compile a kernel; ``types`` are of the arguments that are not int32 or pointers to it."""
    import triton
    from triton.compiler import ASTSource

    signature = {
        name: types.get(name, "*i32" if name.endswith("_ptr") else "i32") for name in kernel.arg_names
    } | dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs={})
    return triton.compile(source, target=target, options={"num_warps": num_warps})


def resources(kernel: str, target: str, asm: dict[str, Any]) -> Resources:
    """Registers and spills, from a compiled kernel's assembly."""
    if "amdgcn" in asm:
        return amd_resources(kernel, target, asm["amdgcn"])
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(asm["cubin"])
        command = [str(_cuobjdump()), "-res-usage", str(cubin)]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return nvidia_resources(kernel, target, usage)


def amd_resources(kernel: str, target: str, assembly: str) -> Resources:
    """From the metadata at the end of an AMD kernel's assembly."""

    def count(key: str) -> int:
        match = re.search(rf"\.{key}:\s+(\d+)", assembly)
        if match is None:
            raise ValueError(f"assembly of {kernel} for {target} does not tell .{key}")
        return int(match[1])

    spills = count("vgpr_spill_count") + count("sgpr_spill_count")
    # A scalar load names the registers that hold its pointer; the kernel's arguments are at s[0:1].
    sources = set(re.findall(r"\bs_load_\w+ s\S+, (s\[\d+:\d+\])", assembly)) - {"s[0:1]"}
    uncached = len(re.findall(r"\bglobal_load_\w+ .* sc0 sc1$", assembly, re.MULTILINE))
    registers = count("vgpr_count"), count("sgpr_count")
    return Resources(kernel, target, *registers, spills, len(sources), uncached)


def nvidia_resources(kernel: str, target: str, usage: str) -> Resources:
    """From what ``cuobjdump -res-usage`` prints of a cubin."""
    match = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage)
    if match is None:
        raise ValueError(f"usage of {kernel} for {target} does not tell registers: {usage!r}")
    return Resources(kernel, target, int(match[1]), None, int(match[2]) + int(match[3]))


def _cuobjdump() -> Path:
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compile_all_apart(targets: Sequence[str], each: Callable[[Resources], None]) -> None:
    """:func:`compile_all` in processes of their own, calling ``each`` as results come.

    Triton chooses between compiler and interpreter when it is imported: a process that interprets can't
    compile.

    Raises:
        RuntimeError: a process failed, with the last line it said.
    """
    shares = [targets[i::_PROCESSES] for i in range(_PROCESSES)]
    with ThreadPoolExecutor(_PROCESSES) as threads:
        for _ in threads.map(lambda share: _compile_share(share, each), filter(None, shares)):
            pass


def _compile_share(targets: Sequence[str], each: Callable[[Resources], None]) -> None:
    code = (
        "import dataclasses, json, sys\n"
        "from onelaunch.proof.targets import compile_all\n"
        "for found in compile_all(sys.argv[1:]):\n"
        "    print(json.dumps(dataclasses.asdict(found)), flush=True)\n"
    )
    # A compiler that fails dumps its program: more than a pipe holds, and nobody reads it meanwhile.
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            [sys.executable, "-c", code, *targets],
            env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                each(Resources(**json.loads(line)))
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if process.returncode:
        raise RuntimeError(f"compiling for {', '.join(targets)} failed: {said[-1] if said else 'no message'}")
