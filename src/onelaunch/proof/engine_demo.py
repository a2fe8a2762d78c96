"""Both arms of the engine on the same prompts: the same tokens, fewer launches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

PROMPTS = ("Tom has 3 bags of 12 apples.", "One launch")


@dataclass(frozen=True, slots=True)
class EngineArm:
    """What one arm did.

    Attributes:
        launches: that build the metadata of a decode step.
        acceptance_length: mean tokens of a step and request.
        step_ms: median time of a step, in milliseconds.
        token_ids: of each prompt's completion.
    """

    monokernel: bool
    launches: int
    acceptance_length: float
    step_ms: float
    token_ids: tuple[tuple[int, ...], ...]


def run_arms(
    device: torch.device, max_tokens: int, prompts: Sequence[str] = PROMPTS
) -> tuple[str, list[EngineArm]]:
    """Serve the prompts by the usual build, then by the one launch.

    Returns:
        the model's name, and both arms.

    Raises:
        ValueError: the engine's packages are not installed.
    """
    from onelaunch.engine import LLM, SamplingParams
    from onelaunch.engine.config import EngineConfig

    params = SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True)
    arms = []
    for monokernel in (False, True):
        config = EngineConfig.make(preset="tiny", device=device, monokernel=monokernel)
        llm = LLM(config)
        ends = [time.perf_counter()]

        def after_step(_: int, ends: list[float] = ends) -> None:
            ends.append(time.perf_counter())

        completions = llm.generate(list(prompts), params, after_step=after_step)
        stats = llm.core.stats
        arms.append(
            EngineArm(
                monokernel,
                stats.launches_per_step,
                1 + stats.num_accepted_tokens / max(stats.num_drafts, 1),
                1e3 * statistics.median(end - begun for begun, end in pairwise(ends)),
                tuple(one.token_ids for one in completions),
            )
        )
    return config.model_name, arms
