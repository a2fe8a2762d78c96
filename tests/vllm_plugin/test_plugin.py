"""The plug-in's own logic on a stand-in for vLLM: the flag, the patches, verify then arm, disarming."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace

import pytest
import torch

import onelaunch.vllm_plugin as plugin
from machine import DEVICE
from onelaunch.builder import StepBuilder
from onelaunch.cli import main
from onelaunch.launches import counting
from onelaunch.platform import Platform
from onelaunch.vllm_plugin import imports, patches, settings, supported
from vllm_plugin import fake_vllm
from vllm_plugin.fake_vllm import functions, values, warnings

pytestmark = pytest.mark.usefixtures("vllm")


@pytest.mark.parametrize("flag", [None, "0", ""])
def test_with_the_flag_off_nothing_is_patched(monkeypatch, flag):
    if flag is not None:
        monkeypatch.setenv("ONELAUNCH", flag)
    before = functions()
    plugin.register()
    assert functions() == before
    assert plugin.status() == plugin.Status(registered=False, patched=(), disarmed=None, counts={})


def test_registering_twice_patches_once(on):
    before = functions()
    plugin.register()
    once = functions()
    assert all(now is not then for now, then in zip(once, before, strict=True))
    plugin.register()
    assert functions() == once
    patches.remove()
    assert functions() == before


@pytest.mark.parametrize("version", ["0.32.1", "0.34.0", "0.33.0rc1", "1.33.0", "0.330.0"])
def test_an_unknown_version_is_one_warning_and_no_patch(on, vllm, caplog, version):
    vllm["vllm"].__version__ = version
    before = functions()
    plugin.register()
    assert functions() == before
    (warning,) = warnings(caplog)
    assert version in warning
    assert "0.33" in warning


@pytest.mark.parametrize("version", ["0.33.0", "0.33.2", "0.33.0+cu130", "0.33.0.post1"])
def test_a_release_of_0_33_is_supported(version):
    supported.require_version(version)


def wrong_build(monkeypatch, vllm):
    monkeypatch.setattr(fake_vllm.DeepseekSparseSWAMetadataBuilder, "build", lambda self, batch: None)


def wrong_metadata(monkeypatch, vllm):
    monkeypatch.setattr(vllm[fake_vllm.SPARSE_SWA], "DeepseekSparseSWAMetadata", SimpleNamespace)


def wrong_inputs(monkeypatch, vllm):
    monkeypatch.setattr(vllm[fake_vllm.SPARSE_SWA], "CommonAttentionMetadata", SimpleNamespace)


def wrong_call(monkeypatch, vllm):
    monkeypatch.setattr(vllm[fake_vllm.ATTN_UTILS], "build_attn_metadata", lambda attn_groups: None)


@pytest.mark.parametrize("change", [wrong_build, wrong_metadata, wrong_inputs, wrong_call])
def test_another_shape_is_one_warning_and_no_patch(on, vllm, caplog, monkeypatch, change):
    with monkeypatch.context() as changed:
        change(changed, vllm)
        before = functions()
        plugin.register()
        assert functions() == before
        assert len(warnings(caplog)) == 1
        assert not plugin.status().registered


def test_builds_are_verified_and_then_one_launch_for_all_groups(on, caplog):
    engine = fake_vllm.Engine()
    expected = values(engine.build())
    plugin.register()
    with caplog.at_level(logging.INFO, "vllm.onelaunch"):
        for path in ("verify", "verify", "kernel", "kernel"):
            before = plugin.status().counts.get(path, 0)
            with counting() as launches:
                assert values(engine.build()) == expected
            assert plugin.status().counts[path] == before + 2
    assert launches == {"build_step": 1}
    assert plugin.status().disarmed is None
    (armed,) = [r.getMessage() for r in caplog.records]
    assert "one launch a build of 2 window groups" in armed


def test_draft_updates_are_verified_and_then_one_launch_for_all_groups(on):
    usual, engine = fake_vllm.Engine(), fake_vllm.Engine()
    expected = usual.build()
    plugin.register()
    got = engine.build()
    for _ in range(3):
        for e in (usual, engine):
            e.seq_lens[:2] += 1
        patches.remove()
        usual.update(expected)
        plugin.register()
        with counting() as launches:
            engine.update(got)
        assert values(got) == values(expected)
    assert launches == {"build_step": 1, "token_to_request": 1}


def test_batches_of_padding_alone_do_not_arm(on):
    engine = fake_vllm.Engine()
    engine.slot_mappings.fill_(-1)
    plugin.register()
    for _ in range(4):
        engine.build()
    assert "kernel" not in plugin.status().counts


def test_a_wrong_integer_disarms_and_vllms_values_stay(on, caplog, monkeypatch, tmp_path, capsys):
    engine = fake_vllm.Engine()
    expected = values(engine.build())
    build = StepBuilder.build

    def wrong(self, batch, inputs):
        step = build(self, batch, inputs)
        if self.backend == "kernel" and batch.num_tokens:
            self.buffers(self.groups[-1].name).indices.view(-1)[0] += 1
        return step

    monkeypatch.setattr(StepBuilder, "build", wrong)
    plugin.register()
    for _ in range(4):
        assert values(engine.build()) == expected
    status = plugin.status()
    assert status.disarmed is not None
    assert "kernel" not in status.counts
    (line,) = warnings(caplog)
    (path,) = tmp_path.iterdir()
    assert f"onelaunch verify --case {path}" in line
    with pytest.raises(SystemExit) as stop:
        main(["verify", "--case", str(path)])
    assert stop.value.code == 1
    assert "indices[0, 0, 0]" in "".join(capsys.readouterr())


def test_a_kernel_that_cannot_be_compiled_disarms_and_vllm_builds(on, monkeypatch, caplog):
    engine = fake_vllm.Engine()
    expected = values(engine.build())

    def broken(self, batch, inputs):
        raise RuntimeError("no ptxas")

    monkeypatch.setattr(StepBuilder, "build", broken)
    plugin.register()
    assert values(engine.build()) == expected
    assert plugin.status().disarmed == "RuntimeError: no ptxas"
    assert len(warnings(caplog)) == 1


def test_where_the_gate_says_no_vllm_builds_and_one_line_says_why(on, monkeypatch, caplog):
    engine = fake_vllm.Engine()
    monkeypatch.setattr("onelaunch._triton.interpreted", lambda: False)
    monkeypatch.setattr("onelaunch.vllm_plugin.plan.detect", lambda device: Platform("nvidia", "sm_75"))
    plugin.register()
    for _ in range(3):
        engine.build()
    assert plugin.status().counts == {"vllm": 6}
    (line,) = warnings(caplog)
    assert "sm_75 is not supported" in line


@pytest.mark.parametrize("additional", [{"onelaunch": True}, {"onelaunch": False}, {}])
def test_the_flag_may_be_in_the_configuration_that_a_caller_holds(additional):
    class Worker:
        def __init__(self):
            self.vllm_config = SimpleNamespace(additional_config=additional)

        def load_plugins(self):
            return settings.requested()

    class EngineArgs:
        def __init__(self):
            self.additional_config = additional

        def load_plugins(self):
            return settings.requested()

    wanted = additional.get("onelaunch", False)
    assert Worker().load_plugins() is wanted
    assert EngineArgs().load_plugins() is wanted


def test_the_variable_off_wins_over_the_configuration(monkeypatch):
    monkeypatch.setenv("ONELAUNCH", "0")
    vllm_config = SimpleNamespace(additional_config={"onelaunch": True})
    assert not settings.requested()
    assert vllm_config


def test_a_module_is_patched_right_after_its_import(monkeypatch, tmp_path):
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    imports.when_imported("late_module", lambda module: setattr(module, "value", module.value + 1))
    import late_module

    assert late_module.value == 2
    imports.when_imported("late_module", lambda module: setattr(module, "value", 7))
    assert late_module.value == 7
    imports.forget()
    monkeypatch.delitem(sys.modules, "late_module")


def test_the_doctor_tells_what_would_be_patched(monkeypatch, capsys):
    monkeypatch.setattr("onelaunch.vllm_plugin.doctor.version", lambda package: "0.33.0")
    with pytest.raises(SystemExit):
        main(["doctor", "--vllm", "--json"])
    found = json.loads(capsys.readouterr().out)["vllm"]
    assert found["supported"] is True
    assert found["flag"] is False
    (name,) = found["would patch"]
    assert name.endswith("DeepseekSparseSWAMetadataBuilder")
    assert not patches.installed()


def test_the_doctor_without_vllm_says_so(monkeypatch, capsys):
    from importlib.metadata import PackageNotFoundError

    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("onelaunch.vllm_plugin.doctor.version", missing)
    with pytest.raises(SystemExit):
        main(["doctor", "--vllm"])
    assert "vLLM is not installed" in capsys.readouterr().out


def test_a_setting_that_is_no_number_leaves_the_builds_to_vllm(on, monkeypatch, caplog):
    monkeypatch.setenv("ONELAUNCH_VERIFY_BUILDS", "many")
    engine = fake_vllm.Engine()
    expected = values(engine.build())
    plugin.register()
    assert values(engine.build()) == expected
    assert plugin.status().counts == {"vllm": 2}
    assert plugin.status().disarmed is None
    (line,) = warnings(caplog)
    assert "ONELAUNCH_VERIFY_BUILDS is 'many'" in line


def test_padding_alone_arms_after_eight_times_as_many_batches(on):
    engine = fake_vllm.Engine()
    engine.slot_mappings.fill_(-1)
    plugin.register()
    for _ in range(17):
        engine.build()
    assert plugin.status().counts["verify"] == 2 * 8 * 2
    assert plugin.status().counts["kernel"] == 2


def test_builds_are_counted_for_prometheus(on):
    prometheus = pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

    def value(name, **labels):
        return prometheus.REGISTRY.get_sample_value(name, labels) or 0

    before = value("onelaunch_builds_total", path="verify"), value("onelaunch_verified_total")
    engine = fake_vllm.Engine()
    plugin.register()
    engine.build()
    assert value("onelaunch_builds_total", path="verify") == before[0] + 2
    assert value("onelaunch_verified_total") > before[1]


@pytest.mark.skipif(DEVICE.type == "cpu", reason="a graph needs a GPU")
def test_a_recorded_build_is_one_launch_and_its_replays_equal_vllms(on):
    usual, engine = fake_vllm.Engine(), fake_vllm.Engine()
    usual.build()
    plugin.register()
    built = engine.build()  # rehearsed, and compared once
    engine.update(built)
    graph = torch.cuda.CUDAGraph()
    with counting() as launches, torch.cuda.graph(graph):
        recorded = engine.build()
        engine.update(recorded)
    assert launches == {"build_step": 2, "token_to_request": 1}
    patches.remove()
    for shift in (0, 5, 11):
        for e in (usual, engine):
            e.seq_lens[:2] += shift
        graph.replay()
        torch.cuda.synchronize()
        assert values(recorded) == values(usual.build())


def test_a_batch_that_does_not_fit_is_left_to_vllm_and_the_next_one_is_not(on, caplog):
    usual, engine = fake_vllm.Engine(), fake_vllm.Engine()
    plugin.register()
    for _ in range(3):
        engine.build()
    seq_lens = engine.seq_lens
    for e in (usual, engine):
        e.seq_lens = e.seq_lens.repeat_interleave(2)[::2]  # strided: no kernel reads that
    got = values(engine.build())
    assert plugin.status().counts["vllm"] == 2
    (line,) = warnings(caplog)
    assert "seq_lens has strides [2]: it must be contiguous" in line
    patches.remove()
    assert got == values(usual.build())
    plugin.register()
    engine.seq_lens = seq_lens
    engine.build()
    assert plugin.status().counts["kernel"] == 4
    assert plugin.status().disarmed is None
