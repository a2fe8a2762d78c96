"""The usual build of one window group, as engines run it: eight launches, each a named step.

    compare         is_valid         which rows have a KV slot
    fill_tail       lengths[T:]      zero past the batch
    window_indices  indices, lengths the slots each row may read through its window
    row_count       counts           entries each row keeps
    cumsum          indptr           where each row's entries start
    compact         entries          the kept entries, row after row
    copy_indices    ragged_indices   into the persistent buffers
    copy_indptr     ragged_indptr

A dense group (``ragged=False``) takes the first three. Once a build, not a group: ``token_to_request``. A
group that makes its slots takes one step more, ``slot_mapping``, before the others.

On a CPU a step is plain PyTorch (:mod:`.torch_steps`: read that as the specification); on a GPU it is one
launch (:mod:`.gpu_steps`).
"""

from __future__ import annotations

from types import ModuleType

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup
from onelaunch.launches import launched
from onelaunch.reference import torch_steps


def _steps(device: torch.device) -> ModuleType:
    if device.type == "cpu":
        return torch_steps
    from onelaunch.reference import gpu_steps  # needs Triton

    return gpu_steps


def token_to_request(batch: DecodeBatch, out: torch.Tensor) -> None:
    """Write each row's request into ``out[:T]`` ([max_tokens] int32); 0 past ``query_start_loc[R]``."""
    if batch.num_tokens:
        _steps(out.device).token_to_request(batch.query_start_loc, out[: batch.num_tokens])
        launched("token_to_request")


def build_group(
    group: WindowGroup,
    inputs: GroupInputs,
    batch: DecodeBatch,
    token_to_request: torch.Tensor,
    buffers: GroupBuffers,
) -> None:
    """Write the group's metadata of the batch into its buffers.

    Args:
        token_to_request: [max_tokens] int32, this batch's.
    """
    steps = _steps(buffers.lengths.device)
    rows = batch.num_tokens
    req = token_to_request[:rows]
    slot_mapping = inputs.slot_mapping
    if buffers.slot_mapping is not None:
        slot_mapping = buffers.slot_mapping[:rows]
        if rows:
            steps.slot_mapping(group, inputs.block_table, batch, req, slot_mapping)
            launched("slot_mapping")
    assert slot_mapping is not None

    if rows:
        torch.ge(slot_mapping, 0, out=buffers.is_valid[:rows])
        launched("compare")
    if rows < buffers.lengths.shape[0]:
        buffers.lengths[rows:].zero_()
        launched("fill_tail")
    if rows:
        steps.window_indices(
            group,
            inputs.block_table,
            batch,
            req,
            buffers.is_valid[:rows],
            buffers.indices[:rows],
            buffers.lengths[:rows],
        )
        launched("window_indices")

    if buffers.ragged_indices is None or buffers.ragged_indptr is None:
        return
    if not rows:
        buffers.ragged_indptr[:1].zero_()
        launched("copy_indptr")
        return
    counts = steps.row_count(buffers.indices[:rows], buffers.lengths[:rows])
    launched("row_count")
    indptr = steps.cumsum(counts)
    launched("cumsum")
    entries = steps.compact(buffers.indices[:rows], buffers.lengths[:rows], indptr)
    launched("compact")
    buffers.ragged_indices[: entries.shape[0]].copy_(entries)
    launched("copy_indices")
    buffers.ragged_indptr[: rows + 1].copy_(indptr)
    launched("copy_indptr")
