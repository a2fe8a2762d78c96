"""A server on a free port for each test, in a thread of this process."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import openai
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from onelaunch.server import run
from onelaunch.server.app import make_app
from onelaunch.server.engine_thread import EngineThread
from server.fake_core import FakeCore


class Running:
    """A server that runs, and clients of it."""

    def __init__(self, engine: EngineThread, url: str, key: str | None) -> None:
        self.engine = engine
        self.core = engine.core
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=20)
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=key or "none", max_retries=0, timeout=20)

    def complete(self, prompt, **options):
        return self.client.completions.create(model="fake", prompt=prompt, **options)

    def post(self, path: str = "/v1/completions", **body) -> httpx.Response:
        return self.http.post(path, json=body)

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that have these labels."""
        total, found = 0.0, False
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith((f"{name}{{", f"{name} ")) and all(
                f'{k}="{v}"' in line for k, v in labels.items()
            ):
                total, found = total + float(line.rpartition(" ")[2]), True
        assert found, name
        return total

    def until(self, holds, seconds: float = 10) -> None:
        """Wait for the server to come to a state."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it never happened"
            time.sleep(0.01)

    def idle(self) -> bool:
        return self.engine.num_live == 0 and not self.core.has_unfinished()


@contextmanager
def running(make_core, *, shutdown_timeout=5.0, limits=None, api_key=None):
    """A server of the core that ``make_core`` makes."""
    engine = EngineThread(make_core)
    engine.start()
    bound = run.bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    ready = threading.Event()
    app = make_app(engine, limits=limits, api_key=api_key)
    server = run.DrainingServer(app, engine, shutdown_timeout, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    assert ready.wait(10)
    served = Running(engine, url, api_key)
    served.server = server
    served.thread = thread
    try:
        yield served
    finally:
        served.http.close()
        served.client.close()
        server.should_exit = True
        thread.join(10)
        engine.stop()
        assert not thread.is_alive()


@pytest.fixture
def serve():
    """``serve(core, ...)`` starts a server that ends with the test."""
    with ExitStack() as stack:

        def start(core=None, **options) -> Running:
            return stack.enter_context(running(lambda: core or FakeCore(), **options))

        yield start


@pytest.fixture(scope="module")
def shared():
    """One server for the tests of a module that leave it as it was."""
    with running(FakeCore) as served:
        yield served
