"""What a window group is, and the persistent buffers its metadata lives in."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_DRAFT_WIDTH_MULTIPLE = 64  # sparse decode kernels take index widths in multiples of 64


_INT32_MAX = 2**31 - 1


def _require_int(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _INT32_MAX:
        raise ValueError(f"{name} is {value!r}: it must be an integer from 1 to {_INT32_MAX}")


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """A sliding-window KV-cache group.

    Causal (target): row at ``pos`` sees ``[max(pos - (window - 1), 0, replay_start), pos]``.
    Non-causal (draft block): every row sees the ``window`` positions before its request's rows, and
    all of these rows.

    Attributes:
        name: key of the group in a step.
        window: W, in tokens.
        block_size: BS, tokens of a KV-cache block.
        causal: False for a draft block.
        draft_tokens: rows of a draft block; required when ``causal`` is False, else None.
        ragged: also build ``ragged_indices`` and ``ragged_indptr``.
        make_slots: the build computes the rows' slot mapping itself, from the block table.

    Raises:
        ValueError: a field is out of range, or ``draft_tokens`` does not fit ``causal``.
    """

    name: str
    window: int
    block_size: int
    causal: bool = True
    draft_tokens: int | None = None
    ragged: bool = True
    make_slots: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name is {self.name!r}: it must be a non-empty string")
        _require_int("window", self.window)
        _require_int("block_size", self.block_size)
        if self.causal and self.draft_tokens is not None:
            raise ValueError(
                f"draft_tokens is {self.draft_tokens!r}: it must be None for the causal group {self.name!r}"
            )
        if not self.causal:
            if self.draft_tokens is None:
                raise ValueError(
                    f"draft_tokens is None: it must be given for the non-causal group {self.name!r}"
                )
            _require_int("draft_tokens", self.draft_tokens)

    @property
    def width(self) -> int:
        """Entries of a row of ``indices``: W, or W + draft_tokens rounded up to 64 (134 -> 192)."""
        if self.causal:
            return self.window
        assert self.draft_tokens is not None
        return -(-(self.window + self.draft_tokens) // _DRAFT_WIDTH_MULTIPLE) * _DRAFT_WIDTH_MULTIPLE


@dataclass(frozen=True, slots=True, eq=False)
class GroupBuffers:
    """A group's persistent outputs. Their addresses never change, so captured graphs may hold them.

    Attributes:
        is_valid: [max_tokens] bool.
        indices: [max_tokens, 1, width] int32.
        lengths: [max_tokens] int32.
        ragged_indices: [max(max_tokens * width, 1)] int32; None for a dense group.
        ragged_indptr: [max_tokens + 1] int32; None for a dense group.
        slot_mapping: [max_tokens] int64; None unless the group makes its slots.
    """

    is_valid: torch.Tensor
    indices: torch.Tensor
    lengths: torch.Tensor
    ragged_indices: torch.Tensor | None
    ragged_indptr: torch.Tensor | None
    slot_mapping: torch.Tensor | None

    @staticmethod
    def allocate(group: WindowGroup, max_tokens: int, device: torch.device) -> GroupBuffers:
        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return GroupBuffers(
            is_valid=zeros(max_tokens, dtype=torch.bool),
            indices=zeros(max_tokens, 1, group.width),
            lengths=zeros(max_tokens),
            ragged_indices=zeros(max(max_tokens * group.width, 1)) if group.ragged else None,
            ragged_indptr=zeros(max_tokens + 1) if group.ragged else None,
            slot_mapping=zeros(max_tokens, dtype=torch.int64) if group.make_slots else None,
        )
