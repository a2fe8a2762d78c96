"""Synchronisations on a GPU: PyTorch's warnings, waits by name, and that a CPU stands in for them rightly."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from onelaunch.proof.sync_check.result import Result
from onelaunch.proof.sync_check.run import run
from onelaunch.syncs import Sync, allowed, policing

SRC = Path(__file__).parents[2] / "src"

PROGRAM = """
import threading, torch

def step(x):
    return x.sum().item()  # read

assert not torch.cuda.is_initialized()
x = torch.ones(4, device="cuda")
for _ in range(3):
    step(x)
torch.cuda.synchronize()
event = torch.cuda.Event()
event.record()
event.synchronize()
torch.cuda.current_stream().synchronize()
x.cpu()  # copy
x[x > 0]  # mask
thread = threading.Thread(target=lambda: x.tolist())
thread.start()
thread.join()
(x * 2).add_(1)  # none
x.to("cpu", non_blocking=True)
print("done")
"""


def checked(tmp_path: Path, monkeypatch, program: str, **options) -> Result:
    (tmp_path / "program.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]))
    done = run([sys.executable, str(tmp_path / "program.py")], **options)
    assert (done.status, done.result.not_watched) == (0, {})
    return done.result


def test_each_wait_of_a_program_is_found_once_at_its_line(tmp_path, monkeypatch, capfd):
    result = checked(tmp_path, monkeypatch, PROGRAM)
    assert list(result.devices.values()) == ["cuda"]
    found = {place.where.source: place.count for place in result.places}
    assert found.pop("x[x > 0]  # mask") >= 1  # PyTorch decides how many waits it takes
    assert found == {
        "return x.sum().item()  # read": 3,
        "torch.cuda.synchronize()": 1,
        "event.synchronize()": 1,
        "torch.cuda.current_stream().synchronize()": 1,
        "x.cpu()  # copy": 1,
        "thread = threading.Thread(target=lambda: x.tolist())": 1,
    }
    assert "synchronizing CUDA operation" not in capfd.readouterr().err


def test_warm_up_and_allowed_blocks_are_not_counted(tmp_path, monkeypatch):
    program = """
import torch
from onelaunch.syncs import allowed, warmed_up
x = torch.ones(4, device="cuda")
x.sum().item()
warmed_up()
with allowed("its result"):
    x.sum().item()
"""
    result = checked(tmp_path, monkeypatch, program)
    assert (result.count, result.warming, result.warm) == (0, 1, True)


SAME = {
    "item": lambda x, f, m, i: i.item(),
    "tolist": lambda x, f, m, i: x.tolist(),
    "bool": lambda x, f, m, i: bool(i == 3),
    "index": lambda x, f, m, i: range(i),
    "format": lambda x, f, m, i: f"{i:d}",
    "repr": lambda x, f, m, i: repr(x),
    "nonzero": lambda x, f, m, i: m.nonzero(),
    "masked_select": lambda x, f, m, i: x.masked_select(m),
    "unique": lambda x, f, m, i: x.unique(),
    "repeat_interleave": lambda x, f, m, i: x.repeat_interleave(x),
    "where": lambda x, f, m, i: torch.where(m),
    "tensor": lambda x, f, m, i: torch.tensor([i, i]),
    "read under a mask": lambda x, f, m, i: x[m],
    "slice": lambda x, f, m, i: x[:i],
    "position": lambda x, f, m, i: x[i],
    "write at a position": lambda x, f, m, i: x.__setitem__(i, 1),
    "zeros": lambda x, f, m, i: torch.zeros(i),
    "view": lambda x, f, m, i: x.view(i, 2),
    "narrow": lambda x, f, m, i: x.narrow(0, i, 2),
    "topk": lambda x, f, m, i: f.topk(i),
    "write one value under a mask": lambda x, f, m, i: x.__setitem__(m, 0),
    "gather": lambda x, f, m, i: x[x],
    "where of three": lambda x, f, m, i: torch.where(m, x, 0),
    "size given": lambda x, f, m, i: x.repeat_interleave(x, output_size=28),
    "known topk": lambda x, f, m, i: f.topk(2),
}


@pytest.mark.parametrize("name", SAME)
def test_a_cpu_says_of_a_call_what_a_gpu_does(name, device):
    noticed = {}
    for where in (torch.device("cpu"), device):
        ints, floats = torch.arange(8, device=where), torch.rand(8, device=where)
        arguments = (ints, floats, floats > 0.5, torch.tensor(4, device=where))
        with allowed("compiles, and fills caches"):
            SAME[name](*arguments)
        found: list[Sync] = []
        with policing("warn", where, found.append):
            SAME[name](*arguments)
        noticed[where.type] = bool(found)
    assert noticed["cpu"] == noticed["cuda"]
