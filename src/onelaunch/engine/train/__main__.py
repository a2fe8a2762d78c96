"""``python -m onelaunch.engine.train``: the target, then its draft, into a checkpoint folder."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer
from rich.console import Console
from torch import Tensor

from onelaunch.engine.model.config import PRESETS
from onelaunch.engine.model.target import Model
from onelaunch.engine.model.weights import load_model, random_model, save_model
from onelaunch.engine.tokenizer import FILE_NAME
from onelaunch.engine.train.captured import captured
from onelaunch.engine.train.curves import draw
from onelaunch.engine.train.data import batches, read_tokenizer, train_tokenizer
from onelaunch.engine.train.draft import draft_loss
from onelaunch.engine.train.target import RouterLoads, target_loss

_WARMUP = 0.02
_FLOOR = 0.02  # of the peak learning rate, at the end
_SAVE_EVERY = 60.0  # seconds


def train(
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint. An unfinished training goes on.")],
    target_minutes: Annotated[float, typer.Option(help="Training time of the target.")] = 10.0,
    draft_minutes: Annotated[float, typer.Option(help="Training time of the draft.")] = 5.0,
    preset: Annotated[str, typer.Option(help="Shape of the model.")] = "small",
    start_from: Annotated[
        Path | None, typer.Option(help="Checkpoint whose shape, tokenizer and weights to begin with.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences of a step.")] = 8,
    length: Annotated[
        int, typer.Option(min=1, help="Tokens of a sequence: 8 examples, a question and its answer fit.")
    ] = 1536,
    short_length: Annotated[
        int, typer.Option(min=1, help="Tokens of a sequence at first, in as many more sequences.")
    ] = 384,
    short_share: Annotated[
        float, typer.Option(min=0, max=1, help="Of the target's time: short sequences teach the same faster.")
    ] = 0.6,
    learning_rate: Annotated[float, typer.Option(help="At its peak.")] = 2e-3,
    num_drafts: Annotated[int, typer.Option(min=1, help="k, draft tokens of a block.")] = 6,
    fuse: Annotated[
        bool,
        typer.Option(help="On a GPU, compile a step for a minute (torch.compile): it takes half the time."),
    ] = True,
    workers: Annotated[int, typer.Option(min=0, help="Processes that make problems.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and problems.")] = 0,
) -> None:
    """Train a model on generated word problems."""
    if importlib.util.find_spec("matplotlib") is None:  # now, and not after the training
        raise typer.BadParameter("matplotlib is not installed: pip install onelaunch[plots]")
    warnings.filterwarnings("ignore", module="torch._inductor")
    console = Console(soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if start_from is None:
        model, tokenizer = _new_model(preset, seed, device)
    else:
        model = load_model(start_from, device).float()
        tokenizer = read_tokenizer(start_from)
    tokenizer.save(str(out / FILE_NAME))
    short = max(1, batch_size * length // short_length), short_length
    phases = [
        _Phase(until, batches(tokenizer.to_str(), *shape_of, seed + number, workers))
        for number, (until, shape_of) in enumerate([(short_share, short), (1.0, (batch_size, length))])
        if until > 0
    ]
    trainer = _Trainer(model, out, device, learning_rate, console, fuse=fuse)
    # Router biases are balanced apart, by loads.
    learned = [(name, p) for name, p in model.named_parameters() if not name.endswith("router_bias")]
    loads = RouterLoads(model)

    def of_target(token_ids: Tensor, weights: Tensor) -> dict[str, Tensor]:
        return target_loss(model, token_ids, weights)

    def of_draft(token_ids: Tensor, weights: Tensor) -> dict[str, Tensor]:
        return draft_loss(model, token_ids, weights, num_drafts)

    target = [p for name, p in learned if not name.startswith("draft.")]
    trainer.run("target", target, target_minutes, phases, of_target, loads.balance)
    draft = [p for name, p in learned if name.startswith("draft.")]
    # Its blocks are as many in a batch of either length: short ones teach no faster.
    trainer.run("draft", draft, draft_minutes, [_Phase(1.0, phases[-1].data)], of_draft, loads.balance)
    save_model(model, out)
    (out / "training.json").write_text(json.dumps(trainer.history, indent=1) + "\n")
    draw(trainer.history, out / "training.png")
    console.print(f"{out} holds the checkpoint")


def _new_model(preset: str, seed: int, device: torch.device) -> tuple[Model, Any]:
    shape = PRESETS[preset]
    tokenizer = train_tokenizer(shape.vocab_size)
    named = {f"{name}_token_id": tokenizer.token_to_id(f"<|{name}|>") for name in ("bos", "eos", "noise")}
    config = dataclasses.replace(shape, name=f"onelaunch-{preset}", initializer_range=0.02, **named)
    model = random_model(dataclasses.replace(config, torch_dtype="float32"), seed, device)
    model.config = config
    return model, tokenizer


_Step = Callable[..., dict[str, Tensor]]


class _Phase(NamedTuple):
    """Batches of one shape, for a stage's time until the share ``until``."""

    until: float
    data: Iterator[tuple[Tensor, Tensor]]


class _Trainer:
    """Runs stages by the clock; what a stage has done is kept every minute, so that it can go on."""

    def __init__(
        self,
        model: Model,
        out: Path,
        device: torch.device,
        learning_rate: float,
        console: Console,
        *,
        fuse: bool,
    ) -> None:
        self._model, self._out, self._device = model, out, device
        self._learning_rate, self._console, self._fuse = learning_rate, console, fuse
        self._show_every = 200 if device.type == "cuda" else 20
        self.history: dict[str, list[dict[str, float]]] = {}

    def run(
        self,
        stage: str,
        parameters: list[torch.nn.Parameter],
        minutes: float,
        phases: Sequence[_Phase],
        loss_of: _Step,
        after_step: Callable[[], None],
    ) -> None:
        self._model.requires_grad_(False).train()
        for parameter in parameters:
            parameter.requires_grad_(True)
        matrices = [p for p in parameters if p.dim() > 1]
        others = [p for p in parameters if p.dim() <= 1]
        on_gpu = self._device.type == "cuda"
        rate = torch.zeros((), device=self._device)  # a captured step reads it
        optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
            lr=rate,
            betas=(0.9, 0.95),
            fused=on_gpu,
            capturable=on_gpu,
        )
        path = self._out / f"{stage}.unfinished.pt"
        elapsed, number = self._resume(stage, path, optimizer)
        for group in optimizer.param_groups:
            group["lr"] = rate

        # Not on a CPU: there a compiled step of the tiny preset gave NaN (torch 2.13).
        losses_of = torch.compile(loss_of, dynamic=False) if self._fuse and on_gpu else loss_of

        def step(*batch: Tensor) -> dict[str, Tensor]:
            with torch.autocast(self._device.type, torch.bfloat16):
                losses = losses_of(*batch)
            optimizer.zero_grad(set_to_none=not on_gpu)
            losses["total"].backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            after_step()
            return {name: value.detach() for name, value in losses.items()}

        began, saved = time.monotonic() - elapsed, time.monotonic()
        for phase in phases:
            run = None
            while (elapsed := time.monotonic() - began) < phase.until * minutes * 60:
                batch = next(phase.data)
                if run is None:
                    run, seconds = self._prepared(step, batch)
                    began += seconds  # it is not training
                rate.fill_(self._learning_rate * _schedule(elapsed / (minutes * 60)))
                losses = run(*batch)
                number += 1
                if number % self._show_every == 0:
                    self._show(stage, number, elapsed / 60, losses)
                if time.monotonic() - saved > _SAVE_EVERY:
                    self._keep(path, optimizer, elapsed, number)
                    saved = time.monotonic()
        self._keep(path, optimizer, minutes * 60, number)

    def _prepared(self, step: _Step, batch: tuple[Tensor, ...]) -> tuple[_Step, float]:
        """A step fit for batches of this shape, and the seconds that it took."""
        if self._device.type != "cuda":
            return step, 0.0
        began = time.monotonic()
        run = captured(step, batch, self._device)
        seconds = time.monotonic() - began
        shape = " x ".join(map(str, batch[0].shape))
        self._console.print(f"ready for batches of {shape} after {seconds:.0f} s", highlight=False)
        return run, seconds

    def _show(self, stage: str, number: int, minutes: float, losses: dict[str, Tensor]) -> None:
        values = {name: float(value) for name, value in losses.items() if name != "total"}
        self.history.setdefault(stage, []).append({"step": number, "minutes": minutes, **values})
        shown = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        self._console.print(f"{stage} {number:6} {minutes:5.1f} min  {shown}", highlight=False)

    def _keep(self, path: Path, optimizer: torch.optim.Optimizer, elapsed: float, step: int) -> None:
        state: dict[str, Any] = {
            "model": self._model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "elapsed": elapsed,
            "step": step,
            "history": self.history,
        }
        partial = path.with_suffix(".writing")
        torch.save(state, partial)
        partial.replace(path)

    def _resume(self, stage: str, path: Path, optimizer: torch.optim.Optimizer) -> tuple[float, int]:
        if not path.exists():
            return 0.0, 0
        state = torch.load(path, map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        self.history = state["history"]
        self._console.print(f"{stage} goes on after {state['step']} steps", highlight=False)
        return state["elapsed"], state["step"]


def _schedule(share: float) -> float:
    """Warm up, then a cosine down to the floor."""
    if share < _WARMUP:
        return share / _WARMUP
    return _FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


if __name__ == "__main__":
    typer.run(train)
