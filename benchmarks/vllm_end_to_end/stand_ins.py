"""What vLLM asks for that may be missing, and a fault to be found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def stand_in() -> None:
    """Replace what needs a library that may be missing, or a newer torch, in every arm alike."""
    import torch  # after vLLM, which sets what it wants of torch when it is imported
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


def plant_a_fault() -> Callable[[], None]:
    """One wrong integer in the last group of every launch, until the result is called."""
    from onelaunch import StepBuilder

    build = StepBuilder.build

    def wrong(self: StepBuilder, *args: Any) -> Any:
        step = build(self, *args)
        if self.backend == "kernel":
            self.buffers(self.groups[-1].name).lengths[0] += 1
        return step

    def restore() -> None:
        StepBuilder.build = build  # type: ignore[method-assign]

    StepBuilder.build = wrong  # type: ignore[method-assign]
    return restore
