"""The stand-in for vLLM, and a plug-in that has seen nothing."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def vllm(monkeypatch, tmp_path):
    """The stand-in's modules by name; gone afterwards, and nothing of them patched."""
    from onelaunch.vllm_plugin import counters, guard, patches
    from onelaunch.vllm_plugin.plan import forget_plans
    from vllm_plugin import fake_vllm

    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    modules = fake_vllm.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("ONELAUNCH", raising=False)
    monkeypatch.setenv("ONELAUNCH_VERIFY_BUILDS", "2")
    monkeypatch.setenv("ONELAUNCH_CASE_DIR", str(tmp_path))
    counters.counts.clear()
    yield modules
    patches.remove()
    guard.rearm()
    forget_plans()
    assert [vars(holder)[name] for holder, name in fake_vllm.PATCHED] == fake_vllm.OWN


@pytest.fixture
def on(monkeypatch):
    monkeypatch.setenv("ONELAUNCH", "1")
