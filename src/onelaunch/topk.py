"""``pack_topk``: the top-k compressed entries of each row as global slots, in one launch."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache

import torch

from onelaunch import gate, reference
from onelaunch.checks import check_block_table, check_int, check_tensor
from onelaunch.platform import detect, on_device

MAX_TOPK = 2048


@dataclass(frozen=True, slots=True, eq=False)
class PackedTopk:
    """The ragged form of a step's top-k, T rows of K.

    Attributes:
        ragged_indices: [T * K] int32 global slots; entries past ``indptr[T]`` are unspecified.
        indptr: [T + 1] int32, where each row's entries start.
        lengths: [T] int32, entries of each row; 0 for a padded one.
    """

    ragged_indices: torch.Tensor
    indptr: torch.Tensor
    lengths: torch.Tensor


def pack_topk(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    is_valid: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    *,
    backend: str = "auto",
) -> PackedTopk:
    """Map each row's top-k local indices through the compressed cache's block table, as a ragged list.

    A row's length is its count of entries that are not negative; its first ``length`` entries are mapped
    (entry e of request r to ``block_table[r, e // block_size] * block_size + e % block_size``), a negative
    one among them to -1, as is one past the table.

    One kernel is compiled for each power of two of K, at the first call: make one before capturing a graph.

    Args:
        topk_indices: [T, K] int32, K up to 2,048; rows may be strided.
        token_to_request: [T] int32.
        is_valid: [T] bool; a padded row's request index is never used for an address.
        block_table: [R, B] int32 of the compressed cache; rows may be strided.
        block_size: compressed entries of a block.
        backend: "auto" asks the gate; "kernel" and "reference" force a path.

    Raises:
        ValueError: an argument does not fit; nothing has been launched or written.
    """
    if not isinstance(topk_indices, torch.Tensor):
        raise ValueError(f"topk_indices is a {type(topk_indices).__name__}: it must be a tensor")
    device = topk_indices.device
    check_tensor("topk_indices", topk_indices, torch.int32, ["T", "K"], device, contiguous=False)
    rows, topk = topk_indices.shape
    check_int("K of topk_indices", topk, 1, MAX_TOPK)
    row_stride, column_stride = topk_indices.stride()
    if (column_stride != 1 and topk > 1) or row_stride > 2**31 - 1:
        raise ValueError(
            f"topk_indices has strides {[row_stride, column_stride]}: "
            "columns must be contiguous, rows below 2**31"
        )
    check_int("T * K of topk_indices", rows * topk, 0, 2**31 - 1)
    check_tensor("token_to_request", token_to_request, torch.int32, [rows], device)
    check_tensor("is_valid", is_valid, torch.bool, [rows], device)
    check_block_table("block_table", block_table, 0, device)
    check_int("block_size", block_size, 1, 2**31 - 1)
    if backend not in ("auto", "kernel", "reference"):
        raise ValueError(f"backend is {backend!r}: it must be one of auto, kernel, reference")

    def empty(size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int32, device=device)

    packed = PackedTopk(empty(rows * topk), empty(rows + 1), empty(rows))
    outputs = (packed.ragged_indices, packed.indptr, packed.lengths)
    inputs = (topk_indices, token_to_request, is_valid, block_table)
    with on_device(device):
        if backend == "kernel" or (backend == "auto" and _gate_enabled(device)):
            from onelaunch.kernels.topk import launch_topk  # needs Triton

            launch_topk(*inputs, block_size, *outputs, _words(device))
        else:
            reference.pack_topk(*inputs, block_size, *outputs)
    return packed


@cache
def _gate_enabled(device: torch.device) -> bool:
    return gate.decide(True, detect(device)).enabled


_SLAB = 1024  # captured launches a slab serves; 1 MiB
_lock = threading.Lock()
_of_stream: dict[tuple[torch.device, int], torch.Tensor] = {}
_spare: dict[torch.device, list[torch.Tensor]] = {}


def _words(device: torch.device) -> torch.Tensor:
    """Zeroed scan words (see ``kernels.scan``) such that launches on the same words never overlap.

    Eager launches of a stream run in order and share theirs. A captured launch may be replayed on any
    stream, so it gets words of its own, for the life of the process, from a slab zeroed ahead of the capture.
    """
    from onelaunch.kernels.topk import NUM_WORDS

    if device.type == "cpu":
        stream, capturing = 0, False
    else:
        stream = torch.cuda.current_stream(device).cuda_stream
        capturing = torch.cuda.is_current_stream_capturing()
    with _lock:
        if not capturing:
            words = _of_stream.get((device, stream))
            if words is None:
                words = _of_stream[device, stream] = torch.zeros(NUM_WORDS, dtype=torch.int64, device=device)
            if device.type != "cpu" and not _spare.get(device):
                _spare[device] = list(torch.zeros(_SLAB, NUM_WORDS, dtype=torch.int64, device=device))
            return words
        if _spare.get(device):
            return _spare[device].pop()
    # No eager call came before the capture: zero the words inside the graph, a launch more a replay.
    return torch.zeros(NUM_WORDS, dtype=torch.int64, device=device)
