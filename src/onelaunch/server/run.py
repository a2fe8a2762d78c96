"""Runs the application until a signal, and ends it so that nothing is lost without a word."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from onelaunch.server.engine_thread import EngineThread

# Longer than clients keep an idle connection (httpx: 5 s), so that it is they who close it: one that the
# server closes may have a request on its way.
_KEEP_ALIVE_SECONDS = 30
# For connections to send their last words, after the running requests were told.
_CLOSE_SECONDS = 5


def bind(host: str, port: int) -> socket.socket:
    """A socket that does not listen yet: until the server does, connections are refused, not left waiting.

    Args:
        port: 0 for any free one.

    Raises:
        OSError: the address can't be had.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(f"{host}:{port} can't be listened at: {error.strerror}") from error
    return bound


class DrainingServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM; then running requests have a time to end, and are told when it is over.

    A second signal ends it at once. ``run(sockets=[...])`` returns when all is over.

    Args:
        shutdown_timeout: seconds that running requests have.
        ready: called once connections are taken.
    """

    def __init__(
        self, app: FastAPI, engine: EngineThread, shutdown_timeout: float, ready: Callable[[], None]
    ) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(shutdown_timeout) + 1 + _CLOSE_SECONDS,
        )
        super().__init__(config)
        self._engine = engine
        self._shutdown_timeout = shutdown_timeout
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not on uvicorn's list of signals, which it raises again at its end: a graceful stop has status 0.
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain = asyncio.create_task(self._engine.drain(0.0 if self.force_exit else self._shutdown_timeout))
        await super().shutdown(sockets)
        drain.cancel()
