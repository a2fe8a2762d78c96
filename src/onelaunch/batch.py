"""What a decode step gives: the batch all groups share, and one group's own tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class DecodeBatch:
    """One decode step's requests and rows. R requests, T rows (tokens, padding included).

    Tensors stay on the device and are never read back. With two requests of 2 and 1 rows, a
    padding request and one padding row::

        query_start_loc = [0, 2, 3, 3]    # R = 3; request 2 is padding: its range is empty
        seq_lens        = [130, 7, ?]     # a padding request's may hold anything
        num_tokens      = 4               # row 3 >= query_start_loc[R] is padding

    Attributes:
        query_start_loc: [R+1] int32, row range of each request. Padding requests are empty and last.
        seq_lens: [R] int32, tokens of the request including this step's rows.
        num_tokens: T, a host integer (a graph's padded size, for instance).
        replay_start: [R] int32 or None for all zero; no window KV exists below this position.
    """

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    num_tokens: int
    replay_start: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GroupInputs:
    """One KV-cache group's tensors of a step.

    Attributes:
        block_table: [>=R, B] int32, physical block of each logical block. 0 is the null block, an
            ordinary number here; a negative number marks no block. A number must be below
            ``2**31 // block_size``, as slots are int32; this is not checked. Rows may be strided,
            the columns must be contiguous.
        slot_mapping: [T] int64, where each row's own KV goes, -1 for a padded row. None exactly when
            the group was made with ``make_slots=True``: the build then computes it.
    """

    block_table: torch.Tensor
    slot_mapping: torch.Tensor | None = None
