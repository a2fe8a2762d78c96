"""The usual top-k pack, the specification of ``onelaunch.pack_topk``: four launches, each a named step.

    topk_lengths      lengths         entries of each row that are not negative
    topk_cumsum       indptr          where each row's entries start
    topk_copy_indptr
    topk_map          ragged_indices  the entries through the block table, row after row

On a CPU a step is plain PyTorch (here); on a GPU it is one launch (:mod:`.gpu_topk`).
"""

from __future__ import annotations

import torch

from onelaunch.launches import launched


def pack_topk(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    is_valid: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    ragged_indices: torch.Tensor,
    indptr: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Write the packed form of ``topk_indices`` into the last three; shapes as in ``onelaunch.pack_topk``."""
    if not lengths.shape[0]:
        indptr.zero_()
        launched("topk_copy_indptr")
        return
    write_lengths, write_entries = _lengths, _map
    if lengths.device.type != "cpu":
        from onelaunch.reference import gpu_topk  # needs Triton

        write_lengths, write_entries = gpu_topk.write_lengths, gpu_topk.write_entries

    # Two rows, the second never read: PyTorch scans a single row with two kernels (CUB), several with one.
    counts = torch.empty(2, indptr.shape[0], dtype=torch.int32, device=indptr.device)
    write_lengths(topk_indices, is_valid, lengths, counts[0])
    launched("topk_lengths")
    starts = torch.cumsum(counts, dim=1, dtype=torch.int32)
    launched("topk_cumsum")
    indptr.copy_(starts[0])
    launched("topk_copy_indptr")
    write_entries(topk_indices, token_to_request, block_table, block_size, lengths, indptr, ragged_indices)
    launched("topk_map")


def _lengths(
    topk_indices: torch.Tensor, is_valid: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> None:
    """``lengths`` [T] int32, and the same behind a zero in ``counts`` [T + 1]."""
    lengths.copy_(torch.where(is_valid, (topk_indices >= 0).sum(dim=1), 0))
    counts[0] = 0
    counts[1:] = lengths


def _map(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    lengths: torch.Tensor,
    indptr: torch.Tensor,
    ragged_indices: torch.Tensor,
) -> None:
    """The first ``length`` entries of each row as slots: -1 for a negative entry and one past the table."""
    rows, topk = topk_indices.shape
    entries = topk_indices.long()
    logical = entries // block_size
    taken = torch.arange(topk, device=entries.device)[None, :] < lengths[:, None]
    mapped = taken & (entries >= 0) & (logical < block_table.shape[1])
    req = token_to_request.long()[:, None].expand(rows, topk)
    # The slots of a negative block are negative, and bounded so that int32 holds them.
    block = block_table[req[mapped], logical[mapped]].long().clamp(min=-(2**31 // block_size))
    slots = torch.full_like(entries, -1)
    slots[mapped] = block * block_size + entries[mapped] % block_size
    ragged_indices[: int(indptr[-1])] = slots[taken].int()
