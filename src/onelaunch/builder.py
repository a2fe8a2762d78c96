"""``StepBuilder``: the metadata of a decode step, by one launch where the gate allows, else the usual way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import torch

from onelaunch import gate, reference
from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.checks import (
    check_batch,
    check_buffers,
    check_device,
    check_groups,
    check_inputs,
    check_int,
    check_tensor,
)
from onelaunch.groups import GroupBuffers, WindowGroup
from onelaunch.metadata import StepMetadata, StepViews
from onelaunch.platform import Platform, detect, on_device

_BACKENDS = ("auto", "kernel", "reference")

# Checked launches kept, by the tensors they were made for: an engine's capture sizes, many times over.
_KEPT_LAUNCHES = 1024


class StepBuilder:
    """Builds the metadata of decode steps for groups that share their batches.

    Outputs live in persistent buffers whose addresses never change; a build overwrites them and returns
    views. Nothing is read back to the host, so a build may be captured in a CUDA graph: capture after
    :meth:`warmup`, and change the contents of the captured inputs between replays.

    A speculative step has one builder for the target's groups and one for the draft's.

    Args:
        groups: the window groups, named apart.
        max_tokens: capacity in rows, padding included.
        max_requests: capacity in requests, padding included.
        device: where inputs and outputs live.
        backend: "auto" asks the gate; "kernel" forces the one-launch build (on a CPU: Triton's
            interpreter); "reference" forces the usual build.
        monokernel: the engine's flag, as recorded when it started; only "auto" asks it.
        buffers: persistent buffers that an engine already has, by group name; the rest are allocated.
        token_to_request: [max_tokens] int32, the engine's own token map; allocated when None.
        platform: what "auto" shows the gate; detected from ``device`` when None.
        early: let a programmatic dependent launch behind start at once. Right only where it waits for the
            kernel ahead before it touches memory.

    Attributes:
        backend: the path every build takes, "kernel" or "reference".
        reason: why, in a sentence.

    Raises:
        ValueError: an argument is out of range or buffers don't fit their group.
    """

    def __init__(
        self,
        groups: Sequence[WindowGroup],
        *,
        max_tokens: int,
        max_requests: int,
        device: torch.device | str = "cuda",
        backend: str = "auto",
        monokernel: bool = True,
        buffers: Mapping[str, GroupBuffers] | None = None,
        token_to_request: torch.Tensor | None = None,
        platform: Platform | None = None,
        early: bool = True,
    ) -> None:
        self.max_tokens = check_int("max_tokens", max_tokens, 1, 2**31 - 1)
        self.max_requests = check_int("max_requests", max_requests, 0, 2**31 - 2)
        self.groups = check_groups(groups, max_tokens)
        self._names = tuple(group.name for group in self.groups)
        self.device = check_device(device)
        if backend not in _BACKENDS:
            raise ValueError(f"backend is {backend!r}: it must be one of {', '.join(_BACKENDS)}")
        given = dict(buffers or {})
        for name in given:
            if name not in self._names:
                raise ValueError(f"buffers has the unknown group {name!r}: it must have {self._names}")
        for group in self.groups:
            if group.name in given:
                check_buffers(group, given[group.name], max_tokens, self.device)

        if token_to_request is not None:
            check_tensor("token_to_request", token_to_request, torch.int32, [max_tokens], self.device)

        if backend == "auto":
            decision = gate.decide(monokernel, detect(self.device) if platform is None else platform)
            self.backend = "kernel" if decision.enabled else "reference"
            self.reason = decision.reason
        else:
            self.backend, self.reason = backend, f"backend={backend!r} was asked for"

        self._buffers = {
            group.name: given.get(group.name) or GroupBuffers.allocate(group, max_tokens, self.device)
            for group in self.groups
        }
        if token_to_request is None:
            token_to_request = torch.zeros(max_tokens, dtype=torch.int32, device=self.device)
        self.token_to_request = token_to_request
        self._views = StepViews(self._buffers, self.token_to_request, self.backend, self.reason)
        self._launcher = None
        if self.backend == "kernel":
            from onelaunch.kernels.launch import StepLauncher  # needs Triton

            self._launcher = StepLauncher(
                self.groups, list(self._buffers.values()), self.token_to_request, max_requests, early=early
            )
        self._last: _Call | None = None
        self._launches: dict[Hashable, Callable[[], None]] = {}

    def buffers(self, name: str) -> GroupBuffers:
        """The whole persistent buffers of a group."""
        if name not in self._buffers:
            raise ValueError(f"name is {name!r}: it must be one of {list(self._buffers)}")
        return self._buffers[name]

    def views(self, num_tokens: int) -> StepMetadata:
        """What a build of ``num_tokens`` rows returns, without building: after a graph's replay, say."""
        return self._views.of(check_int("num_tokens", num_tokens, 0, self.max_tokens))

    @property
    def launch_shapes(self) -> tuple[int, ...]:
        """Most rows of each shape of the launch, rising; empty for the usual build.

        Another shape is another kernel: who compares builds before trusting them compares each.
        """
        return () if self._launcher is None else self._launcher.launch_shapes

    def warmup(self) -> None:
        """Compile and load all kernels, so that no later build does. Call it before capturing a graph."""
        if self._launcher is not None:
            self._launcher.warmup()

    def build(self, batch: DecodeBatch, inputs: Mapping[str, GroupInputs]) -> StepMetadata:
        """Build every group's metadata of one decode step.

        Checks and launch arguments are kept: a call with the last call's tensors costs little more than its
        launch, one with other tensors of addresses and shapes seen before a little more. So a tensor that was
        given once must not be resized in place.

        Args:
            batch: the step's requests and rows.
            inputs: each group's block table and slot mapping, by group name.

        Raises:
            ValueError: an argument does not fit; nothing has been launched or written.
        """
        last = self._last
        if last is None or not last.repeats(batch, inputs):
            last = self._last = _Call(batch, inputs, self._names, self._prepare(batch, inputs))
        last.run()
        return self._views.of(batch.num_tokens)

    def _prepare(self, batch: DecodeBatch, inputs: Mapping[str, GroupInputs]) -> Callable[[], None]:
        """What runs the build of these arguments, checked."""
        launcher = self._launcher
        if launcher is None:
            ordered = self._checked(batch, inputs)

            def run() -> None:
                with on_device(self.device):
                    reference.token_to_request(batch, self.token_to_request)
                    for group, given, buffers in zip(
                        self.groups, ordered, self._buffers.values(), strict=True
                    ):
                        reference.build_group(group, given, batch, self.token_to_request, buffers)

            return run

        try:
            facts = _facts(batch, inputs, self._names)
        except (AttributeError, KeyError, TypeError):  # a wrong argument: the checks say which
            return launcher.bind(batch, self._checked(batch, inputs))
        known = self._launches.get(facts)
        if known is not None:
            return known
        run = launcher.bind(batch, self._checked(batch, inputs))
        if self.device.type != "cpu":  # on a CPU it holds the tensors themselves
            if len(self._launches) >= _KEPT_LAUNCHES:
                self._launches.clear()
            self._launches[facts] = run
        return run

    def _checked(self, batch: DecodeBatch, inputs: Mapping[str, GroupInputs]) -> list[GroupInputs]:
        check_batch(batch, self.max_tokens, self.max_requests, self.device)
        return check_inputs(inputs, self.groups, batch, self.device)


class _Call:
    """The last call: its tensors, kept alive while their addresses are in use, and what runs it."""

    __slots__ = ("_addresses", "_batch", "_inputs", "_tensors", "run")

    def __init__(
        self,
        batch: DecodeBatch,
        inputs: Mapping[str, GroupInputs],
        names: Sequence[str],
        run: Callable[[], None],
    ) -> None:
        self.run = run
        self._batch = batch
        self._inputs = [(name, inputs[name]) for name in names]
        self._tensors = [tensor for tensor in _tensors(batch, inputs, names) if tensor is not None]
        self._addresses = [tensor.data_ptr() for tensor in self._tensors]

    def repeats(self, batch: DecodeBatch, inputs: Mapping[str, GroupInputs]) -> bool:
        """Whether a call is this one again: the same tensor objects, still at the same addresses."""
        mine = self._batch
        if batch is not mine and not (
            type(batch) is DecodeBatch
            and batch.query_start_loc is mine.query_start_loc
            and batch.seq_lens is mine.seq_lens
            and batch.replay_start is mine.replay_start
            and batch.num_tokens == mine.num_tokens
        ):
            return False
        try:
            if len(inputs) != len(self._inputs):
                return False
            for name, known in self._inputs:
                given = inputs[name]
                if given is not known and not (
                    type(given) is GroupInputs
                    and given.block_table is known.block_table
                    and given.slot_mapping is known.slot_mapping
                ):
                    return False
        except (KeyError, TypeError):
            return False
        return [tensor.data_ptr() for tensor in self._tensors] == self._addresses


def _tensors(
    batch: DecodeBatch, inputs: Mapping[str, GroupInputs], names: Sequence[str]
) -> list[torch.Tensor | None]:
    tensors = [batch.query_start_loc, batch.seq_lens, batch.replay_start]
    for name in names:
        given = inputs[name]
        tensors += [given.block_table, given.slot_mapping]
    return tensors


def _facts(batch: DecodeBatch, inputs: Mapping[str, GroupInputs], names: Sequence[str]) -> Hashable:
    """All of a call that its checks and its launch depend on."""
    facts: list[object] = [type(batch), type(batch.num_tokens), batch.num_tokens, len(inputs)]
    for tensor in _tensors(batch, inputs, names):
        if tensor is None:
            facts.append(None)
        else:
            facts += (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
    return tuple(facts)
