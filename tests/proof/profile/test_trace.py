"""Reading: real traces, damaged ones, and large ones in little memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from onelaunch.proof.profile.count import count_launches
from onelaunch.proof.profile.trace import read_trace
from proof.profile.traces import TraceMaker

SMALL = b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]}'


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_the_profilers_own_trace_is_read_and_has_no_gpu_events(tmp_path, suffix):
    path = tmp_path / f"cpu.{suffix}"
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for i in range(3):
            with record_function(f"decode_step {i}"):
                torch.ones(4) + 1
    profiler.export_chrome_trace(str(path))
    trace = read_trace(path)
    assert [trace.names[i] for i in trace.annotations.name] == [f"decode_step {i}" for i in range(3)]
    assert (trace.annotations.duration > 0).all()
    with pytest.raises(ValueError, match="no GPU events"):
        count_launches(trace)


def test_the_list_of_events_alone_is_a_trace_and_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(json.loads(SMALL)["traceEvents"]).encode())
    assert read_trace(path).gpu.duration.tolist() == [2]


def test_gzip_is_told_by_its_content(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(SMALL))
    assert len(read_trace(path).gpu.at) == 1


def test_nanoseconds_since_1970_are_kept(tmp_path):
    path = tmp_path / "t.json"
    events = ",".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k", "ts": 1790857026000000.{i}01, "dur": 0.5}}'
        for i in range(3)
    )
    path.write_text(f'{{"traceEvents": [{events}]}}')
    assert read_trace(path).gpu.at.tolist() == pytest.approx([0, 0.1, 0.2], abs=1e-6)


def test_odd_events_are_passed_over(tmp_path):
    path = tmp_path / "t.json"
    odd = [
        None,
        3,
        {},
        {"ph": "X"},
        {"ph": "X", "cat": "kernel", "name": "k"},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"},
        {"ph": "X", "cat": "kernel", "name": 3, "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -4},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 1, "id": 3},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "args": {"External id": 2**64 - 1}},
        {"ph": "X", "cat": "kernel", "name": "kept", "ts": "7.5", "dur": 1, "args": None},
        {"ph": "X", "cat": "kernel", "name": "kept", "ts": 8, "dur": 1, "args": {"correlation": 2**64 - 1}},
    ]
    path.write_text(json.dumps({"traceEvents": odd}))
    trace = read_trace(path)
    assert [trace.names[i] for i in trace.gpu.name] == ["kept", "kept"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.json", SMALL[:-20], "ends too early"),
        ("t.json", SMALL[:40], "ends too early"),
        ("t.json", b"", "empty"),
        ("t.json", b"hello", "not JSON"),
        ("t.json", SMALL.replace(b'"dur": 2', b'"dur": NaN'), "not valid JSON"),
        ("t.json", b'{"events": []}', "no trace events"),
        ("t.json.gz", SMALL, "not"),
        ("t.json.gz", gzip.compress(SMALL * 50)[:-12], "damaged or cut short"),
        (
            "t.json.gz",
            gzip.compress(SMALL)[:30] + b"\0" * 30,
            "damaged or cut short|ends too early|not valid",
        ),
        ("t.json.gz", gzip.compress(b""), "empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_file(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_trace(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def large(path, steps: int, operators: int) -> None:
    """A trace mostly of operators: 100 of them a launch."""
    maker = TraceMaker()
    for step in range(steps):
        maker.annotate(f"ProfilerStep#{step}", 10_000 * step, 9_000)
        for i in range(10):
            maker.launch("k" * 200, 10_000 * step + 10 * i)
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    text = json.dumps({**operator, "args": {"Input Dims": [[64, 4096]] * 4, "External id": 7}})
    with path.open("w") as file:
        file.write('{"traceEvents": [\n' + ",\n".join(map(json.dumps, maker.events)))
        for _ in range(operators):
            file.write(",\n" + text)
        file.write("\n]}")


def test_memory_is_of_what_is_kept_not_of_the_file(tmp_path):
    path = tmp_path / "large.json"
    large(path, steps=200, operators=130_000)
    code = """if True:
        import resource, sys
        from pathlib import Path
        import ijson
        from onelaunch.proof.profile.count import count_launches
        from onelaunch.proof.profile.trace import read_trace
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        trace = read_trace(Path(sys.argv[1]))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print((after - before) * 1024, count_launches(trace).launches.mode)
    """
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    more, mode = map(int, done.stdout.split())
    assert path.stat().st_size > 20e6
    assert more < 8e6
    assert mode == 10


def test_progress_goes_by_bytes_to_the_files_size(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(SMALL))
    seen = []
    read_trace(path, lambda done, size: seen.append((done, size)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_a_pipe_is_read_too(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(SMALL)
    code = (
        "from pathlib import Path; from onelaunch.proof.profile.trace import read_trace;"
        "print(len(read_trace(Path('/dev/stdin')).gpu.at))"
    )
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", code], stdin=cat.stdout, capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr
