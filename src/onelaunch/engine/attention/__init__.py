"""Two readers of the same metadata: ``dense``, as fused decode kernels read it, and ``ragged``, as AMD's do.

Both attend with one key-value head whose keys are its values, over a row's window entries and, in a
compressed layer, its top-k compressed rows, with a sink: a learned logit of each head that joins the softmax
and has no value. A row without entries gives zeros. On a GPU they are Triton kernels, on a CPU PyTorch.
"""

from __future__ import annotations

from torch import Tensor

from onelaunch.engine.attention.compressed import Compressed
from onelaunch.engine.attention.torch_readers import dense_torch, ragged_torch

__all__ = ["READER_KERNELS", "Compressed", "dense_attention", "ragged_attention"]

#: What the readers' launches are counted as: they are not metadata.
READER_KERNELS = ("dense_attention", "ragged_attention", "combine_splits")


def dense_attention(
    query: Tensor,
    cache: Tensor,
    indices: Tensor,
    lengths: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """Attend over dense indices.

    Args:
        query: [T, H, D] float32, float16 or bfloat16.
        cache: [slots, D] of the same dtype.
        indices: [T, 1, width] int32 slots; a negative one is no entry.
        lengths: [T] int32; the first ``min(length, width)`` indices of a row count.
        sink: [H] float32.
        scale: of the products.
        compressed: entries of a second cache.

    Returns:
        [T, H, D].
    """
    if query.device.type == "cpu":
        return dense_torch(query, cache, indices, lengths, sink, scale, compressed)
    from onelaunch.engine.attention.kernels import dense_triton

    return dense_triton(query, cache, indices, lengths, sink, scale, compressed)


def ragged_attention(
    query: Tensor,
    cache: Tensor,
    ragged_indices: Tensor,
    indptr: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """Attend over ragged indices, each row's split over programs by the most it may have: the view's entries
    / T.

    Args:
        query: [T, H, D] float32, float16 or bfloat16.
        cache: [slots, D] of the same dtype.
        ragged_indices: [T * width] int32 slots; a negative one is no entry.
        indptr: [T + 1] int32, where each row's entries begin.
        sink: [H] float32.
        scale: of the products.
        compressed: entries of a second cache.

    Returns:
        [T, H, D].
    """
    if query.device.type == "cpu":
        return ragged_torch(query, cache, ragged_indices, indptr, sink, scale, compressed)
    from onelaunch.engine.attention.kernels import ragged_triton

    return ragged_triton(query, cache, ragged_indices, indptr, sink, scale, compressed)
