"""What an engine may be started with."""

from __future__ import annotations

import json

import pytest

from onelaunch.engine.config import EngineConfig, SpeculativeConfig
from onelaunch.engine.model import PRESETS, ModelConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "tiny", "model": "x"}, "preset is 'tiny' and model is 'x': at most one"),
        ({"preset": "huge"}, "preset is 'huge': it must be one of tiny, small, bench"),
        ({"preset": "tiny", "attention": "flash"}, "attention is 'flash': it must be one of dense, ragged"),
        ({"preset": "tiny", "max_model_len": 9000}, "max_model_len is 9000: it must be an integer from 2 to"),
        ({"preset": "tiny", "max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"preset": "tiny", "max_num_batched_tokens": 223}, "at least 224 .one decode step of max_num_seqs"),
        ({"preset": "tiny", "num_blocks": 20}, "num_blocks is 20: it must be an integer above"),
        ({"preset": "tiny", "device": "tpu"}, "device is 'tpu'"),
        ({"preset": "tiny", "sync_check": "loud"}, "ONELAUNCH_SYNC_CHECK is 'loud': it must be one of"),
        ({"preset": "tiny", "speculative": "{"}, "speculative-config is '{': it must be a JSON object"),
        ({"preset": "tiny", "speculative": "[]"}, "must be a JSON object"),
        ({"preset": "tiny", "speculative": '{"tokens": 3}'}, "unknown key 'tokens'"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        EngineConfig.make(**options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "eagle"}, "method is 'eagle': it must be one of dspark"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens is 0: it must be an integer from 1 to 32"),
        ({"num_speculative_tokens": True}, "num_speculative_tokens is True"),
        ({"draft_sample_method": "beam"}, "draft_sample_method is 'beam'"),
        ({"rejection_sample_method": "fly"}, "rejection_sample_method is 'fly'"),
        ({"rejection_sample_method": "synthetic"}, "synthetic_acceptance_length is None: it must be given"),
        (
            {"synthetic_acceptance_length": 3.0},
            "synthetic_acceptance_length is 3.0: it must be given with",
        ),
        (
            {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 8},
            "synthetic_acceptance_length is 8: it must be 1 to 7",
        ),
        ({"adaptive_verification": 0}, "adaptive_verification is 0: it must be above 0 and at most 1"),
    ],
)
def test_wrong_speculation_is_named(values, message):
    with pytest.raises(ValueError, match=message):
        SpeculativeConfig.parse(json.dumps(values))


def test_defaults_follow_from_the_machine_and_from_each_other(monkeypatch):
    config = EngineConfig.make(preset="tiny", device="cpu")
    assert (config.monokernel, config.attention, config.num_draft_tokens) == (False, "ragged", 6)
    assert EngineConfig.make(preset="tiny", device="cpu", monokernel=True).attention == "dense"
    assert EngineConfig.make(preset="tiny", device="cpu", speculative=None).num_draft_tokens == 0
    monkeypatch.setenv("ONELAUNCH_SYNC_CHECK", "error")
    assert EngineConfig.make(preset="tiny", device="cpu").sync_check == "error"


def test_a_models_shape_is_written_and_read(tmp_path):
    for shape in PRESETS.values():
        shape.write(tmp_path)
        assert ModelConfig.read(tmp_path) == shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("hidden_size"), "has no hidden_size"),
        (lambda v: v.update(model_type="llama"), "model_type is 'llama': it must be 'onelaunch_deepseek'"),
        (lambda v: v.update(compress_ratios=[0, 3]), r"compress_ratios is \(0, 3\): it must be 0, 1 or 2"),
        (
            lambda v: v.update(index_layers=[2]),
            "index_layers is .2,.: it must have a layer of ratio 1",
        ),
        (lambda v: v.update(rope_head_dim=15), "rope_head_dim is 15: it must be even"),
        (lambda v: v.update(num_experts_per_token=9), "num_experts_per_token is 9: it must be 1 to 4"),
        (lambda v: v.update(torch_dtype="int8"), "torch_dtype is 'int8'"),
        (lambda v: v.update(index_topk=0), "index_topk is 0: it must be an integer of at least 1"),
        (lambda v: v.update(index_topk=4096), "index_topk is 4096: it must be at most 2048"),
        (lambda v: v.update(eos_token_id=264), "eos_token_id is 264: it must be 0 to 263"),
        (lambda v: v.update(noise_token_id=999), "noise_token_id is 999"),
        (lambda v: v.update(draft_target_layers=[1, 1]), "draft_target_layers is .* different layers"),
        (lambda v: v.update(hidden_size="64"), "hidden_size is '64': it must be an integer"),
        (
            lambda v: v.update(compress_ratios=[0, "1"]),
            "compress_ratios is .*: it must be a list of integers",
        ),
        (lambda v: v.update(rms_norm_eps=-1), "rms_norm_eps is -1"),
        (lambda v: v.update(num_hidden_layers=99), "num_hidden_layers is 99"),
    ],
)
def test_a_wrong_model_shape_is_named(tmp_path, change, message):
    PRESETS["tiny"].write(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    change(values)
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=message):
        ModelConfig.read(tmp_path)


def test_a_shape_that_is_not_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is not JSON"):
        ModelConfig.read(tmp_path)
