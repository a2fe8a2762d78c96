"""A DeepSeek-V4.1 small enough for a minute, in the layout that vLLM 0.33 reads, and what it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DRAFTS = 6
PROMPTS = 40, 300  # tokens: the second is past the window of 128 when it starts
PROFILED_STEPS = 16

# Layers 1 and 3 make the compressed caches, of ratio 2 and 1, and layer 2 reads the first. The last layer
# makes one so that vLLM has no layers to leave out of a prefill.
FULL = {
    "compress_ratios": [0, 2, 2, 1, 0, 0, 0],
    "kv_source_layer_ids": [1, 3],
    "index_source_layer_ids": [1, 3],
}
# vLLM takes the last source whether there is one or not: -1 is a layer that no layer is.
WINDOW = {"compress_ratios": [0] * 7, "kv_source_layer_ids": [-1], "index_source_layer_ids": [-1]}

# 64 heads of 512, 64 of it rotated, are what FlashMLA takes; the indexer's 32 of 128 what DeepGEMM does.
TEXT: dict[str, Any] = {
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
    "dspark_block_size": DRAFTS,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def write_configs(root: Path) -> None:
    """A folder for each kind of model, "full" and "window", with its config.json."""
    for name, layers in {"full": FULL, "window": WINDOW}.items():
        (root / name).mkdir(exist_ok=True)
        config = {
            "model_type": "deepseek_v41",
            "architectures": ["DeepseekV41ForCausalLM"],
            "torch_dtype": "bfloat16",
            "text_config": {**TEXT, **layers},
        }
        (root / name / "config.json").write_text(json.dumps(config))
