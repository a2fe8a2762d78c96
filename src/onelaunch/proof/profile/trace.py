"""A Chrome trace as PyTorch's profiler writes it, read as a stream into columns.

Only runtime calls, GPU events and annotations are kept, a row of numbers each: most of a trace
of 2 GB is operators and Python functions. Times are microseconds since the first event that is kept.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from onelaunch.proof.extras import require
from onelaunch.proof.profile.kinds import call_kind, gpu_kind, is_runtime, runtime_name

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

NO_CORRELATION = -1
_UNSAID = ""
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_ANNOTATIONS = ("user_annotation", "gpu_user_annotation")
_OPERATORS = ("cpu_op", "operator")  # where PyTorch before 1.13 had its ProfilerStep
_DTYPES = {"d": np.float64, "q": np.int64, "i": np.int64}
_EVENTS_A_REPORT = 4096
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Calls:
    """Runtime calls, by start. All arrays ``[calls]``."""

    at: Floats
    duration: Floats
    correlation: Ints
    name: Ints
    kind: Ints
    """A `Call`."""
    thread: Ints


@dataclass(frozen=True, eq=False)
class GpuEvents:
    """What ran on GPUs, by start. All arrays ``[events]``."""

    at: Floats
    duration: Floats
    correlation: Ints
    name: Ints
    kind: Ints
    """A `Gpu`."""
    device: Ints
    stream: Ints
    graph_node: Ints
    """1 where the event itself says that it is a graph's node."""


@dataclass(frozen=True, eq=False)
class Annotations:
    """User annotations, by start. All arrays ``[annotations]``."""

    at: Floats
    duration: Floats
    name: Ints
    thread: Ints
    """A host thread, or a GPU's stream where ``on_gpu``."""
    on_gpu: Ints


@dataclass(frozen=True, eq=False)
class Trace:
    """What is counted of a trace; the lists are what indices stand for."""

    path: str
    calls: Calls
    gpu: GpuEvents
    annotations: Annotations
    names: list[str]
    threads: list[tuple[str, str]]
    """Process and thread."""
    devices: list[tuple[str, str]]
    """Process and device: in one process's trace they are the same number."""
    streams: list[str]


class _Names(Generic[T]):
    """Each value kept once; rows hold its index."""

    def __init__(self) -> None:
        self.index: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        return self.index.setdefault(value, len(self.index))

    def values(self) -> list[T]:
        return list(self.index)


class _Rows:
    """Columns that grow; the first is the time they are sorted by."""

    def __init__(self, types: str) -> None:
        self.columns: list[array[Any]] = [array(letter) for letter in types]

    def add(self, *row: float) -> None:
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def sorted(self) -> list[NDArray[Any]]:
        columns = [
            np.asarray(column, np.float64 if column.typecode == "d" else np.int64) for column in self.columns
        ]
        order = np.argsort(columns[0], kind="stable")
        return [column[order] for column in columns]


class _Reader:
    """Puts events into rows."""

    def __init__(self) -> None:
        self.names, self.streams = _Names[str](), _Names[str]()
        self.threads, self.devices = _Names[tuple[str, str]](), _Names[tuple[str, str]]()
        self.calls, self.gpu, self.annotations = _Rows("ddqiii"), _Rows("ddqiiiii"), _Rows("ddiii")
        self.first: Decimal | int | None = None

    def add(self, event: Any) -> None:
        """Keep an event if it is of use; anything else, and what is malformed, is passed over."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        category, name = event.get("cat"), event.get("name")
        if not isinstance(category, str) or not isinstance(name, str):
            return
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        category = category.lower()
        kind = gpu_kind(category, name, str(args.get("kind", "")))
        annotates = category in _ANNOTATIONS or (category in _OPERATORS and name.startswith("ProfilerStep#"))
        if kind is None and not annotates and not is_runtime(category):
            return
        time = self._time(event)
        if time is None:
            return
        if annotates:
            on_gpu = category == "gpu_user_annotation"
            self.annotations.add(*time, self.names(name), self._thread(event), on_gpu)
        elif kind is None:
            name = runtime_name(name)
            thread = self._thread(event)
            self.calls.add(*time, _correlation(args), self.names(name), call_kind(name), thread)
        else:
            process = str(event.get("pid", ""))
            device = self.devices((process, str(args.get("device", _UNSAID))))
            stream = self.streams(str(args.get("stream", event.get("tid", ""))))
            row = (_correlation(args), self.names(name), kind, device)
            self.gpu.add(*time, *row, stream, bool(_number(args.get("graph node id"))))

    def _time(self, event: dict[str, Any]) -> tuple[float, float] | None:
        at, duration = _number(event.get("ts")), _number(event.get("dur", 0))
        if at is None or duration is None or duration < 0:
            return None
        if self.first is None:
            self.first = at
        # Decimals, so that nanoseconds are left of a time since 1970.
        return float(at - self.first), float(duration)

    def _thread(self, event: dict[str, Any]) -> int:
        return self.threads((str(event.get("pid", "")), str(event.get("tid", ""))))

    def trace(self, path: Path) -> Trace:
        gpu = GpuEvents(*self.gpu.sorted())
        return Trace(
            str(path),
            Calls(*self.calls.sorted()),
            gpu,
            Annotations(*self.annotations.sorted()),
            self.names.values(),
            self.threads.values(),
            self._named_devices(gpu.device),
            self.streams.values(),
        )

    def _named_devices(self, device: Ints) -> list[tuple[str, str]]:
        """An event without a device is of its process's first, or of one with the process's number."""
        named = self.devices.values()
        for i, (process, number) in enumerate(named):
            if number == _UNSAID:
                said = [k for k, other in enumerate(named) if other[0] == process and other[1] != _UNSAID]
                device[device == i] = said[0] if said else i
                named[i] = (process, process)
        return named


def _number(value: object) -> Decimal | int | None:
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except ArithmeticError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return value if not isinstance(value, Decimal) or value.is_finite() else None


def _correlation(args: dict[str, Any]) -> int:
    number = _number(args.get("correlation"))
    return NO_CORRELATION if number is None or not 0 <= number < 2**63 else int(number)


class _CountedFile(io.FileIO):
    """A file that knows how much of it was read: of a pipe too, which has no position."""

    done = 0

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        self.done += count
        return count


def read_trace(path: Path, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Read a trace, plain or gzip.

    Args:
        progress: told from time to time how many bytes of the file are read, and of how many (0: not known).

    Raises:
        ValueError: not a trace, cut short, or ijson is not installed. OSError: the file cannot be read.
    """
    require("ijson")
    import ijson  # type: ignore[import-untyped, unused-ignore]

    reader = _Reader()
    try:
        with _CountedFile(path, "rb") as raw:
            size = os.fstat(raw.fileno()).st_size
            for count, event in enumerate(_events(path, io.BufferedReader(raw, 1 << 18))):
                reader.add(event)
                if progress is not None and count % _EVENTS_A_REPORT == 0:
                    progress(raw.done, size)
            if progress is not None:
                progress(raw.done, size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: the gzip file is damaged or cut short ({error})") from error
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {_json_error(error)}") from error
    return reader.trace(path)


def _events(path: Path, file: io.BufferedReader) -> Iterator[object]:
    import ijson

    stream: io.BufferedReader | gzip.GzipFile = file
    if file.peek(2)[:2] == _GZIP:
        stream = gzip.GzipFile(fileobj=file)
    elif path.suffix == ".gz":
        raise ValueError(f"{path}: the name says gzip, but the file is not")
    head = stream.peek(64)
    if head.startswith(_BOM):
        stream.read(len(_BOM))
        head = head[len(_BOM) :]
    start = head.lstrip()[:1]
    if not head:
        raise ValueError(f"{path}: the file is empty")
    if start not in (b"{", b"[", b""):
        raise ValueError(f"{path}: not JSON: it starts with {head.lstrip()[:20]!r}")
    # Chrome's format may be the list alone.
    prefix = "item" if start == b"[" else "traceEvents.item"
    found = False
    for event in ijson.items(stream, prefix, buf_size=1 << 18):
        found = True
        yield event
    if not found:
        raise ValueError(
            f"{path}: no trace events: it must hold a list traceEvents, as torch.profiler writes"
        )


def _json_error(error: Exception) -> str:
    text = str(error)
    if "premature EOF" in text or "ncomplete" in text:
        return "the JSON ends too early: the trace was cut short"
    first = text.removeprefix("b'").split("\\n")[0].split("\n")[0].strip()
    return f"not valid JSON: {first}"
