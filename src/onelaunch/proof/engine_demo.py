"""Both arms of the engine on the same prompts: the same tokens, fewer launches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from onelaunch.engine.config import EngineConfig

# In the words of the problems that the default model was trained on.
PROMPTS = (
    "Question: Tom buys 3 kites for 12 dollars each and pays with 50 dollars. How much change does Tom get?\n"
    "Answer:",
    "Question: Ada has 4 boxes of 15 pears. Noah has 11 pears. How many more pears does Ada have?\nAnswer:",
)
_STOP = "\n\n"


@dataclass(frozen=True, slots=True)
class EngineArm:
    """What one arm did.

    Attributes:
        launches: that build the metadata of a decode step.
        acceptance_length: mean tokens of a step and request.
        step_ms: median time of a step, in milliseconds.
        texts, token_ids: of each prompt's completion.
    """

    monokernel: bool
    launches: int
    acceptance_length: float
    step_ms: float
    texts: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]

    @property
    def token_ms(self) -> float:
        """Time of a request's token, in milliseconds: a step's, shared by its tokens."""
        return self.step_ms / self.acceptance_length


def run_arms(
    device: torch.device, max_tokens: int, prompts: Sequence[str] = PROMPTS
) -> tuple[str, list[EngineArm]]:
    """Let the default model answer the prompts by the usual build, then by the one launch.

    Returns:
        the model's name, and both arms.

    Raises:
        ValueError: the engine's packages are not installed.
    """
    from onelaunch.engine.config import EngineConfig

    configs = [EngineConfig.make(device=device, monokernel=monokernel) for monokernel in (False, True)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a CPU, threads that wait for each other in each small operator crawl
    try:
        return configs[0].model_name, [_run_arm(config, max_tokens, prompts) for config in configs]
    finally:
        torch.set_num_threads(threads)


def _run_arm(config: EngineConfig, max_tokens: int, prompts: Sequence[str]) -> EngineArm:
    from onelaunch.engine import LLM, SamplingParams

    llm = LLM(config)
    ends = [time.perf_counter()]
    params = SamplingParams(max_tokens=max_tokens, temperature=0, stop=(_STOP,))
    completions = llm.generate(list(prompts), params, after_step=lambda _: ends.append(time.perf_counter()))
    stats = llm.core.stats
    return EngineArm(
        config.monokernel,
        stats.launches_per_step,
        1 + stats.num_accepted_tokens / max(stats.num_drafts, 1),
        1e3 * statistics.median(end - begun for begun, end in pairwise(ends)),
        tuple(one.text for one in completions),
        tuple(one.token_ids for one in completions),
    )
