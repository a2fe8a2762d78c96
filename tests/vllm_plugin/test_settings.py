"""The flag and where it comes from, counting, and what is said about both."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import onelaunch.vllm_plugin as plugin
from onelaunch.vllm_plugin import counters, doctor, guard, log, patches, settings
from vllm_plugin.fake_vllm import ATTN_UTILS, SPARSE_SWA, SPECULATOR, Engine, functions, values, warnings

pytestmark = pytest.mark.usefixtures("vllm")


@pytest.mark.parametrize("value", ["1", "true", " On ", "yes"])
def test_the_variable_turns_the_plugin_on(monkeypatch, caplog, value):
    monkeypatch.setenv("ONELAUNCH", value)
    assert settings.requested()
    assert not warnings(caplog)


@pytest.mark.parametrize("value", ["", "0", "FALSE", "off", "no"])
def test_the_variable_turns_the_plugin_off(monkeypatch, caplog, value):
    monkeypatch.setenv("ONELAUNCH", value)
    assert not settings.requested()
    assert not warnings(caplog)


@pytest.mark.parametrize("value", ["none", "n", "disabled", "2"])
def test_a_variable_that_is_no_flag_is_off_with_a_warning(monkeypatch, caplog, value):
    monkeypatch.setenv("ONELAUNCH", value)
    for _ in range(2):
        assert not settings.requested()
    (line,) = warnings(caplog)
    assert f"ONELAUNCH is {value!r}" in line


def requested(vllm_config) -> bool:
    """What a caller with this configuration is answered."""
    assert vllm_config is not None
    return settings.requested()


@pytest.mark.parametrize(
    ("value", "expected", "lines"),
    [(True, True, 0), (1, True, 0), ("true", True, 0), (False, False, 0), (0, False, 0), ("maybe", False, 1)],
)
def test_the_configuration_takes_the_same_flags(caplog, value, expected, lines):
    config = SimpleNamespace(additional_config={"onelaunch": value})
    assert requested(config) is expected
    assert len(warnings(caplog)) == lines


@pytest.fixture
def plugins(monkeypatch):
    """``vllm.plugins``, which loads once. The plug-in is loaded there before there is a configuration."""
    module = ModuleType("vllm.plugins")
    module.loaded = False

    def load_general_plugins():
        if not module.loaded:
            module.loaded = True
            plugin.register()

    module.load_general_plugins = load_general_plugins
    monkeypatch.setitem(sys.modules, "vllm.plugins", module)
    return module


def engine_core(vllm_config):
    assert vllm_config is not None
    sys.modules["vllm.plugins"].load_general_plugins()


def test_a_configuration_that_comes_after_the_first_load_is_still_asked(plugins):
    before = functions()
    plugins.load_general_plugins()
    engine_core(SimpleNamespace(additional_config={"onelaunch": False}))
    assert functions() == before
    for _ in range(2):
        engine_core(SimpleNamespace(additional_config={"onelaunch": True}))
    assert plugin.status().registered
    assert all(now is not then for now, then in zip(functions(), before, strict=True))


def test_the_variable_leaves_the_loading_of_plugins_alone(monkeypatch, plugins):
    monkeypatch.setenv("ONELAUNCH", "0")
    usual = plugins.load_general_plugins
    usual()
    assert plugins.load_general_plugins is usual
    engine_core(SimpleNamespace(additional_config={"onelaunch": True}))
    assert not plugin.status().registered


def test_loads_are_watched_once(plugins):
    plugins.load_general_plugins()
    watched = plugins.load_general_plugins
    watched()
    assert plugins.load_general_plugins is watched


def broken(*args, **options):
    raise FileNotFoundError("/no/such/folder")


def broken_later(*args):
    return SimpleNamespace(labels=lambda path: SimpleNamespace(inc=broken), inc=broken)


@pytest.mark.parametrize("metric", [broken, broken_later])
def test_a_metric_that_fails_is_said_once_and_ends_nothing(on, monkeypatch, caplog, metric):
    monkeypatch.setattr(counters, "_metrics", None)
    made = []

    def noted(*args):
        made.append(args[0])
        return metric(*args)

    monkeypatch.setitem(sys.modules, "prometheus_client", SimpleNamespace(Counter=noted))
    engine = Engine()
    expected = values(engine.build())
    plugin.register()
    for _ in range(3):
        assert values(engine.build()) == expected
    assert plugin.status().counts == {"verify": 4, "verified": 2, "kernel": 2}
    (line,) = warnings(caplog)
    assert "/no/such/folder" in line
    assert len(set(made)) == len(made), "each is made once"
    guard.disarm("a test")
    assert values(engine.build()) == expected


def test_lines_that_differ_in_numbers_alone_are_one(caplog):
    for rows in range(3):
        guard.stand_aside(f"seq_lens has strides [{rows}]")
    guard.stand_aside("something else")
    assert len(warnings(caplog)) == 2
    assert len(log._said) == 2


def test_the_lines_of_arming_tell_builds_from_updates(on, caplog):
    engine = Engine()
    plugin.register()
    with caplog.at_level("INFO", "vllm.onelaunch"):
        for _ in range(2):
            engine.update(engine.build())
    armed = [record.getMessage() for record in caplog.records]
    assert len(armed) == 2
    assert "one launch a build of" in armed[0]
    assert "one launch an update of" in armed[1]


@pytest.mark.parametrize(
    ("vendor", "others"),
    [("cpu", (".amd.", ".nvidia.")), ("amd", (".nvidia.",)), ("nvidia", (".amd.",))],
)
def test_the_doctor_imports_all_that_a_server_of_the_vendor_would_patch(monkeypatch, vendor, others):
    imported = []
    monkeypatch.setattr(doctor, "version", lambda package: "0.33.0")
    monkeypatch.setattr(doctor.importlib, "import_module", imported.append)
    found = doctor.findings(vendor)
    assert found["supported"]
    assert found["not checked"] == []
    assert set(imported) >= {SPARSE_SWA, ATTN_UTILS, SPECULATOR}
    assert set(imported) == {name for name in patches.HOOKS if not any(part in name for part in others)}


def test_the_doctor_says_what_it_could_not_check(monkeypatch):
    monkeypatch.setattr(doctor, "version", lambda package: "0.33.0")
    found = doctor.findings("nvidia")
    (line,) = found["not checked"]
    assert "metadata_graphs: ModuleNotFoundError" in line
    assert "Not checked" in found["reason"]
