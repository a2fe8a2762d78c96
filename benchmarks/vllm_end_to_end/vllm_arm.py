"""An arm: a process that runs vLLM in one way and does what it reads, a line of JSON each."""

from __future__ import annotations

import faulthandler
import functools
import json
import logging
import os
import random
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stand_ins import plant_a_fault, stand_in
from tiny_model import DRAFTS, PROFILED_STEPS, PROMPTS, TEXT


def run(variant: str, arm: str, folder: Path, patience: float) -> None:
    """Make the engine, then answer commands, a line of JSON each."""
    # Whatever vLLM and its libraries print goes to the log with its errors; the answers have the pipe alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    # A second before the parent gives up: where it hung is in the log then.
    faulthandler.dump_traceback_later(max(patience - 1, 1))
    stage = "start"

    def answer(**found: Any) -> None:
        answers.write(json.dumps({"stage": stage, **found}) + "\n")

    try:
        stage = "import vLLM"
        lines = _import_vllm(arm)
        answer()
        stage = "stand-ins"
        stand_in()
        if arm == "fault":
            plant_a_fault()
        answer()
        stage = "engine"
        engine = _Engine(folder, eager=variant.endswith("-eager"))
        answer()
        stage = "first tokens"
        for requests in (1, 2):
            engine.tokens(requests, 24)  # the builds that are compared, and what compiles on first use
        answer()
        stage = "ready"
        answer()
        faulthandler.cancel_dump_traceback_later()
        for line in sys.stdin:
            command = json.loads(line)
            stage = command["do"]
            try:
                do = functools.partial(_status, lines) if stage == "status" else getattr(engine, stage)
                answer(found=do(**command["with"]))
            except Exception:  # the next command may still be had
                traceback.print_exc()
                answer(failed=traceback.format_exc())
    except BaseException:
        answer(error=traceback.format_exc())
        traceback.print_exc()
    answers.close()
    os._exit(0)  # vLLM's own shutdown asks torch for what 2.11 does not have, and nothing is left to tidy up


def _import_vllm(arm: str) -> list[str]:
    """Import vLLM with the plug-in as the arm has it; the list gets the plug-in's log lines."""
    lines: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        lines.append(record.getMessage())
        return True

    # A filter, as vLLM takes the handlers of its loggers away when it sets up its own.
    logging.getLogger("vllm.onelaunch").addFilter(keep)
    import vllm  # noqa: F401

    import onelaunch.vllm_plugin as plugin

    assert os.environ["ONELAUNCH"] == str(int(arm != "off"))
    plugin.register()  # as vLLM's entry point does where onelaunch is installed
    return lines


def _status(lines: list[str]) -> dict[str, Any]:
    import torch

    import onelaunch.vllm_plugin as plugin

    status = plugin.status()
    return {
        "patched": list(status.patched),
        "counts": status.counts,
        "disarmed": status.disarmed,
        "lines": lines,
        "machine": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


class _Engine:
    """vLLM's engine, asked step by step."""

    def __init__(self, folder: Path, *, eager: bool) -> None:
        from vllm import LLM

        graphs: dict[str, Any] = {
            # Target steps have 7 rows a request and draft steps 6.
            "compilation_config": {"cudagraph_capture_sizes": [6, 7, 12, 14]},
        }
        self._llm = LLM(
            model=str(folder),
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            seed=0,
            max_model_len=1024,
            max_num_seqs=2,
            max_num_batched_tokens=1024,
            enable_prefix_caching=False,
            gpu_memory_utilization=0.1,  # of which nothing is profiled: other arms come and go meanwhile
            kv_cache_memory_bytes=256 << 20,
            speculative_config={"method": "dspark", "num_speculative_tokens": DRAFTS},
            # Warm-ups compile all that any shape may need, TileLang's and CuTe's among it.
            kernel_config={
                "enable_jit_warmup": False,
                "enable_cutedsl_warmup": False,
                "enable_flashinfer_autotune": False,
            },
            enforce_eager=eager,
            **({} if eager else graphs),
        )
        self._serial = 0
        numbers = random.Random(0)
        self._prompts = [[numbers.randrange(10, TEXT["vocab_size"]) for _ in range(n)] for n in PROMPTS]

    def _steps(self, requests: int, tokens: int) -> Iterator[dict[str, list[int]]]:
        """A step at a time, the tokens that each request has then."""
        from vllm import SamplingParams

        engine = self._llm.llm_engine
        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        self._serial += 1
        have: dict[str, list[int]] = {}
        for i in range(requests):
            # vLLM may add to the name of a request.
            engine.add_request(f"{self._serial}-{i}-", {"prompt_token_ids": self._prompts[i]}, params)
        while engine.has_unfinished_requests():
            for output in engine.step():
                have[output.request_id] = list(output.outputs[0].token_ids)
            yield dict(have)

    def tokens(self, requests: int, tokens: int) -> list[list[int]]:
        *_, have = self._steps(requests, tokens)
        return [have[name] for name in sorted(have)]

    def latency(self, requests: int, tokens: int) -> dict[str, float]:
        """Times from token to token, in us, after the last prefill."""
        gaps: list[float] = []
        last = 0.0
        before: dict[str, list[int]] = {}
        gained = steps = 0
        for have in self._steps(requests, tokens):
            now = time.perf_counter()
            grown = [len(ids) - len(before[name]) for name, ids in have.items() if name in before]
            if len(grown) == requests and all(len(ids) > 4 for ids in have.values()) and any(grown):
                steps, gained = steps + 1, gained + sum(grown)
                gaps += [(now - last) * 1e6 / more for more in grown if more]
            if any(grown) or len(have) > len(before):
                last, before = now, have
        p50, p90 = (statistics.quantiles(gaps, n=10)[i] for i in (4, 8))
        return {"p50": p50, "p90": p90, "tokens a step": gained / steps / requests, "steps": steps}

    def launches(self, requests: int, tokens: int) -> dict[str, Any]:
        """What runs on the device in decode steps, as the profiler has it: kernels and copies, a step."""
        import torch

        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        steps = iter(self._steps(requests, tokens))
        for have in steps:
            if len(have) == requests and all(len(ids) > 4 for ids in have.values()):
                break
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(PROFILED_STEPS):
                next(steps)
            torch.cuda.synchronize()
        for _ in steps:
            pass
        names = Counter(
            event.name
            for event in profile.events()
            if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
        )
        return {
            "a step": sum(names.values()) / PROFILED_STEPS,
            "by name": {name: count / PROFILED_STEPS for name, count in names.most_common()},
        }


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]))
