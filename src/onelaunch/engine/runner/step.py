"""One step of the engine on the device, in pieces: nothing in them is read back by the host.

    begin            how many rows each request has
    target metadata  <- one launch, or the usual build
    target           the model over all rows; tokens verified and sampled; the draft's context written
    draft metadata   <- one launch, or the usual build
    draft            the draft block, its tokens from left to right

The pieces of a step of decodes are captured in CUDA graphs: in one when metadata is one launch; between the
metadata's launches when it is built the usual way. A step with prefills runs the same pieces without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.builder import StepBuilder
from onelaunch.engine.cache.groups import CacheGroup
from onelaunch.engine.cache.memory import PagedMemory, Rows
from onelaunch.engine.config import EngineConfig
from onelaunch.engine.model.target import Model
from onelaunch.engine.runner.inputs import StepInputs
from onelaunch.engine.runner.state import RequestState
from onelaunch.engine.sampling import Verifier, allocate_drafts, probabilities, sample, uniform
from onelaunch.engine.sampling.noise import DRAFT
from onelaunch.metadata import StepMetadata
from onelaunch.syncs import not_on_gpu


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a step. Metadata builds are told apart: they join a graph only when they are one launch."""

    run: Callable[[], None]
    is_metadata: bool = False


@dataclass(slots=True, eq=False)
class StepTensors:
    """What the pieces of one step hand on to each other. All of it stays at its address when it is captured.

    Attributes:
        num_requests, num_rows: R and T, padding included.
        prompt_tokens: [P] int64, of prefills; None in a step of decodes.
        filters: a request samples with top-k or top-p, which takes a sort of the vocabulary.
        num_drafts: [R] int64, verified of each request.
        token_ids: [R, k + 1] int64, the tokens the step gives each request; -1 after them.
        num_accepted: [R] int64, of its drafts.
        logits: [R, k + 1, vocab] float32, of the rows that were sampled from.
        hidden: [T, hidden], of all rows.
    """

    inputs: StepInputs
    num_requests: int
    num_rows: int
    prompt_tokens: Tensor | None = None
    filters: bool = False
    num_drafts: Tensor | None = None
    query_start_loc: Tensor | None = None
    seq_lens: Tensor | None = None
    metadata: StepMetadata | None = None
    hidden: Tensor | None = None
    logits: Tensor | None = None
    token_ids: Tensor | None = None
    num_accepted: Tensor | None = None
    anchor: Tensor | None = None
    draft_start_loc: Tensor | None = None
    draft_lens: Tensor | None = None
    draft_metadata: StepMetadata | None = None


class Step:
    """Runs steps of one engine: its model, memory, builders and state.

    Args:
        groups: cache groups, in the order of ``StepInputs.tables``.
        target_builder, draft_builder: of the window groups and of the draft's; the latter None without
            drafting.
    """

    def __init__(
        self,
        config: EngineConfig,
        model: Model,
        memory: PagedMemory,
        groups: tuple[CacheGroup, ...],
        target_builder: StepBuilder,
        draft_builder: StepBuilder | None,
        state: RequestState,
        verifier: Verifier,
    ) -> None:
        self._model, self._memory, self._state, self._verifier = model, memory, state, verifier
        self._target_builder, self._draft_builder = target_builder, draft_builder
        self._index_of = {group.name: index for index, group in enumerate(groups)}
        self._num_drafts = config.num_draft_tokens
        self._adaptive = (
            config.speculative is not None and config.speculative.adaptive_verification is not None
        )
        self._eos, self._noise = config.model.eos_token_id, config.model.noise_token_id

    def pieces(self, tensors: StepTensors) -> list[Piece]:
        """The step as functions, to be called in order."""
        pieces = [
            Piece(lambda: self._begin(tensors)),
            Piece(lambda: self._build_target(tensors), is_metadata=True),
            Piece(lambda: self._run_target(tensors)),
        ]
        if self._draft_builder is not None:
            pieces += [
                Piece(lambda: self._build_draft(tensors), is_metadata=True),
                Piece(lambda: self._run_draft(tensors)),
            ]
        return pieces

    def _begin(self, t: StepTensors) -> None:
        """Rows of each request; with adaptive verification the confidence of its drafts decides."""
        inputs = t.inputs
        t.num_drafts = torch.where(inputs.is_prefill, 0, (inputs.num_rows - 1).clamp(min=0))
        query_lens = inputs.num_rows
        if self._adaptive:
            confidence = self._state.confidence[inputs.row]
            t.num_drafts = allocate_drafts(confidence, t.num_drafts, inputs.draft_budget)
            query_lens = torch.where(inputs.is_prefill, query_lens, query_lens.clamp(max=1) + t.num_drafts)
        t.query_start_loc = _start_loc(query_lens)
        t.seq_lens = (inputs.num_computed + query_lens).int()

    def _build_target(self, t: StepTensors) -> None:
        assert t.query_start_loc is not None and t.seq_lens is not None
        t.metadata = self._build(self._target_builder, t.query_start_loc, t.seq_lens, t.num_rows, t.inputs)

    def _build(
        self,
        builder: StepBuilder,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        num_rows: int,
        inputs: StepInputs,
    ) -> StepMetadata:
        tables = {
            group.name: GroupInputs(inputs.tables[self._index_of[group.name]]) for group in builder.groups
        }
        with not_on_gpu(builder.device):
            return builder.build(DecodeBatch(query_start_loc, seq_lens, num_rows), tables)

    def _run_target(self, t: StepTensors) -> None:
        assert t.metadata is not None and t.query_start_loc is not None and t.seq_lens is not None
        inputs, state = t.inputs, self._state
        rows = self._target_rows(t)
        self._memory.begin(rows, t.metadata, inputs.tables)
        t.hidden, read = self._model(rows.token_ids, rows.positions, self._memory)

        # A request is sampled from at its last row; a verified one at each of its rows.
        steps = torch.arange(self._num_drafts + 1, device=t.hidden.device)
        last = t.query_start_loc[1:, None].long() - 1
        ahead = (t.num_drafts[:, None] - steps).clamp(min=0)  # type: ignore[index]
        sampled = (last - ahead).clamp(min=0)
        t.logits = self._model.logits(t.hidden[sampled])
        positions = t.seq_lens.long() - t.num_drafts  # type: ignore[operator]  # of the first token sampled
        t.token_ids, t.num_accepted = self._sample(t, positions)
        new = t.token_ids.gather(1, t.num_accepted[:, None]).squeeze(1)
        if t.prompt_tokens is not None:
            new = torch.where(inputs.known_token < 0, new, inputs.known_token)
        state.last_token.index_copy_(0, inputs.row, new)

        if self._draft_builder is not None:
            context = self._model.draft.context(read)
            keys = self._model.draft.context_keys(context, self._model.rotary.turns(rows.positions))
            self._memory.write_context(keys, rows, inputs.tables)
            t.anchor = new
            block = torch.where(inputs.samples, self._num_drafts, 0)
            t.draft_start_loc = _start_loc(block)
            t.draft_lens = (positions + t.num_accepted + block).int()

    def _target_rows(self, t: StepTensors) -> Rows:
        """Token and position of every row: a prefill's from the host, a decode's from the state."""
        assert t.metadata is not None and t.query_start_loc is not None
        inputs, state = t.inputs, self._state
        requests = t.metadata.token_to_request.long()
        start_loc = t.query_start_loc.long()
        row = torch.arange(t.num_rows, device=requests.device)
        is_row = row < start_loc[-1]
        offset = torch.where(is_row, row - start_loc[requests], 0)
        where = inputs.row[requests]
        token_ids = state.last_token[where]
        if self._num_drafts:
            drafted = state.draft_tokens[where, (offset - 1).clamp(0, self._num_drafts - 1)]
            token_ids = torch.where(offset == 0, token_ids, drafted)
        if t.prompt_tokens is not None:
            place = (inputs.prompt_start[requests] + offset).clamp(max=len(t.prompt_tokens) - 1)
            token_ids = torch.where(inputs.is_prefill[requests], t.prompt_tokens[place], token_ids)
        return Rows(
            token_ids=torch.where(is_row, token_ids, 0),
            positions=torch.where(is_row, inputs.num_computed[requests] + offset, 0),
            requests=requests,
            is_row=is_row,
        )

    def _sample(self, t: StepTensors, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Verify each request's drafts and sample the token after the accepted ones."""
        assert t.logits is not None and t.num_drafts is not None
        inputs, state, steps = t.inputs, self._state, self._num_drafts + 1
        at = positions[:, None] + torch.arange(steps, device=positions.device)
        logits = t.logits.clone()
        too_early = at < inputs.eos_from[:, None]
        logits[..., self._eos] = logits[..., self._eos].masked_fill(too_early, -torch.inf)
        probs = probabilities(
            logits.flatten(0, 1),
            inputs.temperature.repeat_interleave(steps),
            inputs.top_k.repeat_interleave(steps) if t.filters else None,
            inputs.top_p.repeat_interleave(steps) if t.filters else None,
        ).unflatten(0, (-1, steps))
        draft_probs = None if state.draft_probs is None else state.draft_probs[inputs.row]
        verified = self._verifier.verify(
            state.draft_tokens[inputs.row], draft_probs, probs, t.num_drafts, inputs.seed, positions
        )
        return verified.token_ids, verified.num_accepted

    def _build_draft(self, t: StepTensors) -> None:
        assert self._draft_builder is not None and t.draft_start_loc is not None and t.draft_lens is not None
        num_rows = t.num_requests * self._num_drafts
        t.draft_metadata = self._build(
            self._draft_builder, t.draft_start_loc, t.draft_lens, num_rows, t.inputs
        )

    def _run_draft(self, t: StepTensors) -> None:
        assert t.draft_metadata is not None and t.anchor is not None and t.draft_lens is not None
        inputs, state, draft, k = t.inputs, self._state, self._model.draft, self._num_drafts
        # Requests that sample come first, so each has the k rows of its place.
        offset = torch.arange(k, device=t.anchor.device)
        is_row = inputs.samples[:, None].expand(-1, k)
        start = t.draft_lens[:, None].long() - k
        positions = torch.where(is_row, start + offset, 0)
        tokens = torch.where(offset == 0, t.anchor[:, None], self._noise)
        requests = torch.arange(t.num_requests, device=t.anchor.device)[:, None].expand(-1, k)
        rows = Rows(*(part.flatten() for part in (tokens, positions, requests, is_row)))
        self._memory.begin(rows, t.draft_metadata, inputs.tables)
        turns = self._model.rotary.turns(rows.positions)
        hidden = draft(self._model.embed(rows.token_ids), turns, self._memory)

        base = self._model.draft_logits(hidden).unflatten(0, (-1, k))
        previous, before, chosen, probs = t.anchor, [], [], []
        for step in range(k):
            logits = base[:, step] + draft.bias(previous)
            before.append(previous)
            if state.draft_probs is None:
                previous = logits.argmax(-1)
            else:
                filters = (inputs.top_k, inputs.top_p) if t.filters else ()
                probs.append(probabilities(logits, inputs.temperature, *filters))
                u = uniform(inputs.seed, start[:, 0], DRAFT + step, base.shape[-1])
                previous = sample(probs[-1], u)
            chosen.append(previous)
        state.draft_tokens.index_copy_(0, inputs.row, torch.stack(chosen, 1))
        if state.draft_probs is not None:
            state.draft_probs.index_copy_(0, inputs.row, torch.stack(probs, 1))
        if self._adaptive:
            confidence = draft.confidence(hidden.unflatten(0, (-1, k)), torch.stack(before, 1))
            state.confidence.index_copy_(0, inputs.row, confidence)


def _start_loc(lens: Tensor) -> Tensor:
    """[R] lengths -> [R + 1] int32 where each begins."""
    return torch.nn.functional.pad(lens.cumsum(0), (1, 0)).int()
