"""vLLM itself, with the plug-in off and on: launches of a decode step, inter-token latency, tokens.

    PYTHONPATH=src python benchmarks/vllm_end_to_end.py --json e2e.json --markdown e2e.md

Runs ``vllm.LLM`` of vLLM 0.33 in process: a DeepSeek-V4.1 of 4 layers with its 3 DSpark draft layers, which
are 7 window groups. A build of the target makes all of them, one of the draft its own 3 again. Weights are
random and bf16, and nothing is downloaded. An arm is a process of its own, as the plug-in patches one:
``off``, ``on``, and ``fault``, whose kernel writes one wrong integer from the start.

Variants stand by for each other, as what a machine can run is not known before: ``full`` has compressed
layers with their indexer (DeepGEMM, compiled by nvcc on first use), ``window`` sliding windows alone, each
with CUDA graphs and ``-eager`` without. All start at once. The first whose arms answer is measured, and the
others are ended before. Why one failed is printed with its traceback.

Where vLLM's own dependencies are missing, its kernels are replaced in all arms alike (:func:`_stand_ins`):
the hyper-connections, which are TileLang's, by vLLM's PyTorch reference. That makes a step slower than a
server's, and leaves the metadata as it is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import logging
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

_ARMS = "off", "on", "fault"
_VARIANTS = "full", "window", "full-eager", "window-eager"
_DRAFTS = 6
_PROMPTS = 40, 300  # tokens: the second is past the window of 128 when it starts
_PROFILED_STEPS = 16
_CACHE = Path(tempfile.gettempdir()) / "vllm-end-to-end"

# Layers 1 and 3 make the compressed caches, of ratio 2 and 1, and layer 2 reads the first. The last layer
# makes one so that vLLM has no layers to leave out of a prefill.
_FULL = {
    "compress_ratios": [0, 2, 2, 1, 0, 0, 0],
    "kv_source_layer_ids": [1, 3],
    "index_source_layer_ids": [1, 3],
}
# vLLM takes the last source whether there is one or not: -1 is a layer that no layer is.
_WINDOW = {"compress_ratios": [0] * 7, "kv_source_layer_ids": [-1], "index_source_layer_ids": [-1]}

# 64 heads of 512, 64 of it rotated, are what FlashMLA takes; the indexer's 32 of 128 what DeepGEMM does.
_TEXT: dict[str, Any] = {
    "model_type": "deepseek_v41_text",
    "num_hidden_layers": 4,
    "num_nextn_predict_layers": 3,
    "hidden_size": 1024,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 512,
    "o_lora_rank": 128,
    "o_groups": 8,
    "sliding_window": 128,
    "index_topk": 512,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "candidate_source_layer_id": -1,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 1,  # each is two launches of the stand-in
    "hc_eps": 1e-6,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "swiglu_limit": 10.0,
    "norm_topk_prob": True,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "routed_scaling_factor": 1.0,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 1024,
        "beta_fast": 32,
        "beta_slow": 1,
        "rope_theta": 10000.0,
    },
    "dspark_target_layer_ids": [1, 2, 3],
    "dspark_noise_token_id": 7,
    "dspark_markov_rank": 64,
    "dspark_block_size": _DRAFTS,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

_begun = time.perf_counter()


def _say(line: str) -> None:
    print(f"{time.perf_counter() - _begun:7.1f} s  {line}", flush=True)


# --- an arm: a process that runs vLLM and does what it reads


def _child(variant: str, arm: str, folder: Path, patience: float) -> None:
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
        _stand_ins()
        if arm == "fault":
            _plant_a_fault()
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


def _stand_ins() -> None:
    """Replace what needs a library that may be missing, or a newer torch, in every arm alike."""
    import torch
    from vllm import ModelRegistry
    from vllm.model_executor.kernels.mhc.torch import mhc_post_torch, mhc_pre_delayed_torch
    from vllm.model_executor.model_loader import dummy_loader
    from vllm.models.deepseek_v41.nvidia import dspark, model
    from vllm.v1.worker import gpu_worker

    # The text model under the name of the one with pictures, which needs a processor and a tokenizer. As
    # classes, both are looked at here; as names they would be imported in a second process first.
    ModelRegistry.register_model("DeepseekV41ForCausalLM", model.DeepseekV41LLMForCausalLM)
    ModelRegistry.register_model("DSparkV41DraftModel", dspark.DSparkDeepseekV4ForCausalLM)

    # torch 2.11 can set the allocator's options but not tell them, which this puts back after a load.
    gpu_worker.Worker._scoped_allocator_max_split = lambda self, max_split_size_mb: contextlib.nullcontext()

    # Warm-ups of all models that vLLM has: they import torchvision, and compile more than is used here.
    gpu_worker.kernel_warmup = lambda worker: None

    # Ones for the norms, and other weights than a thousandth, all the same for every tensor of a shape: with
    # those the model repeats its last token. The order of the tensors is the seed, so arms agree.
    usual, number = dummy_loader.initialize_single_dummy_weight, iter(range(1 << 30))

    def weight(tensor: torch.Tensor, name: str = "") -> None:
        usual(tensor, low=-0.05, high=0.05, seed=next(number), name=name)
        if tensor.dim() == 1 and name == "weight":
            tensor.data.fill_(1)

    dummy_loader.initialize_single_dummy_weight = weight

    # Hyper-connections: TileLang is their only implementation for NVIDIA, and 40 MB.
    def pre(
        residual: torch.Tensor,
        *args: Any,
        pre_mix: torch.Tensor | None = None,
        x: torch.Tensor | None = None,
        norm_weight: torch.Tensor | None = None,
        norm_eps: float = 1e-6,
    ) -> tuple[torch.Tensor, ...]:
        post, comb, hidden, mix = mhc_pre_delayed_torch(residual, *args, pre_mix=pre_mix, x=x)
        if norm_weight is not None:
            hidden = torch.nn.functional.rms_norm(hidden, norm_weight.shape, norm_weight, norm_eps)
        return post, comb, hidden.contiguous(), mix.contiguous()

    def post_pre(
        x: torch.Tensor,
        residual: torch.Tensor,
        post: torch.Tensor,
        comb: torch.Tensor,
        *args: Any,
        capture_aux: bool = False,
        stream: Any = None,
        reduce_results: bool = False,
        **more: Any,
    ) -> tuple[torch.Tensor | None, ...]:
        residual = mhc_post_torch(x, residual, post, comb)
        return residual, *pre(residual, *args, **more), residual.mean(dim=1) if capture_aux else None

    model.mhc_pre_delayed_tilelang, model.mhc_shifted_post_pre = pre, post_pre
    model.mhc_post_tilelang = dspark.mhc_post_tilelang = mhc_post_torch


def _plant_a_fault() -> None:
    """One wrong integer in the last group of every launch."""
    from onelaunch import StepBuilder

    build = StepBuilder.build

    def wrong(self: StepBuilder, *args: Any) -> Any:
        step = build(self, *args)
        if self.backend == "kernel":
            self.buffers(self.groups[-1].name).lengths[0] += 1
        return step

    StepBuilder.build = wrong


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
            speculative_config={"method": "dspark", "num_speculative_tokens": _DRAFTS},
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
        self._prompts = [[numbers.randrange(10, _TEXT["vocab_size"]) for _ in range(n)] for n in _PROMPTS]

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
            for _ in range(_PROFILED_STEPS):
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
            "a step": sum(names.values()) / _PROFILED_STEPS,
            "by name": {name: count / _PROFILED_STEPS for name, count in names.most_common()},
        }


# --- the parent: starts the arms, and has one after the other measure


class _Arm:
    """A child process and what it has answered."""

    def __init__(self, variant: str, name: str, root: Path, patience: float) -> None:
        self.variant, self.name = variant, name
        self.label = f"{variant} {name}"
        self.log = root / f"{variant}-{name}.log"
        self.stage, self.error = "start", ""
        self.answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        environment = {
            **os.environ,
            "ONELAUNCH": str(int(name != "off")),
            "ONELAUNCH_CASE_DIR": str(root),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_LEVEL": "INFO",  # where the plug-in says that it is armed
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_USE_FLASHINFER_SAMPLER": "0",
            "VLLM_DEEP_GEMM_WARMUP": "skip",
            "VLLM_CACHE_ROOT": str(_CACHE),
            "DG_JIT_CACHE_DIR": str(
                _CACHE / "deep_gemm"
            ),  # what one arm compiled serves others, and later runs
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_HOST_IP": "127.0.0.1",  # there may be no network to find an address on
            "GLOO_SOCKET_IFNAME": "lo",
            "NCCL_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        folder = root / variant.removesuffix("-eager")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--child", variant, name, str(folder), str(patience)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,  # ended with the compilers that it started
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            self.stage = answer["stage"]
            if "error" in answer:
                self.error = answer["error"]
                _say(f"{self.label}: FAILED at {self.stage}: {self.error.strip().splitlines()[-1][:200]}")
            elif "found" in answer or "failed" in answer:
                self.answers.put(answer)
            else:
                _say(f"{self.label}: {self.stage}")
        if not self.error and self.stage != "end":
            code = self.process.wait()
            self.error = f"the process ended with {code}; its log ends:\n{self.tail()}"
        self.answers.put(None)

    @property
    def ready(self) -> bool:
        return self.stage == "ready" and not self.error

    def tail(self, lines: int = 40) -> str:
        return "\n".join(line[:300] for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def ask(self, do: str, seconds: float = 60, **arguments: Any) -> Any:
        """What the arm answers; RuntimeError if it fails or does not."""
        if self.error:
            raise RuntimeError(f"{self.label}: {self.error}")
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, "with": arguments}) + "\n")
        self.process.stdin.flush()
        try:
            found = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"{self.label}: no answer in {seconds:.0f} s:\n{self.tail()}") from None
        if found is None or "failed" in found:
            raise RuntimeError(f"{self.label}: {self.error if found is None else found['failed']}")
        return found["found"]

    def end(self) -> None:
        self.error = self.error or f"ended at {self.stage}"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def main(
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(_VARIANTS)}; first wins.")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    tokens: Annotated[int, typer.Option(min=32, max=512)] = 96,
    patience: Annotated[float, typer.Option(help="Seconds until the engines must be there.")] = 70,
    json_out: Annotated[Path | None, typer.Option("--json")] = None,
    markdown_out: Annotated[Path | None, typer.Option("--markdown")] = None,
    logs: Annotated[Path | None, typer.Option(help="A folder for the arms' logs.")] = None,
) -> None:
    """Measure, print a table, and keep it."""
    variants = variant or list(_VARIANTS)
    if unknown := set(variants) - set(_VARIANTS):
        raise typer.BadParameter(f"variant is {unknown}: it must be of {_VARIANTS}")
    root = logs or Path(tempfile.mkdtemp())
    root.mkdir(parents=True, exist_ok=True)
    for name, layers in {"full": _FULL, "window": _WINDOW}.items():
        (root / name).mkdir(exist_ok=True)
        config = {
            "model_type": "deepseek_v41",
            "architectures": ["DeepseekV41ForCausalLM"],
            "torch_dtype": "bfloat16",
            "text_config": {**_TEXT, **layers},
        }
        (root / name / "config.json").write_text(json.dumps(config))
    arms = {(v, name): _Arm(v, name, root, patience) for v in variants for name in _ARMS}
    result: dict[str, Any] = {}
    try:
        chosen = _first_ready(arms, variants, patience)
        result["stages"] = {arm.label: f"{arm.stage}{', failed' * bool(arm.error)}" for arm in arms.values()}
        _tell_failures(arms)
        if chosen is not None:
            _say(f"measuring {chosen}")
            result.update(variant=chosen, rounds=rounds)
            _end_others(arms, chosen)
            for measure in (_compare, _time, _profile):  # a profiler slows what follows it
                try:
                    measure({name: arms[chosen, name] for name in _ARMS}, result, rounds, tokens)
                    _say(f"done: {measure.__name__[1:]}")
                except Exception:
                    result.setdefault("errors", []).append(traceback.format_exc())
                    _say(traceback.format_exc())
                if json_out is not None:  # what there is, should the next one not come back
                    json_out.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        for arm in arms.values():
            arm.end()
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1) + "\n")
    if chosen is None:
        raise SystemExit("no variant has both arms ready")
    print(_markdown(result))
    if markdown_out is not None:
        markdown_out.write_text(_markdown(result))
    status = result.get("status", {})
    armed = any("is armed" in line for line in status.get("on", {}).get("lines", ()))
    noticed = status.get("fault", {}).get("disarmed") is not None
    if "errors" in result or not (armed and noticed and all(result["equal"].values())):
        raise SystemExit(f"armed: {armed}, the fault noticed: {noticed}, equal: {result.get('equal')}")


def _first_ready(arms: dict[tuple[str, str], _Arm], variants: list[str], patience: float) -> str | None:
    """The first variant in order with all its arms ready; without the fault's if need be."""
    while True:
        late = time.perf_counter() - _begun > patience
        for names in (_ARMS, _ARMS[:2]) if late else (_ARMS,):
            for variant in variants:
                mine = [arms[variant, name] for name in names]
                if all(arm.ready for arm in mine):
                    return variant
                if not late and not any(arm.error for arm in mine):
                    break  # it may still come, and goes first
        if late or all(arm.error or arm.ready for arm in arms.values()):
            if late:
                return None
            # Nothing moves any more: whatever off and on can do alone.
            both = (v for v in variants if all(arms[v, name].ready for name in _ARMS[:2]))
            return next(both, None)
        time.sleep(0.2)


def _tell_failures(arms: dict[tuple[str, str], _Arm]) -> None:
    """Each different traceback once, and the ends of the logs of those that hang."""
    told: dict[str, str] = {}
    for arm in arms.values():
        if not arm.ready:
            what = arm.error or f"is at {arm.stage}; its log ends:\n{arm.tail(25)}"
            key = what.strip().splitlines()[-1] if arm.error else arm.label
            if key in told:
                print(f"--- {arm.label}: as {told[key]}")
            else:
                told[key] = arm.label
                print(f"--- {arm.label}: {what}")
    sys.stdout.flush()


def _end_others(arms: dict[tuple[str, str], _Arm], chosen: str) -> None:
    for (variant, _), arm in arms.items():
        if variant != chosen:
            arm.end()


def _compare(arms: dict[str, _Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    """Token ids of the arms, and what the plug-in says of itself; the arm with the fault is done then."""
    found: dict[str, list[Any]] = {}
    for name, arm in arms.items():
        if arm.error:
            result.setdefault("errors", []).append(f"{name}: {arm.error}")
            continue
        # Twice: an arm that does not agree with itself proves nothing about another.
        found[name] = [[arm.ask("tokens", requests=n, tokens=tokens) for n in (1, 2)] for _ in range(2)]
        result.setdefault("status", {})[name] = arm.ask("status")
    arms["fault"].end()
    result["repeats"] = {name: first == second for name, (first, second) in found.items()}
    result["equal"] = {name: runs[0] == found["off"][0] for name, runs in found.items() if name != "off"}
    result["different tokens"] = len({token for ids in found["off"][0][1] for token in ids})
    result["token ids"] = {name: runs[0] for name, runs in found.items()}
    for name, status in result["status"].items():
        _say(f"{name}: {status['counts']} {status['lines']}")


def _profile(arms: dict[str, _Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    for n in (1, 2):
        enough = _PROFILED_STEPS * (_DRAFTS + 1) + 32  # if all drafts were accepted
        found = {name: arms[name].ask("launches", requests=n, tokens=enough) for name in ("off", "on")}
        off, on = (found[name].pop("by name") for name in ("off", "on"))
        changed = {k: [off.get(k, 0), on.get(k, 0)] for k in {**off, **on} if off.get(k, 0) != on.get(k, 0)}
        result.setdefault("launches", {})[n] = {name: one["a step"] for name, one in found.items()}
        result.setdefault("changed", {})[n] = changed
        result.setdefault("all kernels", {})[n] = off


def _time(arms: dict[str, _Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    runs: dict[int, dict[str, list[Any]]] = {n: {"off": [], "on": []} for n in (1, 2)}
    result["latency"] = runs
    for number in range(rounds + 1):
        for n in (1, 2):
            for name in ("off", "on") if number % 2 else ("on", "off"):
                took = arms[name].ask("latency", requests=n, tokens=tokens)
                if number:  # the first warms the clocks
                    runs[n][name].append(took)
    result["latency_us"] = {
        n: {name: statistics.median(run["p50"] for run in some) for name, some in by_arm.items()}
        for n, by_arm in runs.items()
    }
    result["status after"] = {name: arms[name].ask("status") for name in ("off", "on")}


def _markdown(result: dict[str, Any]) -> str:
    status = result.get("status", {})
    machine: dict[str, Any] = next(iter(status.values()), {})
    lines = [
        f"{machine.get('machine')}, torch {machine.get('torch')}, vLLM 0.33, variant {result['variant']}: 7 "
        f"window groups, 3 of them the draft's, {result['rounds']} rounds of alternating arms, medians.",
        "",
        "| requests | launches of a decode step | inter-token latency p50, us |",
        "| ---: | ---: | ---: |",
    ]

    def cell(of: str, n: int, form: str) -> str:
        both = result.get(of, {}).get(n)
        return " -> ".join(format(both[name], form) for name in ("off", "on")) if both else ""

    lines += [f"| {n} | {cell('launches', n, '.1f')} | {cell('latency_us', n, '.0f')} |" for n in (1, 2)]
    lines += ["", f"Tokens equal to those without the plug-in: {result.get('equal')}, "]
    lines += [f"the same when asked again: {result.get('repeats')}.", ""]
    lines += [f"- {name}: {line}" for name, one in status.items() for line in one["lines"]]
    fault = status.get("fault", {}).get("disarmed")
    return "\n".join([*lines, "", f"A planted fault: {fault}", ""])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], sys.argv[3], Path(sys.argv[4]), float(sys.argv[5]))
    else:
        typer.run(main)
