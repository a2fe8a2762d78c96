"""The entries of a compressed cache that rows read beside their windows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """Each row's top-k compressed rows, as ``pack_topk`` packs them.

    Attributes:
        cache: [slots, D].
        ragged_indices: [T * K] int32 slots; a negative one is no entry.
        indptr: [T + 1] int32.
    """

    cache: Tensor
    ragged_indices: Tensor
    indptr: Tensor
