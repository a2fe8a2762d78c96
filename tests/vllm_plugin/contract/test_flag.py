"""The flag in vLLM's configuration, seen from the places where vLLM loads plug-ins."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm has it")

from onelaunch.vllm_plugin import settings


class Loaded(Exception):
    pass


@pytest.fixture
def seen(monkeypatch):
    """What the plug-in makes of the flag when vLLM loads plug-ins, which ends the call that does."""
    found: list[bool] = []

    def load() -> None:
        found.append(settings.requested())
        raise Loaded

    monkeypatch.delenv("ONELAUNCH", raising=False)
    monkeypatch.setattr("vllm.plugins.load_general_plugins", load)
    return found


def worker(config):
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    wrapper = object.__new__(WorkerWrapperBase)
    wrapper.rpc_rank = 0
    wrapper.init_worker([{"vllm_config": config}])


def engine_core(config):
    from vllm.v1.engine.core import EngineCore

    EngineCore(config, mock.Mock(), log_stats=False)


def engine_args(config):
    from vllm.engine.arg_utils import EngineArgs

    EngineArgs(model="none", additional_config=config.additional_config)


@pytest.mark.parametrize("additional", [{"onelaunch": True}, {"onelaunch": False}, {}])
@pytest.mark.parametrize("load", [worker, engine_core, engine_args])
def test_the_flag_is_found_wherever_vllm_loads_plugins(seen, load, additional):
    config = SimpleNamespace(additional_config=additional, enable_trace_function_call_for_thread=lambda: None)
    with pytest.raises(Loaded):
        load(config)
    assert seen == [additional.get("onelaunch", False)]


IMPORTS = """
import sys
import onelaunch.vllm_plugin as plugin

plugin.register()
assert plugin.status().registered
later = [name for name in sys.modules if name.startswith("vllm.v1.")]
assert not later, later
assert "onelaunch._triton" not in sys.modules

from vllm.v1.worker.gpu import attn_utils
from vllm.v1.worker.gpu.model_states import default
from vllm.v1.worker.gpu.spec_decode.dflash import cudagraph

patched = attn_utils.build_attn_metadata
assert patched.__wrapped__ is not patched
assert default.build_attn_metadata is patched
assert cudagraph.build_attn_metadata is patched

from vllm.v1.attention.backends.mla import sparse_swa

assert hasattr(sparse_swa.DeepseekSparseSWAMetadataBuilder.build, "__wrapped__")
assert plugin.status().patched == (
    "vllm.v1.attention.backends.mla.sparse_swa.DeepseekSparseSWAMetadataBuilder",
)
"""


def test_vllm_is_patched_as_it_is_imported_and_no_earlier(monkeypatch):
    monkeypatch.setenv("ONELAUNCH", "1")
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


EARLY_LOAD = """
import multiprocessing
import sys
from types import SimpleNamespace
from unittest import mock

import vllm.plugins
import onelaunch.vllm_plugin as plugin

vllm.plugins.load_plugins_by_group = lambda group: {"onelaunch": plugin.register}  # the entry point
vllm.plugins.load_general_plugins()  # as the parser of the command line does: no configuration yet
assert not plugin.status().registered


def engine_core(queue, wanted):
    from vllm.v1.engine.core import EngineCore

    try:
        EngineCore(SimpleNamespace(additional_config={"onelaunch": wanted}), mock.Mock(), log_stats=False)
    except Exception:
        pass  # it needs a model
    queue.put(plugin.status().registered)


context = multiprocessing.get_context("fork")
for wanted in (True, False):
    queue = context.Queue()
    process = context.Process(target=engine_core, args=(queue, wanted))
    process.start()
    assert queue.get(timeout=120) is wanted
    process.join()
"""


def test_an_engine_core_forked_after_the_first_load_still_finds_the_flag(monkeypatch):
    monkeypatch.delenv("ONELAUNCH", raising=False)
    done = subprocess.run([sys.executable, "-c", EARLY_LOAD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
