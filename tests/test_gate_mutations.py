"""The gate's tests against a changed gate: each change below must make them fail.

Not done by a mutation tool: mutmut 3.8 and cosmic-ray 8.7 change one operator, number, string or name at a
time, mutmut inside functions only. Mistakes that matter here are of another kind: a decision that outlives
a changed flag, a whole vendor let in, architectures compared as strings. So each is written out.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

import onelaunch
from onelaunch import gate

pytest_plugins = "pytester"

_AMD = "return platform.arch in _AMD_ARCHS"
_NVIDIA = 'return platform.vendor == "nvidia" and match is not None and int(match[1]) >= _NVIDIA_OLDEST'
_DECIDE = "def decide(flag: bool, platform: Platform) -> Decision:"

# name: (old, new) replacements in the gate's source
MUTANTS: dict[str, list[tuple[str, str]]] = {
    "flag ignored": [("if not flag:", "if False:")],
    "flag inverted": [("if not flag:", "if flag:")],
    "flag alone decides": [("if _supported(platform):", "if True:")],
    "support inverted": [("if _supported(platform):", "if not _supported(platform):")],
    "never enabled": [("if _supported(platform):", "if False:")],
    "gfx942 dropped": [('frozenset({"gfx942", "gfx950"})', 'frozenset({"gfx950"})')],
    "gfx950 dropped": [('frozenset({"gfx942", "gfx950"})', 'frozenset({"gfx942"})')],
    "gfx90a let in": [('frozenset({"gfx942", "gfx950"})', 'frozenset({"gfx90a", "gfx942", "gfx950"})')],
    "any AMD": [(_AMD, "return True")],
    "any AMD gfx9": [(_AMD, 'return platform.arch.startswith("gfx9")')],
    "no AMD": [(_AMD, "return False")],
    "any NVIDIA": [(_NVIDIA, 'return platform.vendor == "nvidia"')],
    "no NVIDIA": [(_NVIDIA, "return False")],
    "sm_80 dropped": [("int(match[1]) >= _NVIDIA_OLDEST", "int(match[1]) > _NVIDIA_OLDEST")],
    "sm_75 let in": [("_NVIDIA_OLDEST = 80", "_NVIDIA_OLDEST = 75")],
    "sm_80 to sm_89 dropped": [("_NVIDIA_OLDEST = 80", "_NVIDIA_OLDEST = 90")],
    "sm numbers as strings": [("int(match[1]) >= _NVIDIA_OLDEST", "match[1] >= str(_NVIDIA_OLDEST)")],
    "sm numbers of three digits dropped": [(r"sm_(\d+)[af]?", r"sm_(\d\d)[af]?")],
    "sm suffixes refused": [(r"sm_(\d+)[af]?", r"sm_(\d+)")],
    "CPU enabled": [(_NVIDIA, _NVIDIA + ' or platform.vendor == "cpu"')],
    "vendor not asked": [('platform.vendor == "nvidia" and match', "match")],
    "first decision for a platform kept": [
        ("import re\n", "import functools\nimport re\n"),
        (_DECIDE, "_first: dict = {}\n\ndef decide(flag, platform):\n"
                  "    return _first.setdefault(platform, _decide(flag, platform))\n\n\n"
                  + _DECIDE.replace("def decide", "def _decide")),
    ],
    "first flag kept for the process": [
        (_DECIDE, "_flags: list = []\n\n" + _DECIDE),
        ("if not flag:", "_flags.append(flag)\n    if not _flags[0]:"),
    ],
    "reason does not name the platform": [('f"{platform} is not supported: ', 'f"not supported: ')],
}  # fmt: skip


@pytest.fixture
def gate_tests(pytester, monkeypatch, tmp_path):
    """Callable that runs the gate's tests here, on a gate of the given source: (passed, failed)."""
    tests = Path(__file__).with_name("test_gate.py").read_text()

    def run(source: str) -> tuple[int, int]:
        path = tmp_path / "mutated_gate.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("onelaunch.gate", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "onelaunch.gate", module)
        monkeypatch.setattr(onelaunch, "gate", module)
        spec.loader.exec_module(module)
        pytester.makepyfile(test_mutated_gate=tests)  # another name than test_gate, which is imported
        # Hypothesis, unused there, would import all of itself again in every run: a second each.
        passed, _, failed = pytester.inline_run("-q", "-p", "no:hypothesispytest").countoutcomes()
        return passed, failed

    return run


def test_the_gate_as_it_is_passes_its_tests(gate_tests):
    passed, failed = gate_tests(inspect.getsource(gate))
    assert passed > 0
    assert failed == 0


@pytest.mark.parametrize("name", MUTANTS)
def test_the_gates_tests_kill(name, gate_tests):
    source = inspect.getsource(gate)
    for old, new in MUTANTS[name]:
        assert source.count(old) == 1, f"the gate has changed, update this mutant: {old!r} is not there once"
        source = source.replace(old, new)
    passed, failed = gate_tests(source)
    assert passed > 0, "the mutant does not even load"
    assert failed > 0, f"survived: {name}"
