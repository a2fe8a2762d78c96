"""Plan once, launch many: what a one-launch build decides ahead of the step, and the launch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from onelaunch._triton import triton
from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup
from onelaunch.kernels import step as step_kernel
from onelaunch.kernels.compiled import (
    current_target,
    is_amd,
    launcher,
    load,
    require_interpreter,
    supports_dependent_launch,
)
from onelaunch.kernels.scan import num_words, teams_of
from onelaunch.kernels.window import SELECTED_BLOCKS
from onelaunch.launches import launched

_TAIL = 1024  # lengths a tail program zeroes
_MOST_COLUMNS = 128  # entries of a row made at once
_KEPT_ENTRIES = 1536  # entries of a program that wait in registers: 48 a lane of one warp
_REQUESTS = 32  # requests whose facts are loaded together: one a lane


@dataclass(frozen=True, slots=True)
class Tile:
    """Compile-time shape of a launch: what a batch of up to ``max_rows`` rows is built with.

    rows: rows of a program.
    early: let the kernel behind start at once, if it may (programmatic dependent launch).
    """

    max_rows: int
    rows: int
    num_warps: int
    early: bool


# Chosen on an H200 (docs/performance.md). Many programs of one warp hide each other's waiting best, until
# there are more of them than the GPU holds. Few elements a lane also keep AMD's scalar registers unspilled.
TILES = (
    Tile(max_rows=64, rows=1, num_warps=1, early=True),
    Tile(max_rows=2048, rows=4, num_warps=1, early=True),
    Tile(max_rows=2**31 - 1, rows=8, num_warps=1, early=False),
)

# In Triton's interpreter a program costs about the same whatever it holds: few, large ones. Small batches
# still have several, so that what programs tell each other is exercised there too.
INTERPRETED_TILES = (
    Tile(max_rows=64, rows=16, num_warps=8, early=False),
    Tile(max_rows=2**31 - 1, rows=256, num_warps=8, early=False),
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

    def constants(self, tile: Tile, target: Any) -> dict[str, Any]:
        """Compile-time arguments of the kernel for a ``GPUTarget``; None is the interpreter."""
        return {
            "GROUPS": len(self.kind_of_group),
            "KIND_OF_GROUP": self.kind_of_group,
            "KINDS": tuple((*kind, *_entries(kind[1], kind[6], tile)) for kind in self.kinds),
            "NUM_KINDS": len(self.kinds),
            "ROWS": tile.rows,
            "REQUESTS": _REQUESTS,
            "ONE_TEAM": teams_of(-(-tile.max_rows // tile.rows)) == 1,
            "TAIL": _TAIL,
            "DEPENDENT_LAUNCH": supports_dependent_launch(target),
            "EARLY": tile.early,
            "AMD": is_amd(target),
        }


def _entries(width: int, span: int, tile: Tile) -> tuple[bool, int]:
    """(kept, columns) of a kind; see ``build_step_kernel``."""
    kept = tile.rows > 1 and tile.rows * width <= _KEPT_ENTRIES and span <= SELECTED_BLOCKS.value
    most = _MOST_COLUMNS if kept else max(8 * 32 * tile.num_warps // tile.rows, 32)  # 8 entries a lane
    # A power of two that divides the width wastes no lane (192 -> 64).
    divisor = width & -width
    return kept, min(_MOST_COLUMNS, most, divisor if divisor >= 32 else int(triton.next_power_of_2(width)))


def compile_step(spec: StepSpec, tile: Tile, target: Any) -> Any:
    """The compiled kernel for a ``triton.backends.compiler.GPUTarget``; needs no GPU."""
    from triton.compiler import ASTSource

    groups = len(spec.kind_of_group)
    constants = spec.constants(tile, target)
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
        "max_teams": "i32",
        "block_tables": ("*i32",) * groups,
        "block_table_strides": ("i32",) * groups,
        "block_table_columns": ("i32",) * groups,
        "slot_mappings": ("*i64",) * groups,
        **dict.fromkeys(constants, "constexpr"),
    }
    source = ASTSource(fn=step_kernel.build_step_kernel, signature=signature, constexprs=constants, attrs={})
    options: dict[str, Any] = {"num_warps": tile.num_warps}
    if target.backend == "cuda":
        # All registers there are: left alone, ptxas spills some to fit more warps than a batch has.
        options["maxnreg"] = 255
    if supports_dependent_launch(target):
        options["launch_pdl"] = True
    return triton.compile(source, target=target, options=options)


@cache
def _loaded_step(spec: StepSpec, tile: Tile, device_index: int) -> Any:
    """The compiled kernel, loaded on a device; shared by all builders with the same groups."""
    return load(lambda: compile_step(spec, tile, current_target()), device_index)


def programs_for(rows_per_program: int, num_tokens: int, max_tokens: int) -> int:
    """Programs of a group: those that take rows, at least one, then those that zero the tail."""
    row_programs = max(-(-num_tokens // rows_per_program), 1)
    return row_programs + -(-max_tokens // _TAIL) - num_tokens // _TAIL


class StepLauncher:
    """Launches the one-launch build of fixed groups into fixed buffers."""

    def __init__(
        self,
        groups: Sequence[WindowGroup],
        buffers: Sequence[GroupBuffers],
        token_to_request: torch.Tensor,
        max_requests: int,
        *,
        early: bool = True,
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
        # The compiled kernel has its constants, but its launcher still takes their places.
        self._no_constants = (None,) * len(self._spec.constants(TILES[0], None))
        tiles = INTERPRETED_TILES if device.type == "cpu" else TILES
        smaller = [tile for tile in tiles if tile.max_rows < self._max_tokens]
        self._tiles = tuple(replace(tile, early=tile.early and early) for tile in tiles[: len(smaller) + 1])
        most_programs = max(-(-min(self._max_tokens, tile.max_rows) // tile.rows) for tile in self._tiles)
        # One builder's builds never overlap, as they share their outputs, so they can share the words.
        self._max_teams = teams_of(most_programs)
        words = (len(buffers), num_words(self._max_teams))
        self._words = torch.zeros(words, dtype=torch.int64, device=device)
        self._buffers = buffers  # the table holds plain addresses: keep their tensors alive

    def _address_table(self, buffers: Sequence[GroupBuffers]) -> torch.Tensor:
        rows = []
        for b in buffers:
            outputs = (b.is_valid, b.indices, b.lengths, b.ragged_indices, b.ragged_indptr, b.slot_mapping)
            addresses = [0 if output is None else output.data_ptr() for output in outputs]
            rows.append(addresses + [0] * (step_kernel.TABLE_COLUMNS - len(addresses)))
        return torch.tensor(rows, dtype=torch.int64).to(self._device)

    @property
    def launch_shapes(self) -> tuple[int, ...]:
        """Most rows of each tile, rising."""
        return tuple(min(tile.max_rows, self._max_tokens) for tile in self._tiles)

    def warmup(self) -> None:
        """Compile and load every kernel that any number of rows may need."""
        if self._device.type != "cpu":
            for tile in self._tiles:
                _loaded_step(self._spec, tile, self._device.index)

    def bind(self, batch: DecodeBatch, inputs: Sequence[GroupInputs]) -> Callable[[], None]:
        """A function that launches the build of these tensors, whatever they then hold.

        On a GPU it knows their addresses alone: keeping the tensors alive is the caller's part.
        """
        tile = next(tile for tile in self._tiles if batch.num_tokens <= tile.max_rows)
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
        sizes = (batch.num_tokens, batch.seq_lens.shape[0], self._max_tokens, self._max_teams)
        tables = tuple(given.block_table for given in inputs)
        strides = tuple(table.stride(0) for table in tables)
        columns = tuple(table.shape[1] for table in tables)
        # A group that makes its slots has none to read: any int64 address serves.
        slots = tuple(self._table if g.slot_mapping is None else g.slot_mapping for g in inputs)

        if self._device.type == "cpu":
            kernel = step_kernel.build_step_kernel[(programs, groups)]
            constants = self._spec.constants(tile, None)

            def interpret() -> None:
                kernel(*tensors, *sizes, tables, strides, columns, slots, **constants)
                launched("build_step")

            return interpret

        compiled = _loaded_step(self._spec, tile, self._device.index)
        return launcher(
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
                *self._no_constants,
            ),
            "build_step",
        )
