"""Case files: JSON that a person can read and change, and ``onelaunch verify --case`` replays.

A file holds the steps of one failure, in order. Most have one; a fault that needs an earlier step's leftovers
has more. Keys are the fields of :class:`Case` and :class:`TopkCase`; a field at its default is left out::

    {"format": "onelaunch case", "version": 1,
     "steps": [{"kind": "build", "num_tokens": 3, ...}]}
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onelaunch.proof.cases import Case
from onelaunch.proof.topk_cases import TopkCase

FORMAT = "onelaunch case"
VERSION = 1

AnyCase = Case | TopkCase
_KINDS: dict[str, type[Case] | type[TopkCase]] = {"build": Case, "topk": TopkCase}


def to_json(steps: Sequence[AnyCase]) -> str:
    """The text of a case file."""
    plain = [{"kind": _kind(step), **_plain(step)} for step in steps]
    text = json.dumps({"format": FORMAT, "version": VERSION, "steps": plain}, indent=1)
    # One line a list of numbers: a block table of ten entries should not be ten lines.
    return (
        re.sub(r"\[[\s\d,-]*\]", lambda match: re.sub(r",", ", ", re.sub(r"\s+", "", match[0])), text) + "\n"
    )


def from_json(text: str) -> list[AnyCase]:
    """The steps of a case file.

    Raises:
        ValueError: not JSON, or naming the field that is missing, unknown, or of the wrong type or value.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"case is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"format is not {FORMAT!r}: this is no case file")
    if data.get("version") != VERSION:
        raise ValueError(f"version is {data.get('version')!r}: it must be {VERSION}")
    steps = data.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ValueError(f"steps is {steps!r}: it must be a list of at least one case")
    cases: list[AnyCase] = []
    for number, step in enumerate(steps):
        where = f"steps[{number}]"
        if not isinstance(step, dict):
            raise ValueError(f"{where} is {step!r}: it must be an object")
        kind = step.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(f"{where}.kind is {kind!r}: it must be one of {', '.join(_KINDS)}")
        fields = {key: value for key, value in step.items() if key != "kind"}
        cases.append(_record(_KINDS[kind], fields, where))
    return cases


def write(path: Path, steps: Sequence[AnyCase]) -> None:
    """Write a case file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(steps))


def read(path: Path) -> list[AnyCase]:
    """Read a case file.

    Raises:
        ValueError: it can't be read, or does not fit; the message starts with the path.
    """
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _kind(case: AnyCase) -> str:
    return next(kind for kind, type_ in _KINDS.items() if isinstance(case, type_))


def _plain(value: Any) -> Any:
    """Dataclasses as dicts without the fields at their defaults, tuples as lists."""
    if dataclasses.is_dataclass(value):
        given = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: _plain(item) for field, item in given if item != field.default}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _record(type_: type[Any], data: object, where: str) -> Any:
    """A dataclass from a dict, each field checked against its annotation."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} is {data!r}: it must be an object")
    hints = typing.get_type_hints(type_)
    fields = {field.name: field for field in dataclasses.fields(type_)}
    for name in data:
        if name not in fields:
            raise ValueError(f"{where}.{name} is unknown: the fields are {', '.join(fields)}")
    for name, field in fields.items():
        if name not in data and field.default is dataclasses.MISSING:
            raise ValueError(f"{where}.{name} is missing")
    values = {name: _value(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    try:
        return type_(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _value(hint: Any, value: object, where: str) -> Any:
    """One value as its annotation says: int, bool, str, tuple[X, ...], X | None or a dataclass."""
    if isinstance(hint, types.UnionType):
        inner, _ = typing.get_args(hint)
        return None if value is None else _value(inner, value, where)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where} is {value!r}: it must be a list")
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, item, f"{where}[{i}]") for i, item in enumerate(value))
    if dataclasses.is_dataclass(hint):
        return _record(typing.cast(type[Any], hint), value, where)
    # bool is an int in Python, but true is no number of rows.
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"{where} is {value!r}: it must be of type {hint.__name__}")
    return value
