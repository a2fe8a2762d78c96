"""The shape of a model: its sizes, its layers' kinds, and which KV-cache group each layer is in."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onelaunch.engine.checks import is_int, is_number, require
from onelaunch.topk import MAX_TOPK

MODEL_TYPE = "onelaunch_deepseek"
_DTYPES = ("float32", "bfloat16", "float16")
_SIZES = (
    "vocab_size", "hidden_size", "num_attention_heads", "head_dim", "rope_head_dim", "q_lora_rank",
    "sliding_window", "index_topk", "index_num_heads", "index_head_dim", "num_experts",
    "num_experts_per_token", "moe_intermediate_size", "draft_markov_rank", "num_draft_layers",
    "num_window_groups", "max_position_embeddings",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What ``config.json`` holds, in the Hugging Face layout.

    Attributes:
        compress_ratios: a layer each: 0 sees its window alone; r >= 1 also sees the top-k of compressed rows,
            each made of r tokens.
        index_layers: layers that score compressed rows and pick the top-k; the layers after one, of the same
            ratio, reuse its choice.
        sliding_window: W, tokens a row sees through the window.
        num_window_groups: KV-cache groups that the layers' window caches are spread over.
        draft_target_layers: layers whose outputs the draft reads.
        swiglu_limit: clamp of both halves of SwiGLU.
        noise_token_id: what the rows of a draft block hold after the anchor.
    """

    name: str
    vocab_size: int
    hidden_size: int
    num_attention_heads: int
    head_dim: int
    rope_head_dim: int
    q_lora_rank: int
    sliding_window: int
    compress_ratios: tuple[int, ...]
    index_layers: tuple[int, ...]
    index_topk: int
    index_num_heads: int
    index_head_dim: int
    num_experts: int
    num_experts_per_token: int
    moe_intermediate_size: int
    draft_target_layers: tuple[int, ...]
    draft_markov_rank: int
    num_draft_layers: int = 3
    num_window_groups: int = 4
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 7.0
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 4096
    bos_token_id: int = 256
    eos_token_id: int = 257
    noise_token_id: int = 258
    initializer_range: float = 0.02
    torch_dtype: str = "float32"
    model_type: str = field(default=MODEL_TYPE)

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            require(name, value, is_int(value) and value > 0, "an integer of at least 1")
        for name in ("compress_ratios", "index_layers", "draft_target_layers"):
            value = getattr(self, name)
            of_ints = isinstance(value, tuple) and all(map(is_int, value))
            require(name, value, of_ints, "a list of integers")
        for name in (
            "routed_scaling_factor",
            "swiglu_limit",
            "rope_theta",
            "rms_norm_eps",
            "initializer_range",
        ):
            value = getattr(self, name)
            require(name, value, is_number(value) and 0 < value < float("inf"), "a number above 0")
        for name in ("eos_token_id", "noise_token_id"):
            value = getattr(self, name)
            in_vocab = is_int(value) and 0 <= value < self.vocab_size
            require(name, value, in_vocab, f"0 to {self.vocab_size - 1}, the vocabulary")
        require("index_topk", self.index_topk, self.index_topk <= MAX_TOPK, f"at most {MAX_TOPK}")
        layers = range(self.num_hidden_layers)
        require("compress_ratios", self.compress_ratios, bool(layers), "a list of one ratio a layer")
        require(
            "compress_ratios",
            self.compress_ratios,
            all(r in (0, 1, 2) for r in self.compress_ratios),
            "0, 1 or 2",
        )
        for layer, ratio in enumerate(self.compress_ratios):
            if ratio and self.index_layer_of(layer) is None:
                raise ValueError(
                    f"index_layers is {self.index_layers}: it must have a layer "
                    f"of ratio {ratio} at or before {layer}"
                )
        for name in ("index_layers", "draft_target_layers"):
            value = getattr(self, name)
            require(name, value, all(layer in layers for layer in value), f"layers below {len(layers)}")
        read = self.draft_target_layers
        require("draft_target_layers", read, bool(read), "not empty")
        require(
            "draft_target_layers", read, sorted(set(read)) == list(read), "different layers in rising order"
        )
        half = 0 < self.rope_head_dim < self.head_dim and self.rope_head_dim % 2 == 0
        require(
            "rope_head_dim", self.rope_head_dim, half, f"even, above 0 and below head_dim {self.head_dim}"
        )
        experts = 1 <= self.num_experts_per_token <= self.num_experts
        require("num_experts_per_token", self.num_experts_per_token, experts, f"1 to {self.num_experts}")
        groups = 1 <= self.num_window_groups <= self.num_hidden_layers
        require(
            "num_window_groups", self.num_window_groups, groups, f"1 to {self.num_hidden_layers} (layers)"
        )
        require("torch_dtype", self.torch_dtype, self.torch_dtype in _DTYPES, f"one of {', '.join(_DTYPES)}")
        require("model_type", self.model_type, self.model_type == MODEL_TYPE, MODEL_TYPE)

    @property
    def num_hidden_layers(self) -> int:
        return len(self.compress_ratios)

    @property
    def ratios(self) -> tuple[int, ...]:
        """The compression ratios that occur, each with one KV-cache group."""
        return tuple(sorted(set(self.compress_ratios) - {0}))

    def index_layer_of(self, layer: int) -> int | None:
        """The layer whose top-k a compressed ``layer`` reads; None for a window-only one."""
        ratio = self.compress_ratios[layer]
        chosen = [i for i in self.index_layers if i <= layer and self.compress_ratios[i] == ratio]
        return chosen[-1] if ratio and chosen else None

    def window_group_of(self, layer: int) -> int:
        """Layers go to the window groups in turn."""
        return layer % self.num_window_groups

    @staticmethod
    def read(folder: Path) -> ModelConfig:
        """``config.json`` of a checkpoint.

        Raises:
            OSError: it can't be read.
            ValueError: it is not JSON, not of this kind of model, or a field is missing or out of range.
        """
        path = folder / "config.json"
        try:
            values = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if not isinstance(values, dict) or values.get("model_type") != MODEL_TYPE:
            kind = values.get("model_type") if isinstance(values, dict) else type(values).__name__
            raise ValueError(f"{path}: model_type is {kind!r}: it must be {MODEL_TYPE!r}")
        fields = {f.name: f for f in dataclasses.fields(ModelConfig)}
        required = [name for name, f in fields.items() if f.default is dataclasses.MISSING]
        for name in required:
            if name not in values:
                raise ValueError(f"{path} has no {name}")
        layers = values.get("num_hidden_layers", len(values["compress_ratios"]))
        if layers != len(values["compress_ratios"]):
            raise ValueError(f"{path}: num_hidden_layers is {layers}: it must be compress_ratios' length")
        known = {name: _tuple(value) for name, value in values.items() if name in fields}
        return ModelConfig(**known)

    def write(self, folder: Path) -> None:
        """``config.json`` into ``folder``."""
        values = {**dataclasses.asdict(self), "architectures": ["OnelaunchForCausalLM"]}
        (folder / "config.json").write_text(json.dumps(values, indent=2) + "\n")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


PRESETS = {
    # For tests on a CPU: every kind of layer once, in four window groups.
    "tiny": ModelConfig(
        name="tiny",
        vocab_size=264,
        hidden_size=64,
        num_attention_heads=4,
        head_dim=32,
        rope_head_dim=16,
        q_lora_rank=32,
        sliding_window=32,
        compress_ratios=(0, 1, 2, 2),
        index_layers=(1, 2),
        index_topk=16,
        index_num_heads=2,
        index_head_dim=16,
        num_experts=4,
        num_experts_per_token=2,
        moe_intermediate_size=32,
        draft_target_layers=(1, 3),
        draft_markov_rank=16,
        max_position_embeddings=8192,
        # As wide as random weights must be for answers to depend on the prompt.
        initializer_range=0.15,
    ),
    # About 6 million parameters: what is trained, and served on a CPU.
    "small": ModelConfig(
        name="small",
        vocab_size=1024,
        hidden_size=192,
        num_attention_heads=6,
        head_dim=64,
        rope_head_dim=32,
        q_lora_rank=96,
        sliding_window=128,
        compress_ratios=(0, 0, 1, 1, 2, 2, 1, 2),
        index_layers=(2, 4),
        index_topk=64,
        index_num_heads=4,
        index_head_dim=32,
        num_experts=6,
        num_experts_per_token=2,
        moe_intermediate_size=96,
        draft_target_layers=(1, 4, 7),
        draft_markov_rank=64,
        max_position_embeddings=4096,
        torch_dtype="bfloat16",
    ),
    # For an H200: a decode step of one to three milliseconds, most of it launches as in the real model.
    "bench": ModelConfig(
        name="bench",
        vocab_size=32768,
        hidden_size=2048,
        num_attention_heads=32,
        head_dim=128,
        rope_head_dim=64,
        q_lora_rank=512,
        sliding_window=128,
        compress_ratios=(0, 1, 2, 1, 2, 2),
        index_layers=(1, 2),
        index_topk=512,
        index_num_heads=16,
        index_head_dim=64,
        num_experts=8,
        num_experts_per_token=2,
        moe_intermediate_size=512,
        draft_target_layers=(1, 3, 5),
        draft_markov_rank=256,
        max_position_embeddings=8192,
        torch_dtype="bfloat16",
    ),
}
