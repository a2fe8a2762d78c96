"""What an event of a trace is: by its category, its name, and the runtimes' own names of launches."""

from __future__ import annotations

import re
from enum import IntEnum


class Gpu(IntEnum):
    """What ran on the GPU. All but copies from or to the host are launches, unless they are in a graph."""

    KERNEL = 0
    MEMSET = 1
    DEVICE_COPY = 2
    HOST_COPY = 3


class Call(IntEnum):
    """What a runtime call does."""

    OTHER = 0
    LAUNCH = 1
    GRAPH_LAUNCH = 2


# Cooperative launches are how NCCL and grid-wide kernels start.
_LAUNCH = re.compile(
    r"cuda(Launch(Cooperative)?Kernel(MultiDevice)?|LaunchKernelExC)"
    r"|cuLaunch(Cooperative)?Kernel(Ex|MultiDevice)?"
    r"|hip(Ext)?LaunchKernel\w*|hipLaunchCooperativeKernel\w*"
    r"|hip(Ext)?ModuleLaunch(Cooperative)?Kernel\w*"
)
_GRAPH_LAUNCH = re.compile(r"(cuda|cu|hip)GraphLaunch")
_SUFFIX = re.compile(r"(_ptsz|_ptds|_spt)?(_v\d+)?$")
# Kineto: "Memcpy HtoD (Pageable -> Device)"; roctracer: "CopyHostToDevice", as a name or as args.kind.
_HOST_COPY = re.compile(r"HtoD|DtoH|HtoH|HtoA|AtoH|HostTo|ToHost|(?:Host|Pageable|Pinned|Managed) ->|-> Host")
_HOST_COPY_TO = re.compile(r"-> (?:Pageable|Pinned)")

# Names before PyTorch 1.13 were "Kernel", "Memcpy", "Memset" and "Runtime".
_GPU = {
    "kernel": Gpu.KERNEL,
    "concurrent_kernel": Gpu.KERNEL,
    "gpu_memset": Gpu.MEMSET,
    "memset": Gpu.MEMSET,
    "gpu_memcpy": Gpu.DEVICE_COPY,
    "memcpy": Gpu.DEVICE_COPY,
}
_COPY = re.compile(r"^(Memcpy |Copy(Host|Device)To)")


def runtime_name(name: str) -> str:
    """``cudaLaunchKernel_v7000`` without its version."""
    return _SUFFIX.sub("", name, count=1)


def call_kind(name: str) -> Call:
    """Of a runtime call, by its name without a version."""
    if _LAUNCH.fullmatch(name):
        return Call.LAUNCH
    return Call.GRAPH_LAUNCH if _GRAPH_LAUNCH.fullmatch(name) else Call.OTHER


def is_runtime(category: str) -> bool:
    """Whether events of this category, in lower case, are calls of CUDA's or HIP's runtime or driver."""
    return category.endswith(("runtime", "driver"))


def gpu_kind(category: str, name: str, kind: str) -> Gpu | None:
    """Of an event with this (lower-case) category, name and ``args.kind``; None if not of a GPU."""
    found = _GPU.get(category)
    # Some ROCm traces have copies among the kernels.
    if found == Gpu.KERNEL and _COPY.match(name):
        found = Gpu.DEVICE_COPY
    if found == Gpu.DEVICE_COPY:
        text = f"{name} {kind}"
        if _HOST_COPY.search(text) or _HOST_COPY_TO.search(text):
            return Gpu.HOST_COPY
    return found
