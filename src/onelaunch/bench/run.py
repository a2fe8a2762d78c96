"""The benchmark's run: for each row count the check, then the times of all arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onelaunch import __version__
from onelaunch._triton import triton
from onelaunch.bench import inputs
from onelaunch.bench.arms import Arm, empty_arm, fill_arm, make_arms
from onelaunch.bench.timing import Spread, cold_device_times, copy_bandwidth, device_times, host_times

# The "bytes" arm: no kernel, but the time to move what a build must at the device's copy bandwidth.
BYTES, BYTES_DENSE = "bytes", "bytes-dense"


class ArmMismatch(Exception):
    """An arm's outputs differ from the usual build's: nothing is timed."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often each arm is timed at a row count."""

    device: int = 200
    cold: int = 30
    host: int = 15


def run_bench(
    rows: Sequence[int],
    device: torch.device,
    *,
    rounds: Rounds,
    seed: int = 0,
    progress: Callable[[int, str], None] | None = None,
) -> dict[str, Any]:
    """Time all arms at each of ``rows``; the result as ``docs/performance.md`` describes it.

    Raises:
        ArmMismatch: an arm builds something else than the usual build.
        ValueError: a row count is out of range.
    """
    for count in rows:
        if not 1 <= count <= inputs.MAX_TOKENS:
            raise ValueError(f"rows has {count}: it must be from 1 to {inputs.MAX_TOKENS}")
    rates = copy_bandwidth(device)
    bandwidth = max(rates.values())
    records: list[dict[str, Any]] = []
    for count in rows:
        step = inputs.step_inputs(count, device, seed=seed)
        sizes = {
            name: [inputs.bytes_moved(step, groups) for groups in inputs.window_groups(ragged=name == BYTES)]
            for name in (BYTES, BYTES_DENSE)
        }
        arms = make_arms(step, device)
        _check(arms, count)
        arms += [empty_arm(len(sizes[BYTES])), fill_arm(sizes[BYTES], device)]
        if progress is not None:
            progress(count, "timing")
        device_us = device_times(arms, rounds.device)
        _check(arms, count, build=False)  # what the last timed replays wrote
        cold_us = cold_device_times(arms, rounds.cold, device)
        host_us = host_times(arms, rounds.host)
        _check(arms, count)  # still right after all of it
        records += [_record(arm, count, device_us, cold_us, host_us) for arm in arms]
        records += [
            {"arm": name, "rows": count, "bytes": sum(some), "device_us": sum(some) / bandwidth * 1e6}
            for name, some in sizes.items()
        ]
    return {
        "device": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "onelaunch": __version__,
        "copy_bandwidth_gb_s": {name: rate / 1e9 for name, rate in rates.items()},
        "workload": {
            "groups": [inputs.NUM_TARGET_GROUPS, inputs.NUM_DRAFT_GROUPS],
            "widths": [groups[0].width for groups in inputs.window_groups(ragged=True)],
            "query_len": inputs.QUERY_LEN,
            "context": inputs.CONTEXT,
            "block_size": inputs.BLOCK_SIZE,
            "max_tokens": inputs.MAX_TOKENS,
        },
        "rounds": {"device": rounds.device, "cold": rounds.cold, "host": rounds.host},
        "records": records,
    }


def _check(arms: Sequence[Arm], rows: int, *, build: bool = True) -> None:
    """Compare what each arm builds now, or as it is already built, with the usual build."""
    for arm in arms:
        mismatches = arm.mismatches() if build else arm.differences()
        if mismatches:
            raise ArmMismatch(f"{arm.name} at {rows} rows: {mismatches[0]}")


def _record(
    arm: Arm, rows: int, device_us: dict[str, Spread], cold_us: dict[str, Spread], host_us: dict[str, Spread]
) -> dict[str, Any]:
    device, host, cold = device_us[arm.name], host_us[arm.name], cold_us.get(arm.name)
    return {
        "arm": arm.name,
        "rows": rows,
        "launches": arm.launches,
        "device_us": device.median,
        "p10": device.p10,
        "p90": device.p90,
        "device_us_cold": None if cold is None else cold.median,
        "device_us_cold_p10": None if cold is None else cold.p10,
        "device_us_cold_p90": None if cold is None else cold.p90,
        "host_us": host.median,
        "host_us_p10": host.p10,
        "host_us_p90": host.p90,
    }
