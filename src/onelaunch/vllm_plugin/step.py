"""The window groups of one call of vLLM, built by one launch when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onelaunch.batch import DecodeBatch
from onelaunch.vllm_plugin import counters, guard, rehearsal, window
from onelaunch.vllm_plugin.plan import Kind, plan_of
from onelaunch.vllm_plugin.run import Run
from onelaunch.vllm_plugin.window import Member, Owner


class Step:
    """Groups that vLLM is about to build, or to update, in this order and from these inputs."""

    def __init__(self, kind: Kind, members: Sequence[Member]) -> None:
        self.kind, self.members = kind, members
        self.run: Run | None = None
        self.left_to_vllm = False
        self.batch: DecodeBatch

    def index_of(self, batch: DecodeBatch, member: Member) -> int | None:
        """Which of the groups a call is; None if it is none of them after all, or comes out of turn."""
        builders = [known.builder for known in self.members]
        if member.builder not in builders:
            return None
        index = builders.index(member.builder)
        known = self.members[index]
        if index == 0:
            self.batch = batch
        elif self.run is None:  # the first one makes the launch, as its token map is the one that is served
            return None
        fits = (
            _same_batch(self.batch, batch)
            and known.causal == member.causal
            and _same(known.inputs.block_table, member.inputs.block_table)
            and _same(known.inputs.slot_mapping, member.inputs.slot_mapping)
        )
        return index if fits else None


_open: dict[int, Step] = {}  # by the id of a builder, while the call that it is in runs


@contextmanager
def opened(kind: Kind, members: Sequence[Member]) -> Iterator[None]:
    """While this is open, the first build of ``members`` builds all of them."""
    step = Step(kind, members)
    for member in members:
        _open[id(member.builder)] = step
    try:
        yield
    finally:
        for member in members:
            _open.pop(id(member.builder), None)


def build(
    owner: Owner, builder: Any, cm: Any, replay_start: torch.Tensor | None, usual: Callable[[], Any]
) -> Any:
    """A builder's metadata of one batch: the kernel's, or ``usual()``, vLLM's own.

    Args:
        cm: vLLM's ``CommonAttentionMetadata``.
        replay_start: as passed to vLLM's build.
    """
    metadata = run = None
    token_map = cm._token_to_req_indices_cache
    try:
        found = None if guard.disarmed() else window.decode_build(owner, builder, cm, replay_start)
        if found is not None:
            batch, member = found
            run, index = _run("build", batch, member, cm.num_actual_tokens, cm)
        if run is not None and not run.compares:
            metadata = run.metadata(index, cm, replay_start)
    except Exception as error:
        failed(error)
        cm._token_to_req_indices_cache = token_map
        run = None
    if metadata is not None:
        counters.count("kernel")
        return metadata
    expected = usual()
    counters.count("vllm" if run is None else "verify")
    if run is not None:
        try:
            run.verify_build(index, cm, replay_start, expected)
        except Exception as error:
            guard.disarm(f"{type(error).__name__}: {error}")
    return expected


def update(owner: Owner, builder: Any, metadata: Any, usual: Callable[[], None]) -> None:
    """A builder's draft update, in place: by the kernel, or by ``usual()``, vLLM's own."""
    run = None
    try:
        found = None if guard.disarmed() else window.draft_update(owner, builder, metadata)
        if found is not None:
            batch, member = found
            run, index = _run("update", batch, member, metadata.num_decode_tokens, None)
        if run is not None and not run.compares:
            _map_tokens(owner, run, metadata)
            window.finish_update(builder, metadata)
            counters.count("kernel")
            return
    except Exception as error:
        failed(error)
        run = None
    usual()
    counters.count("vllm" if run is None else "verify")
    if run is not None:
        try:
            run.verify_update(index)
        except Exception as error:
            guard.disarm(f"{type(error).__name__}: {error}")


def failed(error: Exception) -> None:
    """A batch that does not fit is refused before anything is launched. Any other error ends it all."""
    if isinstance(error, ValueError):
        guard.stand_aside(str(error))
    else:
        guard.disarm(f"{type(error).__name__}: {error}")


def _map_tokens(owner: Owner, run: Run, metadata: Any) -> None:
    """vLLM's own token map of an update: past the last request it names that one, a build names request 0."""
    served = metadata.token_to_req_indices
    if run.mapped is None or not _same(run.mapped, served):
        rows = metadata.num_decode_tokens
        owner.map_tokens(metadata.query_start_loc, served, rows, rows)
        run.mapped = served


def _run(kind: Kind, batch: DecodeBatch, member: Member, rows: int, cm: Any) -> tuple[Run | None, int]:
    """The launch that a call takes part in, and its place there; (None, 0) for vLLM's own code."""
    step = _open.get(id(member.builder))
    if step is not None and step.kind == kind:
        index = step.index_of(batch, member)
        if index == 0:
            step.run = _start(kind, step.members, batch, rows, cm)
            step.left_to_vllm = step.run is None
        if step.left_to_vllm:  # each group alone would fare no better
            return None, 0
        if index is not None and step.run is not None:
            return step.run, index
    return _start(kind, (member,), batch, rows, cm), 0


def _start(kind: Kind, members: Sequence[Member], batch: DecodeBatch, rows: int, cm: Any) -> Run | None:
    """A launch of these groups, after a rehearsal if it is their first; None where vLLM's own code stays."""
    recording = capturing(batch.seq_lens.device)
    plan = plan_of(members, capturing=recording)
    if plan is None or plan.kernel is None:
        return None
    if kind not in plan.rehearsed and not recording:
        if cm is None:
            guard.stand_aside(
                f"a draft update of {len(members)} window groups that were not rehearsed together"
            )
            return None
        try:
            rehearsal.rehearse(plan, members, cm)
        except ValueError as error:
            plan.leave_to_vllm(f"a random batch is refused: {error}")
        if plan.kernel is None or guard.disarmed():
            return None
    trusted = plan.trusted(kind, batch.num_tokens, capturing=recording)
    if recording:
        if not trusted:
            return None
        if kind == "update":
            guard.recorded()
    return Run(plan, kind, batch, members, rows, compares=not trusted)


def capturing(device: torch.device) -> bool:
    """Whether a graph is being recorded: nothing may synchronise, compile or stay allocated then."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _same_batch(one: DecodeBatch, other: DecodeBatch) -> bool:
    return (
        one.num_tokens == other.num_tokens
        and _same(one.query_start_loc, other.query_start_loc)
        and _same(one.seq_lens, other.seq_lens)
        and _same(one.replay_start, other.replay_start)
    )


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two tensors are views of the same entries."""
    if one is other:
        return True
    if one is None or other is None:
        return False
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
