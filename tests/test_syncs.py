"""Waits for the device, as they are noticed on a CPU."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
import torch

from onelaunch.syncs import Sync, SyncError, allowed, is_allowed, not_on_gpu, policing, warmed_up

CPU = torch.device("cpu")


def noticed(function) -> list[Sync]:
    """What is reported of ``function``, which gets 8 ints, 8 floats, a mask of 8, and a tensor of one int."""
    found: list[Sync] = []
    ints, floats, one = torch.arange(8), torch.rand(8), torch.tensor(4)
    with policing("warn", CPU, found.append):
        function(ints, floats, floats > 0.5, one)
    return found


READS = {
    "item": lambda x, f, m, i: i.item(),
    "tolist": lambda x, f, m, i: x.tolist(),
    "numpy": lambda x, f, m, i: x.numpy(),
    "__array__": lambda x, f, m, i: np.asarray(x),
    "cpu": lambda x, f, m, i: x.cpu(),
    "__bool__": lambda x, f, m, i: bool(i == 3),
    "__int__": lambda x, f, m, i: int(i),
    "__float__": lambda x, f, m, i: float(i),
    "__complex__": lambda x, f, m, i: complex(i),
    "__index__": lambda x, f, m, i: range(i),
    "__contains__": lambda x, f, m, i: 3 in x,
    "__format__": lambda x, f, m, i: f"{i:d}",
    "__repr__": lambda x, f, m, i: repr(x),
    "nonzero": lambda x, f, m, i: m.nonzero(),
    "argwhere": lambda x, f, m, i: torch.argwhere(m),
    "masked_select": lambda x, f, m, i: x.masked_select(m),
    "unique": lambda x, f, m, i: x.unique(),
    "unique_consecutive": lambda x, f, m, i: x.unique_consecutive(),
    "bincount": lambda x, f, m, i: x.bincount(),
    "equal": lambda x, f, m, i: torch.equal(x, x),
    "allclose": lambda x, f, m, i: torch.allclose(f, f),
    "is_nonzero": lambda x, f, m, i: torch.is_nonzero(i),
    "repeat_interleave": lambda x, f, m, i: x.repeat_interleave(x),
    "where": lambda x, f, m, i: torch.where(m),
    "tensor": lambda x, f, m, i: torch.tensor([i, i]),
    "as_tensor": lambda x, f, m, i: torch.as_tensor([[i, 1]]),
    "zeros": lambda x, f, m, i: torch.zeros(i),
    "full": lambda x, f, m, i: torch.full((2, i), 1),
    "arange": lambda x, f, m, i: torch.arange(i),
    "view": lambda x, f, m, i: x.view(i, 2),
    "narrow": lambda x, f, m, i: x.narrow(0, i, 2),
    "topk": lambda x, f, m, i: f.topk(i),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_is_noticed_by_its_name_once_and_where_it_is(name):
    (found,) = noticed(READS[name])
    assert found.what == name
    ours = [frame for frame in found.stack if __file__ in frame]  # some reads go through PyTorch's Python
    assert "in <lambda>" in ours[-1] and f'"{name}": lambda' in ours[-1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, f, m, i: x[m],
        lambda x, f, m, i: x[:i],
        lambda x, f, m, i: x[i],
        lambda x, f, m, i: x.view(2, 4)[0, i - 1],
    ],
    ids=["mask", "slice", "position", "one of several"],
)
def test_an_index_that_decides_a_shape_or_an_address_is_noticed(function):
    assert [one.what for one in noticed(function)] == ["__getitem__"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, f, m, i: x.__setitem__(m, torch.ones((), dtype=x.dtype)),
        lambda x, f, m, i: x.__setitem__(slice(0, i), 1),
        lambda x, f, m, i: x.__setitem__(i, 1),
    ],
    ids=["a tensor under a mask", "slice", "position"],
)
def test_a_write_that_reads_its_index_is_noticed(function):
    assert [one.what for one in noticed(function)] == ["__setitem__"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, f, m, i: x.__setitem__(m, 0),
        lambda x, f, m, i: x[x],
        lambda x, f, m, i: x[1:3],
        lambda x, f, m, i: x[i.unsqueeze(0)],
        lambda x, f, m, i: torch.where(m, x, 0),
        lambda x, f, m, i: x.repeat_interleave(2),
        lambda x, f, m, i: x.repeat_interleave(x, output_size=28),
        lambda x, f, m, i: torch.zeros(len(x)),
        lambda x, f, m, i: x.view(2, 4).sum(0).cumsum(0),
        lambda x, f, m, i: x.masked_fill(m, i),
        lambda x, f, m, i: f.topk(2),
    ],
    ids=[
        "one value under a mask",
        "gather",
        "slice of numbers",
        "gather of one",
        "where of three",
        "repeats known",
        "size given",
        "zeros",
        "sums",
        "masked_fill",
        "topk",
    ],
)
def test_what_a_gpu_does_without_the_host_is_not_reported(function):
    assert noticed(function) == []


def test_allowed_silences_its_block_even_nested_and_nothing_after_it():
    found: list[Sync] = []
    one = torch.tensor(1)
    with policing("error", CPU, found.append):
        with allowed("a test"):
            with allowed("again"):
                one.item()
            assert is_allowed()
            one.item()
        with not_on_gpu(CPU):
            one.item()
        assert not is_allowed()
        with pytest.raises(SyncError):
            one.item()
    assert len(found) == 1


def test_an_error_in_an_allowed_block_ends_it():
    with pytest.raises(KeyError), allowed("a test"):
        raise KeyError
    assert not is_allowed()


def test_code_that_a_gpu_also_runs_is_not_excused():
    with not_on_gpu(torch.device("cuda")):
        assert not is_allowed()


def test_error_mode_stops_at_the_first_before_it_is_read():
    found: list[Sync] = []
    with pytest.raises(SyncError, match="tolist waits for the device"), policing("error", CPU, found.append):
        torch.arange(2).tolist()
        torch.tensor(1).item()
    assert [one.what for one in found] == ["tolist"]
    torch.tensor(1).item()  # policing ended with its block


def test_without_on_sync_it_is_a_warning_with_the_place():
    with pytest.warns(RuntimeWarning, match="item waits for the device") as caught, policing("warn", CPU):
        torch.tensor(1).item()
    assert "test_syncs.py" in str(caught[0].message)


def test_off_reports_nothing_and_an_unknown_mode_is_refused():
    found: list[Sync] = []
    with policing("off", CPU, found.append), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.tensor(1).item()
    assert found == []
    with pytest.raises(ValueError, match="mode is 'loud': it must be one of off, warn, error"):
        policing("loud", CPU).__enter__()


def test_a_thread_is_looked_at_where_it_polices_itself_and_allows_only_for_itself():
    found: dict[str, list[Sync]] = {"policed": [], "main": []}
    inside, done = threading.Event(), threading.Event()

    def policed() -> None:
        with policing("warn", CPU, found["policed"].append):
            assert inside.wait(10)
            torch.tensor(1).item()
        done.set()

    thread = threading.Thread(target=policed)
    thread.start()
    with policing("warn", CPU, found["main"].append), allowed("main alone"):
        torch.tensor(1).item()
        inside.set()
        assert done.wait(10)
    thread.join()
    assert {name: len(syncs) for name, syncs in found.items()} == {"policed": 1, "main": 0}


def test_compiled_code_runs_and_what_is_read_of_it_is_noticed():
    @torch.compile(backend="eager")
    def halve(x):
        return x // 2 if x.sum().item() > 3 else x

    assert [one.what for one in noticed(lambda x, f, m, i: halve(i).tolist())] == ["item", "tolist"]


def test_the_first_warmed_up_of_a_process_leaves_a_mark_and_without_a_check_none(tmp_path, monkeypatch):
    monkeypatch.setattr("onelaunch.syncs._told", None)
    monkeypatch.delenv("ONELAUNCH_SYNC_RECORD", raising=False)
    warmed_up()
    monkeypatch.setenv("ONELAUNCH_SYNC_RECORD", str(tmp_path))
    warmed_up()
    warmed_up()
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr("onelaunch.syncs._told", None)
    monkeypatch.setenv("ONELAUNCH_SYNC_RECORD", str(tmp_path / "gone"))
    warmed_up()  # nobody reads it any more
