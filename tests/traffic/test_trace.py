"""The trace format: what is read, what is refused and how it is named, and what is generated."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from onelaunch.traffic.trace import Request, generated_trace, read_trace, write_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROW = "2023-11-16 18:15:46.6805900,374,44"
SHARED = Path(__file__).parents[3] / "shared" / "data"


def write(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_bytes("\r\n".join(lines).encode())
    return path


def test_rows_become_requests_that_count_time_from_the_first(tmp_path):
    path = write(tmp_path, HEADER, ROW, "2023-11-16 18:15:50.9951690,396,109", "2023-11-17 00:00:00.5,1,0")
    requests = read_trace(path)
    assert requests[:2] == [Request(0.0, 374, 44), Request(4.314579, 396, 109)]
    assert requests[2] == Request(20653.81941, 1, 0)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2023-11-16 18:15:47.0000000,374", "2 fields"),
        ("2023-11-16 18:15:47.0000000,374,44,1", "4 fields"),
        ("", "0 fields"),
        ("16/11/2023 18:15,374,44", "TIMESTAMP '16/11/2023 18:15'"),
        ("2023-11-16T18:15:47,374,44", "TIMESTAMP"),
        ("2023-11-16 18:15:47.00000001,374,44", "TIMESTAMP"),
        ("2023-02-30 18:15:47.0000000,374,44", "calendar"),
        ("2023-11-16 18:15:47.0000000,0,44", "ContextTokens '0'"),
        ("2023-11-16 18:15:47.0000000,-3,44", "ContextTokens '-3'"),
        ("2023-11-16 18:15:47.0000000,3.5,44", "ContextTokens '3.5'"),
        ("2023-11-16 18:15:47.0000000,1_000,44", "ContextTokens '1_000'"),
        ("2023-11-16 18:15:47.0000000," + "9" * 5000 + ",44", "ContextTokens"),
        ("2023-11-16 18:15:47.0000000,374,", "GeneratedTokens ''"),
        ("2023-11-16 18:15:47.0000000,374,-1", "GeneratedTokens '-1'"),
        ("2023-11-16 18:15:46.6805899,374,44", "earlier than the row before"),
    ],
)
def test_a_bad_row_is_refused_and_named_by_its_line(tmp_path, row, says):
    path = write(tmp_path, HEADER, ROW, row, "2023-11-16 18:15:48,1,1")
    with pytest.raises(ValueError, match="1 bad row: line 3: ") as error:
        read_trace(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_bytes(f"{HEADER}\n{ROW}\n".encode() + b"\xff\xfe\x00,1,1\n")
    with pytest.raises(ValueError, match="line 3: TIMESTAMP"):
        read_trace(path)


def test_the_first_five_of_many_bad_rows_are_shown_and_all_are_counted(tmp_path):
    path = write(tmp_path, HEADER, *["x,1,1"] * 12)
    with pytest.raises(ValueError, match=r"12 bad rows: line 2: .*; line 6: .*; and 7 more$") as error:
        read_trace(path)
    assert "line 7" not in str(error.value)


def test_a_row_after_a_bad_one_is_compared_with_the_last_good_one(tmp_path):
    path = write(
        tmp_path, HEADER, "2023-11-16 18:15:46,1,1", "2023-11-16 18:15:45,1,1", "2023-11-16 18:15:46,1,1"
    )
    with pytest.raises(ValueError, match="1 bad row: line 3"):
        read_trace(path)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "empty"),
        ([HEADER], "no request"),
        ([ROW], "line 1: the header is '2023"),
        (["timestamp,ContextTokens,GeneratedTokens", ROW], "line 1: the header"),
        ([HEADER + ",Extra", ROW], "line 1: the header"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path, lines, says):
    with pytest.raises(ValueError, match=says):
        read_trace(write(tmp_path, *lines))


def test_a_written_trace_reads_back_the_same(tmp_path):
    requests = generated_trace(seed=3, n=500)
    path = tmp_path / "trace.csv"
    write_trace(path, requests)
    assert path.read_text().splitlines()[0] == HEADER
    assert read_trace(path) == requests


def test_a_generated_trace_depends_on_its_seed_alone_and_resembles_the_real_one():
    requests = generated_trace(seed=0, n=5000)
    assert requests == generated_trace(seed=0, n=5000) != generated_trace(seed=1, n=5000)
    assert 900 < statistics.median(request.context_tokens for request in requests) < 1150
    assert 115 < statistics.median(request.generated_tokens for request in requests) < 145
    assert 5.0 < len(requests) / requests[-1].arrival_s < 6.0
    assert requests[0].arrival_s == 0.0
    with pytest.raises(ValueError, match="n is 0"):
        generated_trace(seed=0, n=0)


@pytest.mark.parametrize(
    ("name", "count", "generated"), [("code", 8819, 245_896), ("conv", 19_366, 4_088_665)]
)
def test_the_real_traces_are_read_whole(name, count, generated):
    path = SHARED / f"azure_llm_2023_{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here: the Azure traces are not part of the repository")
    requests = read_trace(path)
    assert len(requests) == count
    assert sum(request.generated_tokens for request in requests) == generated
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(requests))
