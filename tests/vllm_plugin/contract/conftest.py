"""Contract tests: vLLM's own code is the reference. Without vLLM they are skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

if importlib.util.find_spec("vllm") and not torch.cuda.is_available():
    # Before anything imports Triton. Set but empty: vLLM then keeps the real Triton although there is no GPU.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture
def plugin(monkeypatch, tmp_path):
    """The plug-in on vLLM, armed after two equal builds; vLLM's own functions are back afterwards."""
    import onelaunch.vllm_plugin as plugin
    from onelaunch.vllm_plugin import counters, guard, patches
    from onelaunch.vllm_plugin.plan import forget_plans

    monkeypatch.setenv("ONELAUNCH", "1")
    monkeypatch.setenv("ONELAUNCH_VERIFY_BUILDS", "2")
    monkeypatch.setenv("ONELAUNCH_CASE_DIR", str(tmp_path))
    monkeypatch.setenv("ONELAUNCH_ROCM_DRAFT_UPDATE", "1")
    counters.counts.clear()
    yield plugin
    patches.remove()
    guard.rearm()
    forget_plans()
