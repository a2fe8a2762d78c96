"""Requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def in_streams(count: int, concurrency: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Do ``one(0)`` to ``one(count - 1)``, ``concurrency`` at a time, each stream its next when one is done.

    Raises:
        Exception: the first of ``one``'s; the others are given up.
    """
    waiting = iter(range(count))

    async def stream() -> None:
        for i in waiting:
            await one(i)

    try:
        async with asyncio.TaskGroup() as streams:
            for _ in range(concurrency):
                streams.create_task(stream())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
