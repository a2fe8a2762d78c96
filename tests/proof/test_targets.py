"""Kernels for hardware that is not here: they compile, and keep everything in registers."""

from __future__ import annotations

import pytest

from onelaunch.proof.targets import (
    TARGETS,
    Resources,
    amd_resources,
    compile_all_apart,
    num_variants,
    nvidia_resources,
)


def test_every_kernel_compiles_for_every_target_without_a_spill():
    found: list[Resources] = []
    compile_all_apart(TARGETS, found.append)
    assert {one.target for one in found} == {"gfx942", "gfx950", "sm_80", "sm_90", "sm_100", "sm_120"}
    assert len(found) == num_variants() * len(TARGETS)
    assert all(one.registers > 0 for one in found)
    assert [f"{one.kernel} for {one.target}: {one.spills}" for one in found if one.spills] == []
    for one in found:
        if one.target.startswith("gfx") and one.kernel.startswith(("build_step", "pack_topk")):
            # The address table, which no step writes.
            assert one.scalar_sources == (1 if one.kernel.startswith("build_step") else 0), one
            # The generation, a first look at the words, and another in the loop.
            assert one.uncached_loads == 0 if "dense" in one.kernel else one.uncached_loads >= 3, one


AMD = """
    .sgpr_count:     106
    .sgpr_spill_count: {sgpr}
    .vgpr_count:     84
    .vgpr_spill_count: {vgpr}
"""


@pytest.mark.parametrize(("sgpr", "vgpr", "spills"), [(0, 0, 0), (3, 0, 3), (0, 2, 2), (1, 2, 3)])
def test_spills_of_either_register_file_count_on_amd(sgpr, vgpr, spills):
    found = amd_resources("k", "gfx942", AMD.format(sgpr=sgpr, vgpr=vgpr))
    assert found == Resources("k", "gfx942", 84, 106, spills, 0, 0)


def test_loads_past_the_caches_are_counted():
    loads = """
        global_load_dwordx2 v[4:5], v[2:3], off sc0 sc1
        global_load_dwordx2 v[6:7], v[2:3], off
        buffer_load_dwordx2 v[6:7], v1, s[8:11], 0 offen
    """
    assert amd_resources("k", "gfx942", loads + AMD.format(sgpr=0, vgpr=0)).uncached_loads == 1


def test_pointers_read_through_the_scalar_cache_are_counted():
    loads = """
        s_load_dwordx2 s[2:3], s[0:1], 0x0
        s_load_dwordx4 s[4:7], s[2:3], 0x0
        s_load_dword s9, s[2:3], 0x10
        s_load_dword s8, s[10:11], 0x4
    """
    assert amd_resources("k", "gfx942", loads + AMD.format(sgpr=0, vgpr=0)).scalar_sources == 2


def test_stack_and_local_memory_count_as_spills_on_nvidia():
    usage = " Function k:\n  REG:64 STACK:16 SHARED:0 LOCAL:8 CONSTANT[0]:700 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
    assert nvidia_resources("k", "sm_90", usage) == Resources("k", "sm_90", 64, None, 24)


@pytest.mark.parametrize("read", [amd_resources, nvidia_resources])
def test_an_assembly_that_does_not_tell_is_an_error(read):
    with pytest.raises(ValueError, match="does not tell"):
        read("k", "a target", "no such thing")


def test_a_process_that_says_a_lot_before_it_fails_does_not_hang(monkeypatch, tmp_path):
    # A compiler that fails dumps its program: more than a pipe holds.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.stderr.write('dump' * 100_000)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="compiling for sm_11 failed"):
        compile_all_apart(["sm_11"], lambda found: None)


def test_what_a_failed_process_said_is_told():
    with pytest.raises(RuntimeError, match=r"compiling for sm_11 failed: .+"):
        compile_all_apart(["sm_11"], lambda found: None)
