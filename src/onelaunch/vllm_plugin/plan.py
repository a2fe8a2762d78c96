"""A set of window groups that are built together: its kernel, and what has been proven of it."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import torch

from onelaunch import gate
from onelaunch.builder import StepBuilder
from onelaunch.platform import detect
from onelaunch.vllm_plugin import counters, settings
from onelaunch.vllm_plugin.guard import stand_aside
from onelaunch.vllm_plugin.log import logger
from onelaunch.vllm_plugin.window import Member

Kind = Literal["build", "update"]

# What a comparison of a real batch is worth, in batches of nothing but padding. Those prove little, but an
# idle rank of a data-parallel group builds nothing else, and comparing for ever would slow down the others.
_REAL = 8


class Plan:
    """The kernel of fixed builders, writing their own buffers.

    Attributes:
        kernel: the library's builder; None where vLLM's builds stay.
        token_map: [max_tokens] int32, the first builder's own.
        tile_ends: most rows of each launch shape of the kernel.
        rehearsed: what has been compared on random batches of every launch shape.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        first = members[0].builder
        self.token_map: torch.Tensor = first.token_to_req_indices
        self.kernel: StepBuilder | None = None
        self.tile_ends: tuple[int, ...] = ()
        self.rehearsed: frozenset[Kind] = frozenset()
        self._builders = [weakref.ref(member.builder) for member in members]
        self._enough = settings.verify_builds() * _REAL
        self._compared: Counter[tuple[Kind, int]] = Counter()  # by launch shape too
        self._worth: Counter[tuple[Kind, int]] = Counter()
        enabled, reason = _decide(self.token_map.device)
        if not enabled:
            stand_aside(reason)
            return
        names = [f"group {i}" for i in range(len(members))]
        try:
            self.kernel = StepBuilder(
                [member.group(name) for name, member in zip(names, members, strict=True)],
                max_tokens=self.token_map.shape[0],
                max_requests=first.no_replay_start.shape[0],
                device=self.token_map.device,
                backend="kernel",
                buffers={name: member.buffers() for name, member in zip(names, members, strict=True)},
                token_to_request=self.token_map,
                # vLLM's own kernels stood here, and those behind may rely on work from before them: what is
                # a dependent launch there must find all of it done.
                early=False,
            )
        except ValueError as error:
            stand_aside(f"the library can't serve these groups: {error}")
            return
        self.kernel.warmup()
        self.tile_ends = self.kernel.launch_shapes
        self._addresses = [member.addresses() for member in members]

    def leave_to_vllm(self, reason: str) -> None:
        """Build nothing from here on."""
        self.kernel = None
        stand_aside(reason)

    def is_for(self, members: Sequence[Member]) -> bool:
        """Whether these are still the builders that the plan was made for, with the same buffers."""
        if not all(ref() is member.builder for ref, member in zip(self._builders, members, strict=True)):
            return False
        return self.kernel is None or self._addresses == [member.addresses() for member in members]

    def trusted(self, kind: Kind, num_tokens: int, *, capturing: bool) -> bool:
        """Whether the kernel alone may build so many rows.

        A recording can't be compared. It takes what was compared once: vLLM builds each shape before it
        records it, of padding alone, and the rehearsal before that is the proof.
        """
        shape = kind, self._tile(num_tokens)
        return self._compared[shape] > 0 if capturing else self._worth[shape] >= self._enough

    def passed(self, kind: Kind, num_tokens: int, *, real: bool) -> None:
        """Every group of a step agreed with vLLM's own; ``real`` unless the step was nothing but padding."""
        counters.count("verified")
        tile = self._tile(num_tokens)
        shape = kind, tile
        armed = self._worth[shape] >= self._enough
        self._compared[shape] += 1
        self._worth[shape] += _REAL if real else 1
        if not armed and self._worth[shape] >= self._enough:
            builders = [ref() for ref in self._builders]
            logger.info(
                "onelaunch is armed: one launch %s of %d window group%s (%s) and up to %d rows, "
                "equal to vLLM's %d times",
                {"build": "a build", "update": "an update"}[kind],
                len(builders),
                "s" * (len(builders) > 1),
                ", ".join(dict.fromkeys(type(builder).__name__ for builder in builders)),
                self.tile_ends[tile],
                self._compared[shape],
            )

    def _tile(self, num_tokens: int) -> int:
        return bisect_left(self.tile_ends, num_tokens)


# All that were made: a graph may hold the addresses of a plan whose builders have other buffers by now.
_plans: weakref.WeakKeyDictionary[Any, dict[object, list[Plan]]] = weakref.WeakKeyDictionary()


def plan_of(members: Sequence[Member], *, capturing: bool) -> Plan | None:
    """The plan of these groups, made when first asked for; None inside a recording that comes before it."""
    by_groups = _plans.setdefault(members[0].builder, {})
    plans = by_groups.setdefault(tuple((id(member.builder), member.causal) for member in members), [])
    for plan in reversed(plans):
        if plan.is_for(members):
            return plan
    if capturing:
        return None
    with torch.inference_mode(False):  # its tensors outlive the step that asks first
        plans.append(Plan(members))
    return plans[-1]


def forget_plans() -> None:
    """Start over: for tests."""
    _plans.clear()


def _decide(device: torch.device) -> tuple[bool, str]:
    """Whether the kernel runs on a device: by the gate, or in Triton's interpreter where that stands in."""
    if device.type == "cpu":
        from onelaunch._triton import interpreted

        if interpreted():
            return True, ""
    decision = gate.decide(True, detect(device))
    return decision.enabled, decision.reason
