"""Checkpoints and tokenizers."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.model import PRESETS
from onelaunch.engine.model.weights import load_model, save_model, untrained_model
from onelaunch.engine.tokenizer import Tokenizer

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path):
    save_model(untrained_model(PRESETS["tiny"], 5, CPU), tmp_path)
    return tmp_path


def test_a_saved_model_answers_as_before(folder):
    params = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True)
    [want] = LLM(preset="tiny", seed=5, device="cpu").generate(["abc"], params)
    [got] = LLM(model=folder, device="cpu").generate(["abc"], params)
    assert got.token_ids == want.token_ids


def test_the_seed_decides_random_weights():
    first, same, other = (untrained_model(PRESETS["tiny"], seed, CPU).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("draft.main.weight"), "has no tensor draft.main.weight"),
        (lambda t: t.update(extra=torch.zeros(1)), "has the tensor extra, which a 'tiny' model has not"),
        (
            lambda t: t.update({"embed.weight": torch.zeros(3, 64)}),
            r"embed.weight is torch.float32 \[3, 64\]: it must be torch.float32 \[264, 64\]",
        ),
        (
            lambda t: t.update({"embed.weight": t["embed.weight"].half()}),
            r"embed.weight is torch.float16 \[264, 64\]: it must be torch.float32",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder, change, message):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(ValueError, match=message):
        load_model(folder, CPU)


def test_a_file_that_is_no_checkpoint_is_named(folder):
    (folder / "model.safetensors").write_bytes(b"not tensors at all")
    with pytest.raises(ValueError, match=r"model.safetensors is not a safetensors file"):
        load_model(folder, CPU)
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError):
        load_model(folder, CPU)


def test_bytes_are_tokens_and_come_back():
    tokenizer = Tokenizer.load(None, PRESETS["tiny"])
    text = "2 + 3 = 5, né à Zürich 東京\n\t"
    ids = tokenizer.encode(text)
    assert len(ids) == len(text.encode())
    assert max(ids) < 256
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode("a<|eos|>")[-1] == tokenizer.eos_token_id == 257
    assert tokenizer.decode([*ids, 257]) == text


def test_a_chat_becomes_a_prompt():
    tokenizer = Tokenizer.load(None, PRESETS["tiny"])
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(chat) == "<|system|>Be brief.<|user|>Hi<|assistant|>"
    with pytest.raises(ValueError, match="role is 'tool': it must be one of system, user, assistant"):
        tokenizer.apply_chat_template([{"role": "tool", "content": ""}])
    with pytest.raises(ValueError, match="messages is empty"):
        tokenizer.apply_chat_template([])


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer"):
        Tokenizer.load(tmp_path, PRESETS["tiny"])
