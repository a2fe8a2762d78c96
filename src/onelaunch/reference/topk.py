"""The usual top-k pack: count, zero fill, scan, map. The specification of ``onelaunch.pack_topk``."""

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
    """Write the packed form of ``topk_indices`` into the last three; shapes as in ``onelaunch.pack_topk``.

    A few lines of PyTorch on any device: this is the specification, not a baseline to time.
    """
    rows, topk = topk_indices.shape
    column = torch.arange(topk, device=topk_indices.device)
    lengths.copy_(torch.where(is_valid, (topk_indices >= 0).sum(dim=1), 0))
    launched("topk_lengths")
    indptr[:1].zero_()
    launched("topk_zero_fill")
    torch.cumsum(lengths, dim=0, dtype=torch.int32, out=indptr[1:])
    launched("topk_cumsum")

    entries = topk_indices.long()
    logical = entries // block_size
    taken = column[None, :] < lengths[:, None]
    mapped = taken & (entries >= 0) & (logical < block_table.shape[1])
    slots = torch.full_like(entries, -1)
    req = token_to_request.long()[:, None].expand(rows, topk)
    slots[mapped] = block_table[req[mapped], logical[mapped]].long() * block_size + entries[mapped] % block_size
    packed = slots[taken].int()
    ragged_indices[: packed.shape[0]] = packed
    launched("topk_map")
