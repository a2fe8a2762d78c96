"""Modules with the names and shapes of vLLM's that are patched, which build by onelaunch's own reference.

For the plug-in's own logic where vLLM is not installed. What vLLM itself does is tested in ``contract``.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from machine import DEVICE
from onelaunch import reference
from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup

SPARSE_SWA = "vllm.v1.attention.backends.mla.sparse_swa"
ATTN_UTILS = "vllm.v1.worker.gpu.attn_utils"
SPECULATOR = "vllm.v1.worker.gpu.spec_decode.speculator"
MAX_TOKENS, MAX_REQUESTS, WINDOW, BLOCK_SIZE = 24, 8, 32, 16


@dataclass
class CommonAttentionMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor
    causal: Any = True
    seq_lens_cpu_upper_bound: Any = None
    positions: Any = None
    is_prefilling: Any = None
    mm_req_doc_ranges: Any = None
    _num_computed_tokens_cache: Any = None
    _token_to_req_indices_cache: Any = None

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)

    def token_to_req_indices(self, buffer):
        if self._token_to_req_indices_cache is None:
            self._token_to_req_indices_cache = compute_token_to_req_indices(
                self.query_start_loc, buffer, 0, self.num_actual_tokens
            )
        return self._token_to_req_indices_cache[: self.num_actual_tokens]


def compute_token_to_req_indices(query_start_loc, out, num_mapped_tokens, num_tokens):
    reference.token_to_request(DecodeBatch(query_start_loc, query_start_loc[1:], num_tokens), out)
    return out[:num_tokens]


def split_decodes_and_prefills(cm, decode_threshold):
    if cm.max_query_len <= decode_threshold:
        return cm.num_reqs, 0, cm.num_actual_tokens, 0
    return 0, cm.num_reqs, 0, cm.num_actual_tokens


@dataclass
class DeepseekSparseSWAMetadata:
    block_table: Any
    slot_mapping: Any
    block_size: int
    seq_lens: Any = None
    query_start_loc: Any = None
    query_start_loc_cpu: Any = None
    is_valid_token: Any = None
    token_to_req_indices: Any = None
    decode_swa_indices: Any = None
    decode_swa_lens: Any = None
    decode_swa_width: int = 0
    replay_start: Any = None
    num_decodes: int = 0
    num_decode_tokens: int = 0
    max_decode_query_len: int = 1
    tile_sched_swaonly: Any = None
    flashinfer_sparse_index_cache: dict = field(default_factory=dict)


class DeepseekSparseSWAMetadataBuilder:
    supports_draft_decode_metadata_update = True

    def __init__(self, max_tokens=MAX_TOKENS):
        def zeros(*shape, dtype=torch.int32):
            return torch.zeros(shape, dtype=dtype, device=DEVICE)

        self.device = DEVICE
        self.decode_threshold, self.window_size, self.block_size = 4, WINDOW, BLOCK_SIZE
        self.is_dspark, self.noncausal_index_width, self._max_tokens = True, 64, max_tokens
        self.no_replay_start, self.token_to_req_indices = zeros(MAX_REQUESTS), zeros(max_tokens)
        self.is_valid_token, self.decode_swa_lens = zeros(max_tokens, dtype=torch.bool), zeros(max_tokens)
        self.decode_swa_indices = zeros(max_tokens, 1, WINDOW)
        self.decode_swa_indices_noncausal = None

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False, replay_start=None):
        cm, rows = common_attn_metadata, common_attn_metadata.num_actual_tokens
        token_map = cm.token_to_req_indices(self.token_to_req_indices)
        replay_start = self.no_replay_start if replay_start is None else replay_start
        self._fill(cm, cm.block_table_tensor, replay_start, token_map)
        return DeepseekSparseSWAMetadata(
            block_table=cm.block_table_tensor,
            slot_mapping=cm.slot_mapping,
            block_size=self.block_size,
            seq_lens=cm.seq_lens,
            query_start_loc=cm.query_start_loc,
            query_start_loc_cpu=cm.query_start_loc_cpu,
            is_valid_token=self.is_valid_token[: cm.slot_mapping.shape[0]],
            token_to_req_indices=token_map,
            decode_swa_indices=self.decode_swa_indices[:rows],
            decode_swa_lens=self.decode_swa_lens[:rows],
            decode_swa_width=WINDOW,
            replay_start=replay_start,
            num_decodes=cm.num_reqs,
            num_decode_tokens=rows,
            max_decode_query_len=min(cm.max_query_len, self.decode_threshold),
        )

    def update_draft_decode_metadata(self, metadata):
        m = metadata
        compute_token_to_req_indices(m.query_start_loc, m.token_to_req_indices, 0, m.num_decode_tokens)
        self._fill(m, m.block_table, m.replay_start, m.token_to_req_indices)

    def build_tile_scheduler(self, num_decode_tokens):
        return {"swaonly": None}

    def _fill(self, batch, block_table, replay_start, token_map):
        buffers = GroupBuffers(
            self.is_valid_token, self.decode_swa_indices, self.decode_swa_lens, None, None, None
        )
        group = WindowGroup("fake", WINDOW, BLOCK_SIZE, ragged=False)
        rows, slots = token_map.shape[0], batch.slot_mapping
        inputs = GroupInputs(block_table, slots[:rows])
        decode = DecodeBatch(batch.query_start_loc, batch.seq_lens, rows, replay_start)
        reference.build_group(group, inputs, decode, token_map, buffers)
        torch.ge(slots, 0, out=self.is_valid_token[: slots.shape[0]])


def build_attn_metadata(
    attn_groups,
    num_reqs,
    num_tokens,
    query_start_loc_gpu,
    query_start_loc_cpu,
    max_query_len,
    seq_lens,
    max_seq_len,
    block_tables,
    slot_mappings,
    kv_cache_config,
    seq_lens_cpu_upper_bound=None,
    dcp_local_seq_lens=None,
    dcp_local_seq_lens_cpu_upper_bound=None,
    positions=None,
    is_prefilling=None,
    mm_req_doc_ranges=None,
    model_specific_attn_metadata=None,
    for_cudagraph_capture=False,
    causal=True,
    rswa_prefix_lens=None,
    ubatch_idx=0,
    fast_prefill=None,
    req_idx=None,
):
    token_map, built = None, {}
    for i, groups in enumerate(attn_groups):
        cm = CommonAttentionMetadata(
            query_start_loc_gpu,
            query_start_loc_cpu,
            seq_lens,
            num_reqs,
            num_tokens,
            max_query_len,
            max_seq_len,
            block_tables[i],
            slot_mappings[i],
            causal,
            _token_to_req_indices_cache=token_map,
        )
        for group in groups:
            built[i] = group.get_metadata_builder().build(0, cm)
        token_map = cm._token_to_req_indices_cache
    return built


class DraftModelSpeculator:
    def _update_draft_decode_metadata(self, attn_metadata, num_reqs):
        for groups in self.attn_groups:
            for group in groups:
                group.get_metadata_builder().update_draft_decode_metadata(attn_metadata[group.layer_names[0]])


_MODULES = {
    SPARSE_SWA: (
        CommonAttentionMetadata,
        DeepseekSparseSWAMetadata,
        DeepseekSparseSWAMetadataBuilder,
        split_decodes_and_prefills,
        compute_token_to_req_indices,
    ),
    ATTN_UTILS: (build_attn_metadata,),
    SPECULATOR: (DraftModelSpeculator,),
}

# What is patched, beside build_attn_metadata, and as it was.
PATCHED = [
    (DeepseekSparseSWAMetadataBuilder, "build"),
    (DeepseekSparseSWAMetadataBuilder, "update_draft_decode_metadata"),
    (DraftModelSpeculator, "_update_draft_decode_metadata"),
]
OWN = [vars(holder)[name] for holder, name in PATCHED]


def functions() -> list[object]:
    """All that is patched, as it is now."""
    module = sys.modules[ATTN_UTILS]
    return [*(vars(holder)[name] for holder, name in PATCHED), module.build_attn_metadata]


def values(built) -> list[object]:
    """All that a build returned, tensors as lists."""
    return [
        value.tolist() if isinstance(value, torch.Tensor) else value
        for metadata in built.values()
        for value in (getattr(metadata, f.name) for f in dataclasses.fields(metadata))
    ]


def warnings(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def modules(version: str = "0.33.0") -> dict[str, ModuleType]:
    """The modules by name, to be put into ``sys.modules``."""
    vllm = ModuleType("vllm")
    vllm.__version__ = version  # type: ignore[attr-defined]
    made = {"vllm": vllm}
    for name, contents in _MODULES.items():
        made[name] = ModuleType(name)
        for item in contents:
            setattr(made[name], item.__name__, item)
    return made


class Engine:
    """Window groups, and a batch of requests with 3, 1 and no rows."""

    def __init__(self, groups: int = 2, max_tokens: int = MAX_TOKENS) -> None:
        self.builders = [DeepseekSparseSWAMetadataBuilder(max_tokens) for _ in range(groups)]
        self.attn_groups = [
            [
                SimpleNamespace(
                    get_metadata_builder=lambda ubatch_idx=0, builder=builder: builder,
                    kernel_block_size=None,
                    layer_names=[i],
                )
            ]
            for i, builder in enumerate(self.builders)
        ]
        self.query_start_loc = torch.tensor([0, 3, 4, 4], dtype=torch.int32, device=DEVICE)
        self.seq_lens = torch.tensor([40, 9, 0], dtype=torch.int32, device=DEVICE)
        blocks = torch.arange(1, 13, dtype=torch.int32, device=DEVICE).reshape(3, 4)
        self.block_tables = [blocks + 100 * i for i in range(groups)]
        slots = [[5, 6, 7, 9, -1], [5, -1, 7, 9, -1]] * groups
        self.slot_mappings = torch.tensor(slots[:groups], device=DEVICE)
        self.query_start_loc_cpu = self.query_start_loc.cpu()
        self.num_tokens = 5

    def pad(self, slots: int, rows: int) -> None:
        """Batches of so many slots from here on, and of ``rows``: the rest pads the slots alone."""
        padding = self.slot_mappings.new_full((len(self.builders), slots), -1)
        padding[:, :4] = self.slot_mappings[:, :4]
        self.slot_mappings, self.num_tokens = padding, rows

    def build(self):
        """Each group's metadata, by whatever ``build_attn_metadata`` is now."""
        return sys.modules[ATTN_UTILS].build_attn_metadata(
            attn_groups=self.attn_groups,
            num_reqs=3,
            num_tokens=self.num_tokens,
            query_start_loc_gpu=self.query_start_loc,
            query_start_loc_cpu=self.query_start_loc_cpu,
            max_query_len=3,
            seq_lens=self.seq_lens,
            max_seq_len=64,
            block_tables=self.block_tables,
            slot_mappings=self.slot_mappings,
            kv_cache_config=None,
        )

    def update(self, metadata) -> None:
        speculator = SimpleNamespace(attn_groups=self.attn_groups)
        DraftModelSpeculator._update_draft_decode_metadata(speculator, metadata, 3)
