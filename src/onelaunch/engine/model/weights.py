"""A model from a checkpoint folder, or with random weights, and back into one."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from onelaunch.engine.model.config import ModelConfig
from onelaunch.engine.model.target import Model

FILE_NAME = "model.safetensors"
# In standard deviations of the random weights: acceptance lengths of 1.5 to 2, at which a changed context
# still changes nine of ten tokens.
_EMBEDDING_LEAN, _HEAD_LEAN, _BIAS_LEAN = 50.0, 4.0, 13.0


def random_model(config: ModelConfig, seed: int, device: torch.device) -> Model:
    """A model whose weights follow from ``seed``, the same on every device: where training begins."""
    return _ready(_random_model(config, torch.Generator().manual_seed(seed)), device)


def untrained_model(config: ModelConfig, seed: int, device: torch.device) -> Model:
    """A model to serve without a checkpoint: random weights, and bigrams that target and draft share.

    Of weights that are random alone a draft is never right, so nothing of speculation would be seen but
    rejections. Here a token's embedding leans towards what the head makes of its successors, and the draft's
    Markov head knows the same table. A part of the drafts is then accepted; the context still decides.
    """
    generator = torch.Generator().manual_seed(seed)
    model = _random_model(config, generator)
    rank, scale = config.draft_markov_rank, config.initializer_range
    width = min(rank, config.hidden_size)

    def table() -> Tensor:
        return torch.randn(config.vocab_size, rank, generator=generator)

    token, successor = table(), table()
    with torch.no_grad():
        model.embed.weight[:, :width] += _EMBEDDING_LEAN * scale * token[:, :width]
        model.lm_head.weight[:, :width] += _HEAD_LEAN * scale * successor[:, :width]
        model.draft.markov_embed.weight.copy_(token)
        model.draft.markov_bias.weight.copy_(_BIAS_LEAN * scale * successor)
    return _ready(model, device)


def _random_model(config: ModelConfig, generator: torch.Generator) -> Model:
    model = Model(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0.0, config.initializer_range, generator=generator)
            else:
                nn.init.constant_(parameter, 1.0 if name.endswith("norm.weight") else 0.0)
    return model


def load_model(folder: Path, device: torch.device) -> Model:
    """The checkpoint of ``folder``: ``config.json`` and ``model.safetensors``.

    Raises:
        OSError: a file can't be read.
        ValueError: a tensor is missing, unknown, or of another shape or dtype; the message names it.
    """
    import safetensors

    model = Model(ModelConfig.read(folder))
    path = folder / FILE_NAME
    wanted = model.state_dict()
    dtype = getattr(torch, model.config.torch_dtype)
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
            names = set(file.keys())
            for name in wanted:
                if name not in names:
                    raise ValueError(f"{path} has no tensor {name}")
            for name in sorted(names):
                if name not in wanted:
                    raise ValueError(
                        f"{path} has the tensor {name}, which a {model.config.name!r} model has not"
                    )
                tensor = file.get_tensor(name)
                if tensor.shape != wanted[name].shape or tensor.dtype is not dtype:
                    raise ValueError(
                        f"{path}: {name} is {tensor.dtype} {list(tensor.shape)}: "
                        f"it must be {dtype} {list(wanted[name].shape)}"
                    )
                with torch.no_grad():
                    wanted[name].copy_(tensor)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    return _ready(model, device)


def save_model(model: Model, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors``, in the config's dtype."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model.config.write(folder)
    dtype = getattr(torch, model.config.torch_dtype)
    save_file(
        {name: t.to("cpu", dtype).contiguous() for name, t in model.state_dict().items()}, folder / FILE_NAME
    )


def _ready(model: Model, device: torch.device) -> Model:
    # float32 on a CPU whatever the checkpoint's dtype: bfloat16 is emulated there, at a tenth of the speed.
    dtype = torch.float32 if device.type == "cpu" else getattr(torch, model.config.torch_dtype)
    rotary = model.rotary.cos, model.rotary.sin
    model = model.to(device, dtype).eval().requires_grad_(False)
    # Angles stay float32: in bfloat16 neighbouring positions would share one.
    model.rotary.cos, model.rotary.sin = (table.to(device) for table in rotary)
    return model
