"""A set of window groups that are built together: its kernel, and what has been proven of it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import torch

from onelaunch import gate
from onelaunch.builder import StepBuilder
from onelaunch.platform import detect
from onelaunch.vllm_plugin import counters, settings
from onelaunch.vllm_plugin.guard import logger, stand_aside
from onelaunch.vllm_plugin.window import Member

Kind = Literal["rehearsal", "build", "update"]

# What a comparison of a real batch is worth, in batches of nothing but padding. Those prove little, but an
# idle rank of a data-parallel group builds nothing else, and comparing for ever would slow down the others.
_REAL = 8


class Plan:
    """The kernel of fixed builders, writing their own buffers.

    Attributes:
        kernel: the library's builder; None where vLLM's builds stay.
        token_map: [max_tokens] int32, the first builder's own.
        rehearsed: whether random batches agreed.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        first = members[0].builder
        self.token_map: torch.Tensor = first.token_to_req_indices
        self.kernel: StepBuilder | None = None
        self.rehearsed = False
        self._builders = [weakref.ref(member.builder) for member in members]
        self._lengths = [member.builder.decode_swa_lens for member in members]
        self._enough = settings.verify_builds() * _REAL
        self._compared: Counter[Kind] = Counter()
        self._worth: Counter[Kind] = Counter()
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
            )
        except ValueError as error:
            stand_aside(f"the library can't serve these groups: {error}")
            return
        self.kernel.warmup()

    def is_for(self, members: Sequence[Member]) -> bool:
        """Whether these are still the builders that the plan was made for, with the same buffers."""
        return all(
            lengths is member.builder.decode_swa_lens and member.builder is ref()
            for ref, lengths, member in zip(self._builders, self._lengths, members, strict=True)
        )

    def trusted(self, kind: Kind, *, capturing: bool) -> bool:
        """Whether the kernel alone may build. A recording can't be compared: it takes what once was."""
        if capturing:
            return self.rehearsed and self._compared[kind] > 0
        return self._worth[kind] >= self._enough

    def passed(self, kind: Kind, *, real: bool) -> None:
        """Every group of a step agreed with vLLM's own; ``real`` unless the step was nothing but padding."""
        counters.count("verified")
        armed = self._worth[kind] >= self._enough
        self._compared[kind] += 1
        self._worth[kind] += _REAL if real else 1
        if kind != "rehearsal" and not armed and self._worth[kind] >= self._enough:
            builders = [ref() for ref in self._builders]
            logger.info(
                "onelaunch is armed: one launch a %s of %d window group%s (%s), equal to vLLM's %d times",
                kind,
                len(builders),
                "s" * (len(builders) > 1),
                ", ".join(dict.fromkeys(type(builder).__name__ for builder in builders)),
                self._compared[kind],
            )


_plans: weakref.WeakKeyDictionary[Any, dict[object, Plan]] = weakref.WeakKeyDictionary()


def plan_of(members: Sequence[Member], *, capturing: bool) -> Plan | None:
    """The plan of these groups, made when first asked for; None inside a recording that comes before it."""
    known = _plans.setdefault(members[0].builder, {})
    key = tuple((id(member.builder), member.causal) for member in members)
    plan = known.get(key)
    if plan is not None and plan.is_for(members):
        return plan
    if capturing:
        return None
    with torch.inference_mode(False):  # its tensors outlive the step that asks first
        plan = known[key] = Plan(members)
    return plan


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
