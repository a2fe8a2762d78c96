"""One launch of a plan, and its comparison with vLLM's own code while the plan is not trusted yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers
from onelaunch.proof.compare import POISON, Mismatch, compare
from onelaunch.vllm_plugin import guard, window
from onelaunch.vllm_plugin.cases import case_of
from onelaunch.vllm_plugin.plan import Kind, Plan
from onelaunch.vllm_plugin.verification import Extent, differences, field_differences, poison, snapshot
from onelaunch.vllm_plugin.window import Member


class Run:
    """One launch, made on construction.

    Attributes:
        compares: vLLM's own code must run after it, group by group, and its values stay. The launch's are
            kept aside until then.
        mapped: the token map that vLLM's own kernel has been run on, in an update.
    """

    def __init__(
        self,
        plan: Plan,
        kind: Kind,
        batch: DecodeBatch,
        members: Sequence[Member],
        rows: int,
        *,
        compares: bool,
        rehearses: bool = False,
    ) -> None:
        assert plan.kernel is not None
        self.compares = compares
        self.mapped: torch.Tensor | None = None
        self._plan, self._kernel, self._kind, self._rehearses = plan, plan.kernel, kind, rehearses
        self._batch, self._members = batch, members
        self._names = [group.name for group in plan.kernel.groups]
        inputs = {name: member.inputs for name, member in zip(self._names, members, strict=True)}
        if not compares:
            self._kernel.build(batch, inputs)
            return
        self._extent = Extent(batch.num_tokens, rows)
        self._waiting = set(self._names)
        self._real = False
        # vLLM runs in inference mode, and what was made in it can't be written to by PyTorch elsewhere.
        with torch.inference_mode():
            self._launch_aside(inputs, rows)

    def _launch_aside(self, inputs: Mapping[str, GroupInputs], rows: int) -> None:
        """Launch over poison, and take the results before vLLM's own code writes over them."""
        batch, token_map = self._batch, self._plan.token_map
        parts = {name: self._part(name) for name in self._names}
        tails = {name: part.lengths[rows:].clone() for name, part in parts.items()}
        try:
            for part in parts.values():
                poison(part)
            token_map[: batch.num_tokens] = POISON
            self._kernel.build(batch, inputs)
            self._taken = {name: snapshot(part) for name, part in parts.items()}
            self._token_map = token_map[:rows].clone()
        finally:
            # vLLM's update leaves the lengths past its rows as they were, which is zero if all is well.
            for name, part in parts.items():
                part.lengths[rows:] = tails[name]

    def metadata(self, index: int, cm: Any, replay_start: torch.Tensor | None) -> Any:
        """What a group's ``build`` returns; see :func:`window.metadata_of`."""
        views = self._kernel.views(self._batch.num_tokens)[self._names[index]]
        token_map = self._plan.token_map[: self._batch.num_tokens]
        return window.metadata_of(self._members[index], cm, replay_start, views, token_map)

    def verify_build(self, index: int, cm: Any, replay_start: torch.Tensor | None, expected: Any) -> None:
        """Compare a group's launch with vLLM's build, which has run since and returned ``expected``."""
        found = self._differences(index)
        mapped = compare("", "token_to_request", expected.token_to_req_indices, self._token_map)
        found += [] if mapped is None else [mapped]
        found += field_differences(self._names[index], expected, self.metadata(index, cm, replay_start))
        self._conclude(index, found)

    def verify_update(self, index: int) -> None:
        """Compare a group's launch with vLLM's draft update, which has run since."""
        self._conclude(index, self._differences(index))

    def _differences(self, index: int) -> list[Mismatch]:
        name = self._names[index]
        expected = self._part(name)
        self._real |= bool(expected.is_valid.any())
        return differences(name, expected, self._taken[name])

    def _conclude(self, index: int, found: list[Mismatch]) -> None:
        self._waiting.discard(self._names[index])
        if found:
            guard.disarm_on_mismatch(found, case_of(self._kernel, self._batch, self._members))
        elif not self._waiting and not self._rehearses and not guard.disarmed():
            self._plan.passed(self._kind, self._batch.num_tokens, real=self._real)

    def _part(self, name: str) -> GroupBuffers:
        return self._extent.cut(self._kernel.buffers(name))
