"""Plan once, launch many: what a one-launch build decides ahead of the step, and the launch itself.

Everything that a step may vary is a run-time argument without specialization, so a step can't trigger a
compilation: kernels are compiled explicitly, one per :class:`Tile`, and launched through Triton's compiled
kernel directly. That also leaves Triton's per-call argument binding out of the host time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from onelaunch._triton import interpreted, triton
from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup
from onelaunch.kernels import step as step_kernel
from onelaunch.kernels import topk as topk_kernel
from onelaunch.launches import launched

_TAIL = 1024  # lengths a tail program zeroes
_REQUESTS = 32  # requests whose facts are loaded together: one a lane


@dataclass(frozen=True, slots=True)
class Tile:
    """Compile-time shape of a launch: what a batch of up to ``max_rows`` rows is built with.

    rows: rows of a program.
    columns: index entries of a row written at once, at most.
    look_back: programs whose counts are read at once.
    """

    max_rows: int
    rows: int
    columns: int
    look_back: int
    num_warps: int


# Chosen on an H200 (docs/performance.md): while rows are few, a warp to each; then more for each program.
TILES = (
    Tile(max_rows=64, rows=1, columns=128, look_back=64, num_warps=1),
    Tile(max_rows=1024, rows=8, columns=128, look_back=128, num_warps=1),
    Tile(max_rows=2**31 - 1, rows=32, columns=128, look_back=128, num_warps=4),
)


@dataclass(frozen=True, slots=True)
class StepSpec:
    """What the generated code depends on, beside the tile: the groups' distinct kinds, and whose is which.

    kinds: (window, width, block_size, causal, ragged, make_slots, span) each; a window touches at most
        ``span`` blocks.
    """

    kinds: tuple[tuple[int, int, int, bool, bool, bool, int], ...]
    kind_of_group: tuple[int, ...]

    @staticmethod
    def of(groups: Sequence[WindowGroup]) -> StepSpec:
        facts = [
            (
                g.window,
                g.width,
                g.block_size,
                g.causal,
                g.ragged,
                g.make_slots,
                (g.width + g.block_size - 2) // g.block_size + 1,
            )
            for g in groups
        ]
        kinds = tuple(dict.fromkeys(facts))
        return StepSpec(kinds, tuple(kinds.index(fact) for fact in facts))

    def constants(self, tile: Tile, dependent_launch: bool) -> dict[str, Any]:
        """Compile-time arguments of the kernel."""
        return {
            "GROUPS": len(self.kind_of_group),
            "KIND_OF_GROUP": self.kind_of_group,
            "KINDS": tuple((*kind, _columns(kind[1], tile.columns)) for kind in self.kinds),
            "NUM_KINDS": len(self.kinds),
            "ROWS": tile.rows,
            "REQUESTS": _REQUESTS,
            "LOOK_BACK": tile.look_back,
            "TAIL": _TAIL,
            "DEPENDENT_LAUNCH": dependent_launch,
        }


def _columns(width: int, most: int) -> int:
    """Entries of a row written at once: a power of two that divides the width wastes no lane (192 -> 64)."""
    divisor = width & -width
    return min(most, divisor if divisor >= 32 else int(triton.next_power_of_2(width)))


def supports_dependent_launch(target: Any) -> bool:
    """Whether a kernel may be started while the one ahead still runs (programmatic dependent launch)."""
    return target.backend == "cuda" and target.arch >= 90


def compile_step(spec: StepSpec, tile: Tile, target: Any) -> Any:
    """The compiled kernel for a ``triton.backends.compiler.GPUTarget``; needs no GPU."""
    from triton.compiler import ASTSource

    groups = len(spec.kind_of_group)
    dependent_launch = supports_dependent_launch(target)
    constants = spec.constants(tile, dependent_launch)
    signature: dict[str, Any] = {
        "table_ptr": "*i64",
        "words_ptr": "*i64",
        "token_to_request_ptr": "*i32",
        "query_start_loc_ptr": "*i32",
        "seq_lens_ptr": "*i32",
        "replay_start_ptr": "*i32",
        "num_tokens": "i32",
        "num_requests": "i32",
        "max_tokens": "i32",
        "words_stride": "i32",
        "block_tables": ("*i32",) * groups,
        "block_table_strides": ("i32",) * groups,
        "block_table_columns": ("i32",) * groups,
        "slot_mappings": ("*i64",) * groups,
        **dict.fromkeys(constants, "constexpr"),
    }
    source = ASTSource(fn=step_kernel.build_step_kernel, signature=signature, constexprs=constants, attrs={})
    options: dict[str, Any] = {"num_warps": tile.num_warps}
    if dependent_launch:
        options["launch_pdl"] = True
    return triton.compile(source, target=target, options=options)


@lru_cache(maxsize=None)
def _loaded_step(spec: StepSpec, tile: Tile, device_index: int) -> Any:
    """The compiled kernel, loaded on a device; shared by all builders with the same groups."""
    from triton.runtime import driver

    with torch.cuda.device(device_index):
        kernel = compile_step(spec, tile, driver.active.get_current_target())
        kernel._init_handles()  # load now: a lazy load could fall into a graph capture
    return kernel


def tile_for(num_tokens: int) -> Tile:
    return next(tile for tile in TILES if num_tokens <= tile.max_rows)


def programs_for(rows_per_program: int, num_tokens: int, max_tokens: int) -> int:
    """Programs of a group: those that take rows, at least one, then those that zero the tail."""
    row_programs = max(-(-num_tokens // rows_per_program), 1)
    return row_programs + -(-max_tokens // _TAIL) - num_tokens // _TAIL


def require_interpreter() -> None:
    """Raise RuntimeError unless kernels run in Triton's interpreter, as they must on a CPU."""
    if not interpreted():
        raise RuntimeError(
            "backend='kernel' on a CPU runs in Triton's interpreter: import onelaunch before triton, "
            "or set TRITON_INTERPRET=1 before either is imported"
        )


class StepLauncher:
    """Launches the one-launch build of fixed groups into fixed buffers."""

    def __init__(
        self,
        groups: Sequence[WindowGroup],
        buffers: Sequence[GroupBuffers],
        token_to_request: torch.Tensor,
        max_requests: int,
    ) -> None:
        device = token_to_request.device
        if device.type == "cpu":
            require_interpreter()
        self._device = device
        self._spec = StepSpec.of(groups)
        self._max_tokens = token_to_request.shape[0]
        self._token_to_request = token_to_request
        self._no_replay = torch.zeros(max(max_requests, 1), dtype=torch.int32, device=device)
        self._table = self._address_table(buffers)
        most_programs = max(-(-min(self._max_tokens, tile.max_rows) // tile.rows) for tile in TILES)
        # One builder's builds never overlap, as they share their outputs, so they can share the words.
        self._words = torch.zeros(len(buffers), 1 + most_programs, dtype=torch.int64, device=device)
        self._buffers = buffers  # the table holds plain addresses: keep their tensors alive

    def _address_table(self, buffers: Sequence[GroupBuffers]) -> torch.Tensor:
        rows = []
        for b in buffers:
            outputs = (b.is_valid, b.indices, b.lengths, b.ragged_indices, b.ragged_indptr, b.slot_mapping)
            addresses = [0 if output is None else output.data_ptr() for output in outputs]
            rows.append(addresses + [0] * (step_kernel.TABLE_COLUMNS - len(addresses)))
        return torch.tensor(rows, dtype=torch.int64).to(self._device)

    def warmup(self) -> None:
        """Compile and load every kernel that any number of rows may need."""
        if self._device.type != "cpu":
            for tile in TILES:
                _loaded_step(self._spec, tile, self._device.index)

    def bind(self, batch: DecodeBatch, inputs: Sequence[GroupInputs]) -> Callable[[], None]:
        """A function that launches the build of these tensors, whatever they then hold."""
        tile = tile_for(batch.num_tokens)
        programs = programs_for(tile.rows, batch.num_tokens, self._max_tokens)
        groups = len(inputs)
        replay_start = self._no_replay if batch.replay_start is None else batch.replay_start
        tensors = (
            self._table,
            self._words,
            self._token_to_request,
            batch.query_start_loc,
            batch.seq_lens,
            replay_start,
        )
        sizes = (batch.num_tokens, batch.seq_lens.shape[0], self._max_tokens, self._words.stride(0))
        tables = tuple(given.block_table for given in inputs)
        strides = tuple(table.stride(0) for table in tables)
        columns = tuple(table.shape[1] for table in tables)
        # A group that makes its slots has none to read: any int64 address serves.
        slots = tuple(self._table if g.slot_mapping is None else g.slot_mapping for g in inputs)
        constants = self._spec.constants(tile, dependent_launch=False)

        if self._device.type == "cpu":
            kernel = step_kernel.build_step_kernel[(programs, groups)]

            def interpret() -> None:
                kernel(*tensors, *sizes, tables, strides, columns, slots, **constants)
                launched("build_step")

            return interpret

        compiled = _loaded_step(self._spec, tile, self._device.index)
        return compiled_launch(
            compiled,
            (programs, groups, 1),
            self._device.index,
            (
                *(t.data_ptr() for t in tensors),
                *sizes,
                tuple(t.data_ptr() for t in tables),
                strides,
                columns,
                tuple(t.data_ptr() for t in slots),
                *(None for _ in constants),
            ),
            "build_step",
        )


def compiled_launch(
    compiled: Any, grid: tuple[int, int, int], device_index: int, arguments: tuple[Any, ...], name: str
) -> Callable[[], None]:
    """A function that launches a compiled kernel with fixed arguments on the current stream.

    It calls the compiled kernel as Triton's own runner does, less the binding of arguments; a
    profiler's launch hooks, when set, are still called, with their metadata.
    """
    hooks = triton.knobs.runtime
    enter, leave = hooks.launch_enter_hook, hooks.launch_exit_hook
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    programs, groups, depth = grid
    current_stream = torch._C._cuda_getCurrentRawStream
    current_device = torch._C._cuda_getDevice

    def launch() -> None:
        if current_device() != device_index:
            with torch.cuda.device(device_index):
                launch()
            return
        stream = current_stream(device_index)
        if enter.calls or leave.calls:
            details = compiled.launch_metadata(grid, stream, *arguments)
            run(programs, groups, depth, stream, function, metadata, details, enter, leave, *arguments)
        else:
            run(programs, groups, depth, stream, function, metadata, None, None, None, *arguments)
        launched(name)

    return launch


# Entries of a tile of the top-k pack: 16 a thread.
_TOPK_TILE = 4096
_TOPK_WARPS = 8


def topk_constants(topk: int) -> dict[str, int]:
    """Compile-time arguments of the top-k pack: one kernel for each power of two."""
    columns = triton.next_power_of_2(topk)
    return {"ROWS": _TOPK_TILE // columns, "COLUMNS": columns, "PROGRAMS": topk_kernel.PROGRAMS}


def compile_topk(constants: dict[str, int], target: Any) -> Any:
    """The compiled top-k pack for a ``GPUTarget``; needs no GPU."""
    from triton.compiler import ASTSource

    signature = dict(
        topk_ptr="*i32",
        token_to_request_ptr="*i32",
        is_valid_ptr="*i1",
        block_table_ptr="*i32",
        ragged_ptr="*i32",
        indptr_ptr="*i32",
        lengths_ptr="*i32",
        words_ptr="*i64",
        topk_stride="i32",
        num_tokens="i32",
        topk="i32",
        block_table_stride="i32",
        num_blocks="i32",
        block_size="i32",
        tiles="i32",
        **dict.fromkeys(constants, "constexpr"),
    )
    source = ASTSource(fn=topk_kernel.pack_topk_kernel, signature=signature, constexprs=constants, attrs={})
    return triton.compile(source, target=target, options={"num_warps": _TOPK_WARPS})


@lru_cache(maxsize=None)
def _loaded_topk(columns: int, device_index: int) -> Any:
    from triton.runtime import driver

    with torch.cuda.device(device_index):
        kernel = compile_topk(topk_constants(columns), driver.active.get_current_target())
        kernel._init_handles()
    return kernel


def launch_topk(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    is_valid: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    ragged_indices: torch.Tensor,
    indptr: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
) -> None:
    """Launch the top-k pack once; shapes as in ``onelaunch.pack_topk``, words [PROGRAMS] int64."""
    rows, topk = topk_indices.shape
    constants = topk_constants(topk)
    tiles = -(-rows // (constants["ROWS"] * topk_kernel.PROGRAMS))
    tensors = (topk_indices, token_to_request, is_valid, block_table, ragged_indices, indptr, lengths, words)
    sizes = (
        topk_indices.stride(0),
        rows,
        topk,
        block_table.stride(0),
        block_table.shape[1],
        block_size,
        tiles,
    )
    device = topk_indices.device
    if device.type == "cpu":
        require_interpreter()
        topk_kernel.pack_topk_kernel[(topk_kernel.PROGRAMS,)](*tensors, *sizes, **constants)
        launched("pack_topk")
        return
    compiled_launch(
        _loaded_topk(constants["COLUMNS"], device.index),
        (topk_kernel.PROGRAMS, 1, 1),
        device.index,
        (*(t.data_ptr() for t in tensors), *sizes, *(None for _ in constants)),
        "pack_topk",
    )()
