"""What an engine is started with. Flags are recorded here once; nothing reads a global later."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from onelaunch.checks import check_device
from onelaunch.engine.cache.groups import cache_groups
from onelaunch.engine.checks import is_int, is_number, one_of, require
from onelaunch.engine.model.config import PRESETS, ModelConfig
from onelaunch.syncs import MODES

DEFAULT_MODEL = Path(__file__).parent / "default_model"  # trained: its README.md is the model card
_ATTENTION = ("dense", "ragged")
_SYNC_CHECK = "ONELAUNCH_SYNC_CHECK"


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig:
    """DSpark drafting; the keys of vLLM's ``--speculative-config``.

    Attributes:
        num_speculative_tokens: k, rows of a draft block.
        draft_sample_method: how draft tokens are chosen: "greedy" or "probabilistic" (at the request's
            temperature).
        rejection_sample_method: "block" (block verification, exact), "standard" (token by token, exact) or
            "synthetic" (accept at given rates: for measuring speed, not for text).
        synthetic_acceptance_length: mean tokens a step, 1 to k + 1; with "synthetic" only.
        adaptive_verification: share of the drafts that are verified, 0 to 1: the likeliest ones of all
            requests, by the confidence head. None verifies all.
    """

    method: str = "dspark"
    num_speculative_tokens: int = 6
    draft_sample_method: str = "greedy"
    rejection_sample_method: str = "block"
    synthetic_acceptance_length: float | None = None
    adaptive_verification: float | None = None

    def __post_init__(self) -> None:
        one_of("method", self.method, ("dspark",))
        one_of("draft_sample_method", self.draft_sample_method, ("greedy", "probabilistic"))
        one_of("rejection_sample_method", self.rejection_sample_method, ("block", "standard", "synthetic"))
        k = self.num_speculative_tokens
        require("num_speculative_tokens", k, is_int(k) and 1 <= k <= 32, "an integer from 1 to 32")
        length = self.synthetic_acceptance_length
        if (self.rejection_sample_method == "synthetic") != (length is not None):
            raise ValueError(
                f"synthetic_acceptance_length is {length!r}: it must be given with the "
                "synthetic method, and only then"
            )
        if length is not None:
            require(
                "synthetic_acceptance_length",
                length,
                is_number(length) and 1 <= length <= k + 1,
                f"1 to {k + 1}",
            )
        share = self.adaptive_verification
        if share is not None:
            require(
                "adaptive_verification", share, is_number(share) and 0 < share <= 1, "above 0 and at most 1"
            )

    @staticmethod
    def parse(text: str) -> SpeculativeConfig:
        """From the JSON object of a command line.

        Raises:
            ValueError: not JSON, an unknown key or a value out of range.
        """
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"speculative-config is {text!r}: it must be a JSON object ({error})") from error
        if not isinstance(values, dict):
            raise ValueError(f"speculative-config is {text!r}: it must be a JSON object")
        known = [field.name for field in fields(SpeculativeConfig)]
        for key in values:
            if key not in known:
                raise ValueError(
                    f"speculative-config has the unknown key {key!r}: it must be one of {', '.join(known)}"
                )
        return SpeculativeConfig(**values)


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Everything an engine is started with. Make one with :meth:`make`, which fills in what is not given.

    Attributes:
        model: the model's shape.
        model_path: its checkpoint; None for random weights from ``seed``.
        model_name: what the server calls it.
        device: where it runs.
        monokernel: the flag as recorded at start: decode metadata by one launch a build. On a CPU the one
            launch runs in Triton's interpreter, which is slow: it shows that the tokens are the same.
        attention: the reader, "dense" or "ragged".
        speculative: None turns drafting off.
        max_model_len: longest sequence, prompt and output.
        max_num_seqs: requests that run at once.
        max_num_batched_tokens: rows of a step.
        block_size: cache entries of a block.
        num_blocks: of the pool, all groups together.
        enable_prefix_caching: share blocks of equal prefixes.
        enforce_eager: no CUDA graphs.
        sync_check: "off", "warn" or "error": what a step that waits for the device does, after warm-up.
        seed: of random weights, and of requests without a seed.
    """

    model: ModelConfig
    model_path: Path | None
    model_name: str
    device: torch.device
    monokernel: bool
    attention: str
    speculative: SpeculativeConfig | None
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    enable_prefix_caching: bool
    enforce_eager: bool
    sync_check: str
    seed: int

    @property
    def num_draft_tokens(self) -> int:
        """k, or 0 without drafting."""
        return 0 if self.speculative is None else self.speculative.num_speculative_tokens

    @staticmethod
    def make(
        *,
        model: str | Path | None = None,
        preset: str | None = None,
        model_name: str | None = None,
        device: torch.device | str | None = None,
        monokernel: bool | None = None,
        attention: str | None = None,
        speculative: SpeculativeConfig | str | None = SpeculativeConfig(),
        max_model_len: int | None = None,
        max_num_seqs: int = 32,
        max_num_batched_tokens: int | None = None,
        block_size: int = 64,
        num_blocks: int | None = None,
        enable_prefix_caching: bool = True,
        enforce_eager: bool = False,
        sync_check: str | None = None,
        seed: int = 0,
    ) -> EngineConfig:
        """A checked configuration.

        Args:
            model: checkpoint folder; without it and ``preset``, the trained one of this package.
            preset: a shape with random weights: "tiny", "small" or "bench".
            device: a GPU if there is one, else the CPU, when None.
            monokernel: None is on where there is a GPU, off on a CPU.
            attention: None is "dense" with monokernel on, "ragged" with it off.
            speculative: or its JSON; None turns drafting off.
            max_num_batched_tokens: 512 on a CPU, 2,048 on a GPU when None; never below one decode step of all
                requests.
            sync_check: the environment's ``ONELAUNCH_SYNC_CHECK``, or "off", when None.
            num_blocks: enough for ``max_num_seqs`` of the longest sequences when None, up to 4 GiB of cache.

        Raises:
            ValueError: an argument is out of range, or contradicts another.
        """
        if model is not None and preset is not None:
            raise ValueError(
                f"preset is {preset!r} and model is {str(model)!r}: at most one of the two must be given"
            )
        if preset is not None:
            one_of("preset", preset, tuple(PRESETS))
            shape = PRESETS[preset]
        else:
            model = DEFAULT_MODEL if model is None else model
            shape = ModelConfig.read(Path(model))
        chosen = check_device(("cuda" if torch.cuda.is_available() else "cpu") if device is None else device)
        on_gpu = chosen.type == "cuda"
        if isinstance(speculative, str):
            speculative = SpeculativeConfig.parse(speculative)
        k = 0 if speculative is None else speculative.num_speculative_tokens
        monokernel = on_gpu if monokernel is None else monokernel
        attention = ("dense" if monokernel else "ragged") if attention is None else attention
        one_of("attention", attention, _ATTENTION)
        sync_check = os.environ.get(_SYNC_CHECK, "off") if sync_check is None else sync_check
        one_of(_SYNC_CHECK, sync_check, MODES)
        longest = shape.max_position_embeddings
        max_model_len = longest if max_model_len is None else max_model_len
        for name, value, low, high in (
            ("max_model_len", max_model_len, 2, longest),
            ("max_num_seqs", max_num_seqs, 1, 4096),
            ("block_size", block_size, 1, 4096),
            ("seed", seed, 0, 2**63 - 1),
        ):
            require(name, value, is_int(value) and low <= value <= high, f"an integer from {low} to {high}")
        one_step = max_num_seqs * (1 + k)
        if max_num_batched_tokens is None:
            max_num_batched_tokens = max(2048 if on_gpu else 512, one_step)
        rows = max_num_batched_tokens
        require(
            "max_num_batched_tokens", rows, is_int(rows) and rows >= one_step,
            f"an integer of at least {one_step} (one decode step of max_num_seqs requests)",
        )  # fmt: skip
        needed = _blocks_of_one(shape, block_size, max_model_len, k)
        if num_blocks is None:
            num_blocks = 1 + min(needed * max_num_seqs, max(needed, _most_blocks(shape, block_size)))
        require(
            "num_blocks", num_blocks, is_int(num_blocks) and num_blocks > needed,
            f"an integer above {needed} (one sequence of {max_model_len} tokens, and the null block)",
        )  # fmt: skip
        return EngineConfig(
            model=shape,
            model_path=None if model is None else Path(model),
            model_name=model_name or preset or shape.name,
            device=chosen,
            monokernel=monokernel,
            attention=attention,
            speculative=speculative,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            block_size=block_size,
            num_blocks=num_blocks,
            enable_prefix_caching=enable_prefix_caching,
            enforce_eager=enforce_eager,
            sync_check=sync_check,
            seed=seed,
        )


_CACHE_BYTES = 4 << 30


def _blocks_of_one(shape: ModelConfig, block_size: int, max_model_len: int, k: int) -> int:
    """Blocks that the longest sequence may hold at once. A window group frees only between steps, so it
    counts
    whole: a prompt may be one chunk."""
    groups = cache_groups(shape, block_size, k)
    return sum(-(-(max_model_len + group.lookahead) // group.block_tokens) for group in groups)


def _most_blocks(shape: ModelConfig, block_size: int) -> int:
    layers = max(len(group.layers) for group in cache_groups(shape, block_size, 1))
    bytes_of_entry = 4 * (layers * shape.head_dim + len(shape.index_layers) * shape.index_head_dim)
    return _CACHE_BYTES // (block_size * bytes_of_entry)
