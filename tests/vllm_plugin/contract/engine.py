"""vLLM's own window builders, made by hand, and the calls that its model runner makes on them.

Importable only where vLLM is. No GPU is needed: vLLM's Triton kernels run in the interpreter, as ours do.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.runtime.interpreter import GridExecutor
from vllm.models.deepseek_v41.nvidia.flashinfer_sparse import DeepseekSparseSWAFlashInferMetadataBuilder
from vllm.models.deepseek_v41.nvidia.flashmla import DeepseekSparseSWAFlashMLAMetadataBuilder
from vllm.models.deepseek_v41.sparse_mla import DeepseekV41SparseSWAMetadataBuilder
from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWAMetadataBuilder
from vllm.v1.worker.gpu import attn_utils
from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator
from vllm.v1.worker.utils import AttentionGroup

# platforms/rocm.py asks for the GPU's architecture when it is imported.
with mock.patch("torch.cuda.get_device_properties", lambda *_: SimpleNamespace(gcnArchName="gfx942")):
    from vllm.models.deepseek_v4.amd import rocm as rocm_v4
    from vllm.models.deepseek_v41.amd import rocm as rocm_v41

from onelaunch._triton import interpreted

DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")

BASE = DeepseekSparseSWAMetadataBuilder
V41 = DeepseekV41SparseSWAMetadataBuilder
FLASHMLA = DeepseekSparseSWAFlashMLAMetadataBuilder
FLASHINFER = DeepseekSparseSWAFlashInferMetadataBuilder
ROCM = rocm_v41.DeepseekV41ROCMAiterSparseSWAMetadataBuilder
ROCM_V4 = rocm_v4.DeepseekV4ROCMAiterSparseSWAMetadataBuilder
RAGGED = (ROCM, ROCM_V4)

WINDOW = 128
DRAFT_WIDTH = 192
THRESHOLD = 7  # rows of a request: one sampled token and six drafted ones
MAX_TOKENS = 64
MAX_REQUESTS = 12


def make_builder(cls: type, block_size: int = 64) -> Any:
    """A builder with what its build reads, and no engine around it."""
    builder = object.__new__(cls)
    zeros = lambda *shape, dtype=torch.int32: torch.zeros(shape, dtype=dtype, device=DEVICE)  # noqa: E731
    vars(builder).update(
        device=DEVICE,
        decode_threshold=THRESHOLD,
        window_size=WINDOW,
        block_size=block_size,
        is_dspark=True,
        noncausal_index_width=DRAFT_WIDTH,
        _max_tokens=MAX_TOKENS,
        max_image_tokens=0,
        prefill_index_width=WINDOW,
        max_model_len=2**20,
        max_num_batched_tokens=MAX_TOKENS,
        _layer_types=set(),
        pcp_size=1,
        pcp_rank=0,
        no_replay_start=zeros(MAX_REQUESTS + 1),
        token_to_req_indices=zeros(MAX_TOKENS),
        is_valid_token=zeros(MAX_TOKENS, dtype=torch.bool),
        decode_swa_indices=zeros(MAX_TOKENS, 1, WINDOW),
        decode_swa_lens=zeros(MAX_TOKENS),
        decode_swa_indices_noncausal=None,
        prefill_swa_indices=zeros(MAX_TOKENS, 1, WINDOW),
        prefill_swa_lens=zeros(MAX_TOKENS),
        _decode_topk_lens=zeros(MAX_TOKENS),
        _decode_seq_lens=zeros(MAX_TOKENS),
        decode_swa_ragged_indices_buffer=zeros(MAX_TOKENS * DRAFT_WIDTH),
        decode_swa_ragged_indptr_buffer=zeros(MAX_TOKENS + 1),
        _use_aiter_sparse_mla=False,
    )
    return builder


@dataclass
class Batch:
    """One step's inputs, in persistent buffers, as the runner passes them on.

    Attributes:
        query_lens: rows of each request, those of padding requests (0) last.
        padded_rows: rows past the last request's.
        eager: rows that pad are no rows of the batch, only of its slot mapping.
    """

    query_lens: Sequence[int]
    padded_rows: int = 0
    eager: bool = False
    groups: int = 1
    block_size: int = 64
    seed: int = 0
    replay: bool = False
    missing_slots: bool = True
    longest: int = 2000
    tensors: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        rows, num_reqs = sum(self.query_lens), len(self.query_lens)
        total = rows + self.padded_rows
        starts = [0]
        for count in self.query_lens:
            starts.append(starts[-1] + count)
        before = [
            rng.choice((0, rng.randint(0, min(300, self.longest)), rng.randint(0, self.longest)))
            for _ in self.query_lens
        ]
        int32 = lambda values: torch.tensor(values, dtype=torch.int32, device=DEVICE)  # noqa: E731
        columns = -(-(self.longest + 64) // self.block_size)
        slots = torch.full((self.groups, total), -1, dtype=torch.int64)
        for group in range(self.groups):
            for row in range(rows):
                if not (self.missing_slots and rng.random() < 0.1):
                    slots[group, row] = rng.randrange(2**40)
        seq_lens = [b + q for b, q in zip(before, self.query_lens, strict=True)]
        self.tensors = SimpleNamespace(
            query_start_loc=int32(starts),
            query_start_loc_cpu=torch.tensor(starts, dtype=torch.int32),
            seq_lens=int32(seq_lens),
            seq_lens_cpu=torch.tensor(seq_lens, dtype=torch.int32),
            replay_start=int32([rng.randint(0, b) for b in before]) if self.replay else None,
            block_tables=[
                torch.tensor(
                    [
                        [rng.randrange(1_000_000) if rng.random() < 0.95 else 0 for _ in range(columns)]
                        for _ in range(num_reqs)
                    ],
                    dtype=torch.int32,
                    device=DEVICE,
                ).reshape(num_reqs, columns)
                for _ in range(self.groups)
            ],
            slot_mappings=slots.to(DEVICE),
        )

    @property
    def num_tokens(self) -> int:
        rows = sum(self.query_lens)
        return rows if self.eager else rows + self.padded_rows


class Engine:
    """Window groups as the runner has them: one builder each, built in turn by ``build_attn_metadata``."""

    def __init__(self, classes: Sequence[type], *, causal: bool = True, block_size: int = 64) -> None:
        self.causal = causal
        self.builders = [make_builder(cls, block_size) for cls in classes]
        self.attn_groups = [
            [AttentionGroup(mock.Mock(), [f"layer.{i}"], mock.Mock(), i, metadata_builders=[builder])]
            for i, builder in enumerate(self.builders)
        ]
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[None] * len(classes))

    def build(self, batch: Batch, **changes: Any) -> list[Any]:
        """Each group's metadata, by vLLM's ``build_attn_metadata``."""
        t = batch.tensors
        call: dict[str, Any] = dict(
            attn_groups=self.attn_groups,
            num_reqs=len(batch.query_lens),
            num_tokens=batch.num_tokens,
            query_start_loc_gpu=t.query_start_loc,
            query_start_loc_cpu=t.query_start_loc_cpu,
            max_query_len=max(batch.query_lens),
            seq_lens=t.seq_lens,
            max_seq_len=batch.longest,
            block_tables=t.block_tables,
            slot_mappings=t.slot_mappings,
            kv_cache_config=self.kv_cache_config,
            seq_lens_cpu_upper_bound=t.seq_lens_cpu,
            causal=self.causal,
            model_specific_attn_metadata=None if t.replay_start is None else Replay(t.replay_start),
        )
        call.update(changes)
        built = attn_utils.build_attn_metadata(**call)
        return [built[f"layer.{i}"] for i in range(len(self.builders)) if f"layer.{i}" in built]

    def update(self, metadata: Sequence[Any]) -> None:
        """Refresh the metadata in place, as a speculator does between draft steps."""
        speculator = SimpleNamespace(attn_groups=self.attn_groups, block_tables=SimpleNamespace(cp_size=1))
        by_layer = {f"layer.{i}": value for i, value in enumerate(metadata)}
        DraftModelSpeculator._update_draft_decode_metadata(speculator, by_layer, 0)


class Replay:
    """vLLM's ReplayAttnMetadata, whose module needs a GPU's packages."""

    def __init__(self, replay_start: torch.Tensor) -> None:
        self.replay_start = replay_start

    def get_extra_common_attn_kwargs(self, group: int, num_reqs: int) -> dict[str, Any]:
        return {}

    def get_extra_attn_kwargs(self, builder: Any, num_reqs: int) -> dict[str, Any]:
        return {"replay_start": self.replay_start[:num_reqs]} if isinstance(builder, BASE) else {}


# PyTorch operations that are a launch on a GPU.
_WRITING = ("ge", "fill_", "copy_", "cumsum", "clamp", "index_select", "zero_", "add")


@contextmanager
def counted() -> Iterator[list[str]]:
    """Names of what is launched inside: Triton kernels, and PyTorch operations that write a tensor."""
    if not interpreted():
        pytest.skip("launches are counted in Triton's interpreter")
    names: list[str] = []
    interpret = GridExecutor.__call__

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            if name in _WRITING:
                names.append(name)
            return func(*args, **(kwargs or {}))

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(self.fn.__name__)
        with _disable_current_modes():  # what the interpreter does inside is no launch
            return interpret(self, *args, **kwargs)

    with mock.patch.object(GridExecutor, "__call__", launch), Mode():
        yield names


def assert_same(expected: Sequence[Any], got: Sequence[Any]) -> None:
    """Every field of every group's metadata equal; addresses aside, as each engine has its own buffers."""
    assert len(expected) == len(got)
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        assert type(want) is type(have)
        for f in dataclasses.fields(want):
            a, b, where = getattr(want, f.name), getattr(have, f.name), f"group {number}: {f.name}"
            if not isinstance(a, torch.Tensor):
                made_anew = f.name.startswith("tile_sched") and type(a) is type(b)
                assert made_anew or a == b, where
                continue
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), where
            if f.name == "decode_swa_ragged_indices":  # entries past the last row's end are unspecified
                total = int(want.decode_swa_ragged_indptr[-1])
                a, b = a[:total], b[:total]
            assert torch.equal(a, b), f"{where}: {a} {b}"
