"""Runs scheduled steps: sends their inputs, picks a graph or none, and reads their tokens back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onelaunch.builder import StepBuilder
from onelaunch.engine.cache.groups import CacheGroup
from onelaunch.engine.cache.memory import PagedMemory
from onelaunch.engine.cache.tables import BlockTables
from onelaunch.engine.config import EngineConfig
from onelaunch.engine.model.target import Model
from onelaunch.engine.outputs import TokenLogprobs
from onelaunch.engine.runner.graphs import DecodeGraphs, capture_sizes
from onelaunch.engine.runner.inputs import InputBuffer, prompt_tokens
from onelaunch.engine.runner.logprobs import prompt_logprobs, sampled_logprobs
from onelaunch.engine.runner.state import RequestState
from onelaunch.engine.runner.step import Step, StepTensors
from onelaunch.engine.sampling import Verifier
from onelaunch.engine.scheduler import Scheduled, split_decodes_and_prefills
from onelaunch.groups import WindowGroup
from onelaunch.launches import counting
from onelaunch.syncs import allowed, policing


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step gave each request of its batch, on the host.

    Attributes:
        token_ids: [R, k + 1] int64; -1 after the tokens of a request.
        num_accepted, num_drafts: [R] int64.
        logprobs: a request's new tokens' each, where asked for.
        prompt_logprobs: of a prefill's rows, for the token after each, where asked for.
    """

    token_ids: NDArray[np.int64]
    num_accepted: NDArray[np.int64]
    num_drafts: NDArray[np.int64]
    logprobs: list[tuple[TokenLogprobs, ...]]
    prompt_logprobs: list[tuple[TokenLogprobs, ...]]


class Runner:
    """The device side of an engine.

    Attributes:
        backend, reason: how decode metadata is built, and why.
        launches_per_step: what the last step of decodes launched, by kernel: metadata and the attention
            readers.
    """

    def __init__(
        self, config: EngineConfig, model: Model, groups: tuple[CacheGroup, ...], tables: BlockTables
    ) -> None:
        self._config, self._tables = config, tables
        device, k = config.device, config.num_draft_tokens
        shape = config.model
        self._builders = [
            self._builder([g for g in groups if g.name.startswith("window.")], config.max_num_batched_tokens)
        ]
        if k:
            draft_groups = [group for group in groups if group.name.startswith("draft.")]
            self._builders.append(self._builder(draft_groups, config.max_num_seqs * k, draft_tokens=k))
        self.backend, self.reason = self._builders[0].backend, self._builders[0].reason
        memory = PagedMemory(
            model, groups, config.num_blocks, config.block_size, config.attention, self.backend
        )
        spec = config.speculative
        self._model = model
        self._state = RequestState.allocate(
            config.max_num_seqs,
            k,
            shape.vocab_size,
            device,
            probabilistic=spec is not None and spec.draft_sample_method == "probabilistic",
        )
        verifier = (
            Verifier("standard", 0)
            if spec is None
            else Verifier(spec.rejection_sample_method, k, spec.synthetic_acceptance_length)
        )
        draft_builder = self._builders[1] if k else None
        self._step = Step(
            config, model, memory, groups, self._builders[0], draft_builder, self._state, verifier
        )
        self._inputs = InputBuffer(tables, config.max_num_seqs, device)
        self._share = None if spec is None else spec.adaptive_verification
        self._graphs: DecodeGraphs | None = None
        self._warm = False
        self.launches_per_step: Counter[str] = Counter()

    def _builder(
        self, groups: Sequence[CacheGroup], max_rows: int, draft_tokens: int | None = None
    ) -> StepBuilder:
        config = self._config
        windows = [
            WindowGroup(
                group.name,
                config.model.sliding_window,
                config.block_size,
                causal=draft_tokens is None,
                draft_tokens=draft_tokens,
                ragged=config.attention == "ragged",
                make_slots=True,
            )
            for group in groups
        ]
        # The gate refuses a CPU; who asks for the one launch there gets it in Triton's interpreter.
        forced = config.monokernel and config.device.type == "cpu"
        return StepBuilder(
            windows,
            max_tokens=max_rows,
            max_requests=config.max_num_seqs,
            device=config.device,
            backend="kernel" if forced else "auto",
            monokernel=config.monokernel,
        )

    @torch.inference_mode()
    def warmup(self) -> None:
        """Compile the kernels of metadata, and capture the graphs of decode steps.

        From here on no piece of a step waits. The first prefill may still take longer than later ones: what
        PyTorch sets up at first use.
        """
        for builder in self._builders:
            builder.warmup()
        if self._config.device.type == "cuda":
            sizes = capture_sizes(self._config.max_num_seqs)
            if self._config.enforce_eager:
                self._run(self._tensors([], sizes[0]))
            else:
                self._graphs = DecodeGraphs(fuse_metadata=self.backend == "kernel")
                for size in reversed(sizes):
                    tensors = self._tensors([], size)
                    self._graphs.capture(tensors, self._step.pieces(tensors))
            torch.cuda.synchronize(self._config.device)
        self._warm = True

    @torch.inference_mode()
    def step(self, batch: Sequence[Scheduled]) -> StepResult:
        """Run one step; returns when its tokens are on the host."""
        with self._policed():
            _, prefills = split_decodes_and_prefills(batch)
            eager = self._graphs is None or prefills or _filters(batch)
            captured = None if eager else self._graphs.find(len(batch))  # type: ignore[union-attr]
            if captured is not None:
                self._send(batch, captured.tensors.num_requests)
                for run in captured.run:
                    run()
                tensors, launches = captured.tensors, captured.launches
            else:
                tensors = self._tensors(batch, len(batch))
                with counting() as launches:
                    self._run(tensors)
            if not prefills:
                self.launches_per_step = launches
            return self._read(batch, tensors)

    def _policed(self) -> AbstractContextManager[object]:
        mode = self._config.sync_check
        return policing(mode, self._config.device) if self._warm and mode != "off" else nullcontext()

    def _run(self, tensors: StepTensors) -> None:
        for piece in self._step.pieces(tensors):
            piece.run()

    def _send(self, batch: Sequence[Scheduled], num_requests: int) -> StepTensors:
        drafts = sum(scheduled.num_drafts for scheduled in batch)
        inputs = self._inputs.upload(batch, num_requests, self._budget(drafts))
        num_rows = self._num_rows(batch, num_requests)
        return StepTensors(inputs, num_requests, num_rows, filters=_filters(batch))

    def _num_rows(self, batch: Sequence[Scheduled], num_requests: int) -> int:
        """T: all rows that the step may have. A captured step has the most that its requests may need."""
        k = self._config.num_draft_tokens
        if not batch:
            return num_requests + self._budget(num_requests * k)
        decodes, prefills = split_decodes_and_prefills(batch)
        drafts = sum(scheduled.num_drafts for scheduled in decodes)
        return len(decodes) + self._budget(drafts) + sum(scheduled.num_rows for scheduled in prefills)

    def _budget(self, num_drafts: int) -> int:
        return num_drafts if self._share is None else -int(-num_drafts * self._share // 1)

    def _tensors(self, batch: Sequence[Scheduled], num_requests: int) -> StepTensors:
        tensors = self._send(batch, num_requests)
        prompts = prompt_tokens(batch)
        if prompts:
            tensors.prompt_tokens = self._to_device(torch.tensor(prompts))
        return tensors

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self._config.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self._config.device, non_blocking=True)

    def _read(self, batch: Sequence[Scheduled], t: StepTensors) -> StepResult:
        """The one place where the host waits for the device."""
        assert t.token_ids is not None and t.num_accepted is not None and t.num_drafts is not None
        count = len(batch)
        packed = torch.cat((t.token_ids, t.num_accepted[:, None], t.num_drafts[:, None]), 1)[:count]
        with allowed("a step's tokens"):
            values = packed.cpu().numpy()
            assert t.logits is not None and t.hidden is not None and t.query_start_loc is not None
            token_ids = values[:, :-2]
            logprobs = sampled_logprobs(batch, t.logits[:count], t.token_ids[:count], token_ids)
            of_prompts = prompt_logprobs(batch, self._model, t.hidden, t.query_start_loc)
        return StepResult(token_ids, values[:, -2], values[:, -1], logprobs, of_prompts)


def _filters(batch: Sequence[Scheduled]) -> bool:
    """A request samples with top-k or top-p."""
    return any(s.request.params.top_k or s.request.params.top_p < 1 for s in batch)
