"""Serving traces in the format of the Azure LLM inference traces.

A CSV file with the header ``TIMESTAMP,ContextTokens,GeneratedTokens`` and one request a row::

    2023-11-16 18:15:46.6805900,374,44

The 2023 traces (one hour of a coding and of a conversation service, CC-BY 4.0) were published with
P. Patel et al., "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024:
https://github.com/Azure/AzurePublicDataset
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

# The traces carry 7 fractional digits, one more than datetime holds: time is counted in 100 ns ticks.
_TICKS_PER_SECOND = 10_000_000
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,7}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_GENERATED_START = datetime(2023, 11, 16)

_ERRORS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace.

    Attributes:
        arrival_s: seconds since the trace's first request.
        context_tokens: tokens of the prompt, at least 1.
        generated_tokens: tokens the service answered with; 0 for a request that was given up.
    """

    arrival_s: float
    context_tokens: int
    generated_tokens: int


def read_trace(path: Path) -> list[Request]:
    """Read a trace file, in arrival order.

    Args:
        path: the CSV file.

    Returns:
        The requests; the first arrives at 0.0 s.

    Raises:
        ValueError: the header is another, a row is malformed, time runs backwards, or there is no
            row. One line that names the first few bad rows by line number, and counts them all.
        OSError: the file cannot be read.
    """
    rows: list[tuple[int, int, int]] = []
    errors: list[str] = []
    previous: int | None = None
    # A byte that is no UTF-8 becomes U+FFFD, which no field accepts: its row is named like any other.
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, None)
            if header is None:
                raise ValueError(f"{path}: the file is empty: it must start with {','.join(HEADER)}")
            if tuple(header) != HEADER:
                raise ValueError(
                    f"{path}: line 1: the header is {','.join(header)[:80]!r}: it must be {','.join(HEADER)}"
                )
            for fields in reader:
                try:
                    row = _parse_row(fields)
                    if previous is not None and row[0] < previous:
                        raise ValueError(f"timestamp {fields[0]} is earlier than the row before it")
                except ValueError as error:
                    errors.append(f"line {reader.line_num}: {error}")
                    continue
                previous = row[0]
                rows.append(row)
        except csv.Error as error:  # the reader cannot go on: this is the last row it names
            errors.append(f"line {reader.line_num}: {error}")
    if errors:
        shown = "; ".join(errors[:_ERRORS_SHOWN])
        hidden = len(errors) - _ERRORS_SHOWN
        more = f"; and {hidden} more" if hidden > 0 else ""
        raise ValueError(f"{path}: {len(errors)} bad row{'s' if len(errors) > 1 else ''}: {shown}{more}")
    if not rows:
        raise ValueError(f"{path}: no request follows the header")
    start = rows[0][0]
    return [Request((ticks - start) / _TICKS_PER_SECOND, context, made) for ticks, context, made in rows]


def write_trace(path: Path, requests: Iterable[Request]) -> None:
    """Write requests in the format :func:`read_trace` reads. Arrivals are rounded to 100 ns.

    The first request is dated 2023-11-16 00:00:00 plus its ``arrival_s``.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for request in requests:
            seconds, fraction = divmod(round(request.arrival_s * _TICKS_PER_SECOND), _TICKS_PER_SECOND)
            stamp = f"{_GENERATED_START + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}.{fraction:07d}"
            writer.writerow((stamp, request.context_tokens, request.generated_tokens))


def generated_trace(seed: int, n: int) -> list[Request]:
    """Make ``n`` requests that resemble the 2023 conversation trace, the same for the same seed.

    Lengths are log-normal with that trace's medians (1,020 and 129 tokens) and spreads, cut at its
    longest (14,050 and 1,000); arrivals are a Poisson process at its rate (5.5 a second).

    Raises:
        ValueError: ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"n is {n}: a trace has at least 1 request")
    rng = np.random.default_rng(seed)
    context = np.clip(rng.lognormal(np.log(1020), 0.985, n), 1, 14_050).astype(np.int64)
    made = np.clip(rng.lognormal(np.log(129), 0.859, n), 1, 1_000).astype(np.int64)
    gaps = rng.exponential(0.181, n)
    gaps[0] = 0.0
    ticks = np.cumsum(np.round(gaps * _TICKS_PER_SECOND).astype(np.int64))
    return [
        Request(int(tick) / _TICKS_PER_SECOND, int(prompt), int(answer))
        for tick, prompt, answer in zip(ticks, context, made, strict=True)
    ]


def _parse_row(fields: list[str]) -> tuple[int, int, int]:
    """The row's time in ticks since 1970, prompt tokens and generated tokens."""
    if len(fields) != len(HEADER):
        raise ValueError(f"{len(fields)} fields, there must be {len(HEADER)}")
    stamp, context, generated = fields
    return (
        _parse_timestamp(stamp),
        _parse_count("ContextTokens", context, minimum=1),
        _parse_count("GeneratedTokens", generated, minimum=0),
    )


def _parse_timestamp(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"TIMESTAMP {text[:40]!r} is not of the form YYYY-MM-DD HH:MM:SS.fffffff")
    try:
        whole = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise ValueError(f"TIMESTAMP {text!r} is no date and time of the calendar") from None
    seconds = (whole - _EPOCH) // timedelta(seconds=1)
    return seconds * _TICKS_PER_SECOND + int((match[2] or "").ljust(7, "0"))


def _parse_count(column: str, text: str, minimum: int) -> int:
    # int() alone would also take "1_000", " 7" and digits of other scripts.
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII) or int(text) < minimum:
        raise ValueError(f"{column} {text[:40]!r} is not an integer of at least {minimum}")
    return int(text)
