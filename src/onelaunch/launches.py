"""Launches counted where they run.

Every piece of code that starts a kernel says so with :func:`launched`; :func:`counting` collects. On a
GPU a profiler confirms the numbers (tests/gpu); on a CPU they are what a GPU would launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_counters: list[Counter[str]] = []


def launched(name: str) -> None:
    """Count one launch of the kernel ``name`` in every open :func:`counting` block."""
    for counter in _counters:
        counter[name] += 1


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Collect the launches made inside the block, by kernel name. Blocks may nest.

    >>> with counting() as launches:
    ...     launched("compare")
    >>> launches
    Counter({'compare': 1})
    """
    counter: Counter[str] = Counter()
    _counters.append(counter)
    try:
        yield counter
    finally:
        # By identity: two counters with the same contents are equal.
        _counters[:] = [other for other in _counters if other is not counter]
