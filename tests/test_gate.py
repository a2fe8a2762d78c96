"""The gate over every pair of platform and flag. ``test_gate_mutations`` shows what these tests catch."""

from __future__ import annotations

import pytest

from onelaunch.gate import Decision, decide
from onelaunch.platform import Platform

# Each value's reason: a neighbour below and above each supported family, both sides of the NVIDIA bound, and
# numbers of three digits, which sort before "80" as strings.
SUPPORTED = {
    Platform("amd", "gfx90a"): False,
    Platform("amd", "gfx942"): True,
    Platform("amd", "gfx950"): True,
    Platform("amd", "gfx1201"): False,
    Platform("nvidia", "sm_75"): False,
    Platform("nvidia", "sm_80"): True,
    Platform("nvidia", "sm_89"): True,
    Platform("nvidia", "sm_90"): True,
    Platform("nvidia", "sm_90a"): True,
    Platform("nvidia", "sm_100"): True,
    Platform("nvidia", "sm_103"): True,
    Platform("nvidia", "sm_100f"): True,
    Platform("nvidia", "sm_120"): True,
    Platform("cpu", ""): False,
}
PLATFORMS = pytest.mark.parametrize(("platform", "supported"), SUPPORTED.items(), ids=str)


@PLATFORMS
def test_the_gate_opens_with_the_flag_on_a_supported_platform_only(platform, supported):
    assert decide(True, platform).enabled is supported
    assert decide(False, platform).enabled is False


@PLATFORMS
def test_a_changed_flag_changes_the_decision(platform, supported):
    flags = (False, True, False, True)
    assert [decide(flag, platform).enabled for flag in flags] == [False, supported, False, supported]


@PLATFORMS
def test_every_decision_names_the_platform_and_a_refusal_says_what_is_wrong(platform, supported):
    on, off = decide(True, platform), decide(False, platform)
    assert str(platform) in on.reason
    assert str(platform) in off.reason
    assert ("is not supported" in on.reason) is not supported
    assert "flag is off" in off.reason
    assert "flag is off" not in on.reason


@pytest.mark.parametrize(
    "platform",
    [
        Platform("nvidia", "gfx942"),
        Platform("amd", "sm_90"),
        Platform("nvidia", "sm_"),
        Platform("nvidia", "90"),
        Platform("nvidia", "compute_90"),
        Platform("nvidia", ""),
        Platform("cpu", "sm_90"),
        Platform("cpu", "gfx942"),
    ],
    ids=repr,
)
def test_a_platform_that_makes_no_sense_is_refused(platform):
    assert not decide(True, platform).enabled


def test_a_decision_is_a_value():
    assert decide(True, Platform("amd", "gfx942")) == decide(True, Platform("amd", "gfx942"))
    with pytest.raises(AttributeError):
        decide(True, Platform("cpu", "")).enabled = True
    assert Decision(False, "x") != Decision(True, "x")
