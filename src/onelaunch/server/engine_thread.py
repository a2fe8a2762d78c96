"""The engine in a thread of its own, and the calls that wait for it in the event loop."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from onelaunch.engine.config import EngineConfig
from onelaunch.engine.outputs import EngineStats, FinishReason, RequestOutput
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.engine.tokenizer import Tokenizer
from onelaunch.server.errors import CLIENT_GONE, ApiError, internal_error
from onelaunch.server.metrics import Metrics

_log = logging.getLogger("onelaunch.server")


class Core(Protocol):
    """What the server needs of ``EngineCore``. One thread makes it and calls it."""

    config: EngineConfig
    tokenizer: Tokenizer
    stats: EngineStats

    def add(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        *,
        cache_salt: str | None = None,
    ) -> None: ...

    def abort(self, request_id: str) -> None: ...

    def step(self) -> list[RequestOutput]: ...

    def has_unfinished(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence for the engine."""

    request_id: str
    prompt_token_ids: Sequence[int]
    params: SamplingParams
    cache_salt: str | None


class Generation:
    """The outputs of one call's requests, in the event loop: iterate over it, then close it.

    Iterating ends when all requests have, and raises ApiError when the engine fails or the server stops.
    """

    def __init__(self, engine: EngineThread, request_ids: Sequence[str]) -> None:
        self._engine = engine
        self._live = set(request_ids)
        self._outputs: asyncio.Queue[RequestOutput | ApiError] = asyncio.Queue()

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> RequestOutput:
        while self._live:
            if not self._outputs.empty():  # get() would not wait, and other calls need a turn
                await asyncio.sleep(0)
            output = await self._outputs.get()
            if isinstance(output, ApiError):
                self.close()
                raise output
            if output.request_id not in self._live:  # a step that ran while its request was finished here
                continue
            if output.finish_reason is not None:
                self._forget(output.request_id)
            return output
        raise StopAsyncIteration

    def finish(self, request_id: str) -> None:
        """End a request that the server found a stop string in."""
        if request_id in self._live:
            self._forget(request_id)
            self._engine.abort([request_id], FinishReason.STOP)

    def close(self) -> None:
        """Take back whatever still runs, and end whoever iterates; may be called more than once."""
        if self._live:
            request_ids = list(self._live)
            for request_id in request_ids:
                self._forget(request_id)
            self._engine.abort(request_ids, FinishReason.ABORT)
        self._outputs.put_nowait(ApiError("the call was closed", status=CLIENT_GONE))

    def put(self, output: RequestOutput | ApiError) -> None:
        self._outputs.put_nowait(output)

    def _forget(self, request_id: str) -> None:
        self._live.discard(request_id)
        self._engine.forget(request_id)


class EngineThread:
    """Steps an engine while it has requests, and hands its outputs to the calls that wait for them.

    Its methods are for the event loop, except ``start`` and ``stop``.

    Args:
        make_core: makes the engine; runs in the thread, as CUDA keeps its current device a thread.

    Attributes:
        core, metrics: once started.
        fault: what a step raised. The engine is not used after it: its state, or the GPU's, may be broken.
    """

    core: Core
    metrics: Metrics

    def __init__(self, make_core: Callable[[], Core]) -> None:
        self.fault: BaseException | None = None
        self._refusal: str | None = None
        self._make_core = make_core
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generations: dict[str, Generation] = {}
        self._adding: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._stats_are_old = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._started: Future[None] = Future()

    # In the caller's thread.

    def start(self) -> None:
        """Make the engine and begin. Raises what making it raised."""
        self._thread.start()
        self._started.result()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread after its current step; ``timeout`` seconds at most."""
        self._commands.put(self._stop)
        self._thread.join(timeout)

    # In the event loop.

    @property
    def num_live(self) -> int:
        """Requests that run or wait."""
        return len(self._generations)

    async def submit(self, requests: Sequence[EngineRequest], arrival: float) -> Generation:
        """Add a call's requests.

        Args:
            arrival: ``time.monotonic()`` when the call came in.

        Raises:
            ApiError: the engine refuses one, has failed, or the server stops: none of them runs.
        """
        if self._refusal is not None:
            raise ApiError(self._refusal, status=503)
        self._loop = asyncio.get_running_loop()
        generation = Generation(self, [request.request_id for request in requests])
        self._generations.update({request.request_id: generation for request in requests})
        added: asyncio.Future[None] = self._loop.create_future()
        self._adding.add(added)
        self._commands.put(lambda: self._add(requests, arrival, added))
        try:
            await added
        except BaseException:
            generation.close()
            raise
        finally:
            self._adding.discard(added)
        return generation

    def abort(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        """Take requests back."""
        self._commands.put(lambda: self._abort(request_ids, reason))

    def forget(self, request_id: str) -> None:
        """Expect no outputs of a request any more."""
        self._generations.pop(request_id, None)

    async def drain(self, timeout: float) -> None:
        """Refuse new calls; let those that run end, and tell them after ``timeout`` seconds."""
        self._refusal = "the server is stopping"
        deadline = time.monotonic() + timeout
        while self._generations and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._tell_all(ApiError("the server stopped before this request was done", status=503))

    def _deliver(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            generation = self._generations.get(output.request_id)
            if generation is not None:
                generation.put(output)

    def _fail(self, error: BaseException) -> None:
        self.fault = error
        self._refusal = "the engine has failed and must be restarted"
        self._tell_all(ApiError("the engine failed while this request ran", status=500))

    def _tell_all(self, error: ApiError) -> None:
        for added in self._adding:
            if not added.done():
                added.set_exception(error)
        for generation in set(self._generations.values()):
            generation.put(error)

    # In the engine's thread.

    def _run(self) -> None:
        try:
            self.core = core = self._make_core()
            speculative = core.config.speculative
            num_draft_tokens = 0 if speculative is None else speculative.num_speculative_tokens
            self.metrics = Metrics(core.stats, core.config.model_name, num_draft_tokens)
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        try:
            while not self._stopping:
                self._obey(wait=not core.has_unfinished() and not self._stats_are_old)
                if core.has_unfinished() or self._stats_are_old:
                    self._stats_are_old = False
                    outputs = core.step()
                    self.metrics.took(outputs, time.monotonic())
                    if outputs:
                        self._in_loop(self._deliver, outputs)
        except BaseException as error:
            _log.exception("the engine failed: all requests end, and /health says so")
            self.metrics.all_ended(FinishReason.ERROR, time.monotonic())
            self._in_loop(self._fail, error)

    def _obey(self, *, wait: bool) -> None:
        """Run the commands that have come in; with ``wait``, at least one."""
        while True:
            try:
                command = self._commands.get(block=wait)
            except queue.Empty:
                return
            command()
            wait = False

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has closed: nobody waits
            self._stopping = True

    def _add(self, requests: Sequence[EngineRequest], arrival: float, added: asyncio.Future[None]) -> None:
        error: ApiError | None = None
        try:
            for request in requests:
                self.core.add(
                    request.request_id,
                    request.prompt_token_ids,
                    request.params,
                    cache_salt=request.cache_salt,
                )
                self.metrics.started(request.request_id, arrival)
        except Exception as refused:
            error = ApiError(str(refused))
            if not isinstance(refused, ValueError):  # a fault, yet of this call alone: nothing was computed
                _log.exception("the engine could not take a request")
                error = internal_error()
            self._abort([request.request_id for request in requests], FinishReason.ABORT)

        def tell() -> None:
            if added.done():
                return
            if error is None:
                added.set_result(None)
            else:
                added.set_exception(error)

        self._in_loop(tell)

    def _abort(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        for request_id in request_ids:
            self.core.abort(request_id)
            self.metrics.ended(request_id, reason, time.monotonic())
        self._stats_are_old = True  # the engine counts what runs in a step, and there may be none

    def _stop(self) -> None:
        self._stopping = True
