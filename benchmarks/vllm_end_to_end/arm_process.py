"""The process of an arm, as the one that starts it sees it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_name("vllm_arm.py")
_CACHE = Path(tempfile.gettempdir()) / "vllm-end-to-end"

begun = time.perf_counter()


def say(line: str) -> None:
    """Print it, with the seconds since the start."""
    print(f"{time.perf_counter() - begun:7.1f} s  {line}", flush=True)


class Arm:
    """A child process and what it has answered."""

    def __init__(self, variant: str, name: str, root: Path, patience: float) -> None:
        self.variant, self.name = variant, name
        self.label = f"{variant} {name}"
        self.log = root / f"{variant}-{name}.log"
        self.stage, self.error = "start", ""
        self.answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        environment = {
            **os.environ,
            "ONELAUNCH": str(int(name != "off")),
            "ONELAUNCH_CASE_DIR": str(root),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_LEVEL": "INFO",  # where the plug-in says that it is armed
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_USE_FLASHINFER_SAMPLER": "0",
            "VLLM_DEEP_GEMM_WARMUP": "skip",
            "VLLM_CACHE_ROOT": str(_CACHE),
            "DG_JIT_CACHE_DIR": str(_CACHE / "deep_gemm"),  # compiled by one arm for all, and for later runs
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_HOST_IP": "127.0.0.1",  # there may be no network to find an address on
            "GLOO_SOCKET_IFNAME": "lo",
            "NCCL_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        folder = root / variant.removesuffix("-eager")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(_SCRIPT), variant, name, str(folder), str(patience)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,  # ended with the compilers that it started
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            self.stage = answer["stage"]
            if "error" in answer:
                self.error = answer["error"]
                say(f"{self.label}: FAILED at {self.stage}: {self.error.strip().splitlines()[-1][:200]}")
            elif "found" in answer or "failed" in answer:
                self.answers.put(answer)
            else:
                say(f"{self.label}: {self.stage}")
        if not self.error:
            code = self.process.wait()
            self.error = f"the process ended with {code}; its log ends:\n{self.tail()}"
        self.answers.put(None)

    @property
    def ready(self) -> bool:
        return self.stage == "ready" and not self.error

    def tail(self, lines: int = 40) -> str:
        return "\n".join(line[:300] for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def ask(self, do: str, seconds: float = 60, **arguments: Any) -> Any:
        """What the arm answers; RuntimeError if it fails or does not."""
        if self.error:
            raise RuntimeError(f"{self.label}: {self.error}")
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, "with": arguments}) + "\n")
        self.process.stdin.flush()
        try:
            found = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"{self.label}: no answer in {seconds:.0f} s:\n{self.tail()}") from None
        if found is None or "failed" in found:
            raise RuntimeError(f"{self.label}: {self.error if found is None else found['failed']}")
        return found["found"]

    def end(self) -> None:
        self.error = self.error or f"ended at {self.stage}"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
