"""A window builder of vLLM 0.33: what its build reads, where it writes, and the metadata object it returns.

Everything here mirrors ``vllm/v1/attention/backends/mla/sparse_swa.py`` and the ROCm builders of
``vllm/models/deepseek_v4*/amd/rocm.py``. What is mirrored is compared, field by field, before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup
from onelaunch.metadata import GroupMetadata

# Fields of DeepseekSparseSWAMetadata that a decode batch sets, beside the tile schedules.
FIELDS = (
    "block_table",
    "slot_mapping",
    "block_size",
    "seq_lens",
    "query_start_loc",
    "query_start_loc_cpu",
    "is_valid_token",
    "token_to_req_indices",
    "decode_swa_indices",
    "decode_swa_lens",
    "decode_swa_width",
    "replay_start",
    "num_decodes",
    "num_decode_tokens",
    "max_decode_query_len",
)
RAGGED_FIELDS = ("decode_swa_ragged_indices", "decode_swa_ragged_indptr")

# Fields of CommonAttentionMetadata, vLLM's inputs of a build, that are read, or replaced in a rehearsal.
INPUT_FIELDS = (
    "query_start_loc",
    "query_start_loc_cpu",
    "seq_lens",
    "seq_lens_cpu_upper_bound",
    "num_reqs",
    "num_actual_tokens",
    "max_query_len",
    "max_seq_len",
    "block_table_tensor",
    "slot_mapping",
    "causal",
    "positions",
    "is_prefilling",
    "mm_req_doc_ranges",
    "_num_computed_tokens_cache",
    "_token_to_req_indices_cache",
)


@dataclass(frozen=True, slots=True)
class Owner:
    """A class whose methods are patched, and vLLM's own code behind them.

    Attributes:
        build: its build before the patch.
        update: its draft update before the patch.
        split: vLLM's ``split_decodes_and_prefills``.
        map_tokens: vLLM's ``compute_token_to_req_indices``.
        metadata: the class of what its build returns.
        ragged: whether that has the ragged views.
    """

    build: Callable[..., Any]
    update: Callable[..., None]
    split: Callable[..., tuple[int, int, int, int]]
    map_tokens: Callable[..., torch.Tensor]
    metadata: type
    ragged: bool


# Each slot that pads takes a share of the kernel, while vLLM makes indices of the decode rows alone. A rank
# that decodes beside one that prefills has thousands of such slots.
_FEW_SLOTS, _MOST_SLOTS_A_ROW = 64, 4

owners: dict[type, Owner] = {}  # by class; subclasses share their nearest one's


def owner_of(builder: object) -> Owner | None:
    """Who builds for ``builder``, None for a builder of anything else."""
    for base in type(builder).__mro__:
        owner = owners.get(base)
        if owner is not None:
            return owner
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One window group of a call: its builder and its inputs."""

    owner: Owner
    builder: Any
    inputs: GroupInputs
    causal: bool

    def group(self, name: str) -> WindowGroup:
        """
        Raises:
            ValueError: the builder is none that the library can serve.
        """
        builder = self.builder
        return WindowGroup(
            name,
            window=builder.window_size,
            block_size=builder.block_size,
            causal=self.causal,
            # By the width alone: vLLM rounds window + draft tokens up to 64 as the library does.
            draft_tokens=None if self.causal else builder.noncausal_index_width - builder.window_size,
            ragged=self.owner.ragged,
        )

    def buffers(self) -> GroupBuffers:
        """The builder's own persistent buffers. The draft's indices are made on first use, as vLLM does."""
        builder = self.builder
        indices = builder.decode_swa_indices
        if not self.causal:
            if builder.decode_swa_indices_noncausal is None:
                builder.decode_swa_indices_noncausal = torch.zeros(
                    (builder._max_tokens, 1, builder.noncausal_index_width),
                    dtype=torch.int32,
                    device=builder.device,
                )
            indices = builder.decode_swa_indices_noncausal
        ragged = indptr = None
        if self.owner.ragged:  # sized for the wider of both forms
            ragged = builder.decode_swa_ragged_indices_buffer[: builder._max_tokens * indices.shape[-1]]
            indptr = builder.decode_swa_ragged_indptr_buffer
        return GroupBuffers(
            is_valid=builder.is_valid_token,
            indices=indices,
            lengths=builder.decode_swa_lens,
            ragged_indices=ragged,
            ragged_indptr=indptr,
            slot_mapping=None,
        )

    def addresses(self) -> list[int]:
        """Of the buffers that are written: a plan is for these."""
        builder = self.builder
        written = [
            builder.is_valid_token,
            builder.decode_swa_indices if self.causal else builder.decode_swa_indices_noncausal,
            builder.decode_swa_lens,
            builder.token_to_req_indices,
        ]
        if self.owner.ragged:
            written += builder.decode_swa_ragged_indices_buffer, builder.decode_swa_ragged_indptr_buffer
        return [0 if buffer is None else buffer.data_ptr() for buffer in written]


def decode_build(
    owner: Owner, builder: Any, cm: Any, replay_start: torch.Tensor | None
) -> tuple[DecodeBatch, Member] | None:
    """The batch and the group of a build, or None where vLLM's build stays: prefill in it, or nothing at all.

    Args:
        cm: vLLM's ``CommonAttentionMetadata``.
        replay_start: what vLLM passes to build.
    """
    causal = cm.causal
    if not isinstance(causal, bool) or not (causal or builder.is_dspark):
        return None
    if getattr(builder, "pcp_size", 1) > 1:  # its build cuts the slot mapping up
        return None
    _, _, rows, prefill_rows = owner.split(cm, decode_threshold=builder.decode_threshold)
    num_tokens = cm.slot_mapping.shape[0]  # rows and what pads them
    if prefill_rows or not 0 < rows <= num_tokens or _is_mostly_padding(rows, num_tokens):
        return None
    replay_start = _for_all_requests(replay_start, cm.seq_lens.shape[0])
    batch = DecodeBatch(cm.query_start_loc, cm.seq_lens, num_tokens, replay_start)
    return batch, Member(owner, builder, GroupInputs(cm.block_table_tensor, cm.slot_mapping), causal)


def draft_update(owner: Owner, builder: Any, metadata: Any) -> tuple[DecodeBatch, Member] | None:
    """The batch and the group of a draft update, or None where vLLM's update stays."""
    num_tokens = metadata.slot_mapping.shape[0]
    if metadata.num_decode_tokens == 0 or _is_mostly_padding(metadata.num_decode_tokens, num_tokens):
        return None
    indices, noncausal = metadata.decode_swa_indices, builder.decode_swa_indices_noncausal
    causal = noncausal is None or indices.data_ptr() != noncausal.data_ptr()
    if causal and indices.data_ptr() != builder.decode_swa_indices.data_ptr():
        return None
    replay_start = metadata.replay_start
    if replay_start is builder.no_replay_start:
        replay_start = None
    replay_start = _for_all_requests(replay_start, metadata.seq_lens.shape[0])
    batch = DecodeBatch(metadata.query_start_loc, metadata.seq_lens, num_tokens, replay_start)
    return batch, Member(owner, builder, GroupInputs(metadata.block_table, metadata.slot_mapping), causal)


def _is_mostly_padding(rows: int, slots: int) -> bool:
    return slots > max(_FEW_SLOTS, _MOST_SLOTS_A_ROW * rows)


def _for_all_requests(replay_start: torch.Tensor | None, num_requests: int) -> torch.Tensor | None:
    """``replay_start`` over padding requests too. vLLM passes on the real ones' part of its buffer for all,
    and a padding request has no row that reads its entry.

    Raises:
        ValueError: the buffer ends before.
    """
    if replay_start is None or replay_start.shape[0] == num_requests:
        return replay_start
    room = replay_start.untyped_storage().nbytes() // replay_start.element_size()
    if replay_start.storage_offset() + num_requests > room:
        raise ValueError(f"replay_start has room for {room} requests: it must have room for {num_requests}")
    return replay_start.as_strided((num_requests,), (1,))


def metadata_of(
    member: Member, cm: Any, replay_start: torch.Tensor | None, views: GroupMetadata, token_map: torch.Tensor
) -> Any:
    """What the builder's ``build`` returns for a decode batch that the kernel has built.

    Args:
        cm, replay_start: as passed to build.
        views: the group's views, of ``cm.slot_mapping``'s rows.
        token_map: [>= rows] int32; served unless a builder ahead has made one for this batch.
    """
    builder, rows = member.builder, cm.num_actual_tokens
    if cm._token_to_req_indices_cache is None:
        cm._token_to_req_indices_cache = token_map
    padded = cm.slot_mapping.shape[0] != rows
    fields = {
        "block_table": cm.block_table_tensor,
        "slot_mapping": cm.slot_mapping,
        "block_size": builder.block_size,
        "seq_lens": cm.seq_lens,
        "query_start_loc": cm.query_start_loc,
        "query_start_loc_cpu": cm.query_start_loc_cpu,
        "is_valid_token": views.is_valid,
        "token_to_req_indices": cm.token_to_req_indices(builder.token_to_req_indices),
        "decode_swa_indices": views.indices[:rows] if padded else views.indices,
        "decode_swa_lens": views.lengths[:rows] if padded else views.lengths,
        "decode_swa_width": views.indices.shape[-1],
        "replay_start": builder.no_replay_start if replay_start is None else replay_start,
        "num_decodes": cm.num_reqs,
        "num_decode_tokens": rows,
        "max_decode_query_len": min(cm.max_query_len, builder.decode_threshold),
    }
    if views.ragged_indices is not None and views.ragged_indptr is not None:
        width = views.indices.shape[-1]
        fields["decode_swa_ragged_indices"] = (
            views.ragged_indices[: rows * width] if padded else views.ragged_indices
        )
        fields["decode_swa_ragged_indptr"] = (
            views.ragged_indptr[: rows + 1] if padded else views.ragged_indptr
        )
    return member.owner.metadata(**fields, **_tile_schedules(builder, rows))


def finish_update(builder: Any, metadata: Any) -> None:
    """What vLLM's draft update does beside its launches: each step plans its tiles anew."""
    for field, schedule in _tile_schedules(builder, metadata.num_decode_tokens).items():
        setattr(metadata, field, schedule)
    metadata.flashinfer_sparse_index_cache.clear()


def _tile_schedules(builder: Any, rows: int) -> dict[str, Any]:
    return {f"tile_sched_{name}": plan for name, plan in builder.build_tile_scheduler(rows).items()}
