"""Values of a TOML table, taken out one by one, and every mistake named by its key."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


def read_toml(path: Path, make: Callable[[Mapping[str, Any], str], _T]) -> _T:
    """What ``make`` makes of a file's values and its text.

    Raises:
        ValueError: it is no TOML, or ``make`` raises one; the message begins with the path.
        OSError: it can't be read.
    """
    try:
        text = path.read_text()
        values = tomllib.loads(text)
    except ValueError as error:  # of the encoding, too
        raise ValueError(f"{path} is not TOML: {error}") from error
    try:
        return make(values, text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class Table:
    """A table of the plan. Every ``take_*`` removes its key; :meth:`end` refuses what is left.

    Raises:
        ValueError: everywhere; the message has the key's full name, its value and what it must be.
    """

    def __init__(self, values: object, name: str) -> None:
        if not isinstance(values, dict):
            raise ValueError(f"{name} is {values!r}: it must be a table")
        self._values = dict(values)
        self._name = name

    def key(self, name: str) -> str:
        """The full name of a key, as errors write it."""
        return f"{self._name}.{name}" if self._name else name

    def take(self, name: str, default: Any = None) -> Any:
        """Any value, as it is."""
        return self._values.pop(name, default)

    def has(self, name: str) -> bool:
        """Whether the key is there and not taken yet."""
        return name in self._values

    def take_table(self, name: str) -> Table | None:
        """A table inside this one, or None."""
        value = self.take(name)
        return None if value is None else Table(value, self.key(name))

    def take_int(self, name: str, default: int | None, least: int) -> int:
        """A whole number of at least ``least``; without a default it must be given."""
        value = self.take(name, default)
        if type(value) is not int or value < least:
            raise self._wrong(name, value, f"a whole number of at least {least}")
        return value

    def take_seconds(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self.take(name, default)
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise self._wrong(name, value, "a number of seconds above 0")
        return float(value)

    def take_text(self, name: str, default: str | None, choices: Sequence[str] = ()) -> str:
        """A string that is not empty, one of ``choices`` if there are any."""
        value = self.take(name, default)
        if not isinstance(value, str) or not value or (choices and value not in choices):
            raise self._wrong(name, value, " or ".join(choices) if choices else "a string, not empty")
        return value

    def take_bool(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def take_ints(self, name: str, default: list[int], least: int) -> tuple[int, ...]:
        """A list of different whole numbers of at least ``least``."""
        value = self.take(name, default)
        if (
            not isinstance(value, list)
            or not value
            or not all(type(one) is int and one >= least for one in value)
            or len(set(value)) != len(value)
        ):
            raise self._wrong(name, value, f"a list of different whole numbers of at least {least}")
        return tuple(value)

    def take_texts(self, name: str, default: list[str] | None) -> tuple[str, ...]:
        """A list of strings that are not empty; without a default it must be given, with at least one."""
        value = self.take(name, default)
        if (
            not isinstance(value, list)
            or (not value and default is None)
            or not all(isinstance(one, str) and one for one in value)
        ):
            raise self._wrong(name, value, "a list of strings, none of them empty")
        return tuple(value)

    def take_command(self, name: str, placeholders: Sequence[str]) -> tuple[str, ...]:
        """A command line, split as a shell would, or a list of its words. No shell runs it.

        Every one of ``placeholders`` must be in it.
        """
        value = self.take(name)
        try:
            words = shlex.split(value) if isinstance(value, str) else value
        except ValueError as error:
            raise self._wrong(name, value, f"a command line ({error})") from error
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise self._wrong(name, value, "a command line, or a list of its words")
        for placeholder in placeholders:
            if not any(f"{{{placeholder}}}" in word for word in words):
                raise ValueError(f"{self.key(name)} has no {{{placeholder}}}: it must say where it goes")
        return tuple(words)

    def take_environment(self, name: str) -> dict[str, str]:
        """A table of strings; numbers become strings."""
        value = self.take(name, {})
        if not isinstance(value, dict) or not all(type(one) in (str, int) for one in value.values()):
            raise self._wrong(name, value, "a table of strings")
        return {variable: str(one) for variable, one in value.items()}

    def end(self) -> None:
        """Refuse every key that nobody took."""
        for name in self._values:
            raise ValueError(f"{self.key(name)} is no key of a plan: take it out, or correct its name")

    def _wrong(self, name: str, value: object, must_be: str) -> ValueError:
        was = "missing" if value is None else repr(value)
        return ValueError(f"{self.key(name)} is {was}: it must be {must_be}")
