"""Small traces of the profiler's shape, made by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path


class TraceMaker:
    """Events in the order they are added; a correlation id a launch."""

    def __init__(self, process: int = 100, thread: int = 1, device: int = 0) -> None:
        self.events: list[dict] = [
            {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}}
        ]
        self.process, self.thread, self.device = process, thread, device
        self.correlation = 0

    def add(self, category: str, name: str, at: float, duration: float, pid, tid, **args) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": at,
                "dur": duration,
                "args": args,
            }
        )

    def annotate(self, name: str, at: float, duration: float, thread: int | None = None) -> None:
        tid = self.thread if thread is None else thread
        self.add("user_annotation", name, at, duration, self.process, tid)

    def annotate_gpu(self, name: str, at: float, duration: float, stream: int = 7) -> None:
        self.add("gpu_user_annotation", name, at, duration, self.device, stream)

    def call(self, name: str, at: float, category: str = "cuda_runtime", duration: float = 2) -> int:
        self.correlation += 1
        args = {"correlation": self.correlation}
        self.add(category, name, at, duration, self.process, self.thread, **args)
        return self.correlation

    def on_gpu(
        self, name: str, at: float, correlation: int | None = None, category: str = "kernel", **args
    ) -> None:
        args = {"device": self.device, "stream": 7, **args}
        if correlation is not None:
            args["correlation"] = correlation
        self.add(category, name, at, args.pop("duration", 3), self.device, args["stream"], **args)

    def launch(
        self,
        kernel: str,
        at: float,
        call: str = "cudaLaunchKernel",
        category: str = "kernel",
        late: float = 1000,
        **args,
    ) -> int:
        """A call, and its event on the GPU ``late`` microseconds after."""
        of_call = "cuda_driver" if call.startswith("cu") and not call.startswith("cuda") else "cuda_runtime"
        correlation = self.call(call, at, of_call)
        self.on_gpu(kernel, at + late, correlation, category, **args)
        return correlation

    def graph(self, nodes: list[str], at: float, call: str = "cudaGraphLaunch", late: float = 1000) -> int:
        correlation = self.call(call, at)
        for i, node in enumerate(nodes):
            self.on_gpu(node, at + late + 4 * i, correlation)
        return correlation

    def write(self, path: Path) -> Path:
        text = json.dumps({"schemaVersion": 1, "traceEvents": self.events})
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path
