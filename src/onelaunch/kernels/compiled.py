"""Compiled kernels: loaded ahead of time, and launched without Triton's binding of arguments.

Everything that a step may vary is a run-time argument without specialization, so a step can't trigger a
compilation; and Triton's per-call work, which costs more than the launch itself, is done once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onelaunch._triton import interpreted, triton
from onelaunch.launches import launched


def require_interpreter() -> None:
    """Raise RuntimeError unless kernels run in Triton's interpreter, as they must on a CPU."""
    if not interpreted():
        raise RuntimeError(
            "backend='kernel' on a CPU runs in Triton's interpreter: import onelaunch before triton, "
            "or set TRITON_INTERPRET=1 before either is imported"
        )


def current_target() -> Any:
    """The ``GPUTarget`` of the current device."""
    from triton.runtime import driver

    return driver.active.get_current_target()


def is_amd(target: Any) -> bool:
    """Whether a ``GPUTarget``, None in the interpreter, is AMD's."""
    return target is not None and target.backend == "hip"


def supports_dependent_launch(target: Any) -> bool:
    """Whether a kernel may be started while the one ahead still runs (programmatic dependent launch)."""
    return target is not None and target.backend == "cuda" and target.arch >= 90


def load(compile_kernel: Callable[[], Any], device_index: int) -> Any:
    """Compile a kernel for a device and load it there: a lazy load could fall into a graph capture."""
    with torch.cuda.device(device_index):
        kernel = compile_kernel()
        kernel._init_handles()
    return kernel


def launcher(
    compiled: Any, grid: tuple[int, int, int], device_index: int, arguments: tuple[Any, ...], name: str
) -> Callable[[], None]:
    """A function that launches a compiled kernel with fixed arguments on the current stream.

    It calls the compiled kernel as Triton's own runner does. A profiler's launch hooks, when set, are called
    with their metadata.
    """
    hooks = triton.knobs.runtime
    enter, leave = hooks.launch_enter_hook, hooks.launch_exit_hook
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    x, y, z = grid
    current_stream = torch._C._cuda_getCurrentRawStream
    current_device = torch._C._cuda_getDevice

    def launch() -> None:
        if current_device() != device_index:
            with torch.cuda.device(device_index):
                launch()
            return
        stream = current_stream(device_index)
        if enter.calls or leave.calls:
            details = compiled.launch_metadata(grid, stream, *arguments)
            run(x, y, z, stream, function, metadata, details, enter, leave, *arguments)
        else:
            run(x, y, z, stream, function, metadata, None, None, None, *arguments)
        launched(name)

    return launch
