"""Calls that come and go while the engine steps: disconnects, faults, a stop, and many at once."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time

import httpx
import openai
import pytest

from server.fake_core import FakeCore, expected_tokens

LONG = {"model": "fake", "prompt": "abc", "max_tokens": 100_000}


def endless(**options) -> FakeCore:
    return FakeCore(max_model_len=10**6, **options)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_takes_its_requests_with_it(serve, path, stream):
    served = serve(endless())
    body = {**LONG, "messages": [{"role": "user", "content": "a"}], "n": 3, "stream": stream}

    async def call_and_leave() -> None:
        async with httpx.AsyncClient(base_url=served.url) as client, asyncio.timeout(0.3):
            if stream:
                async with client.stream("POST", path, json=body) as response:
                    async for _ in response.aiter_lines():
                        pass
            else:
                await client.post(path, json=body)

    with pytest.raises(TimeoutError):
        asyncio.run(call_and_leave())
    served.until(served.idle)
    assert len(served.core.aborted) == 3
    served.until(lambda: served.metric("vllm:num_requests_running") == 0)
    assert served.metric("vllm:request_success_total", finished_reason="abort") == 3


def test_a_client_that_leaves_before_the_engine_took_its_request_leaves_nothing(serve):
    gate = threading.Event()
    served = serve(endless(before_step=gate.wait))
    first = threading.Thread(target=served.complete, args=("a",), kwargs={"max_tokens": 2})
    first.start()
    served.until(served.core.has_unfinished)  # the engine is in a step, and takes nothing
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.url}/v1/completions", json=LONG, timeout=0.2)
    time.sleep(0.1)
    gate.set()
    first.join()
    served.until(served.idle)


def test_a_client_that_leaves_within_its_request_is_no_fault(shared, caplog):
    host, port = shared.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    assert shared.complete("abc", max_tokens=2).choices
    assert caplog.text == ""


def test_two_requests_at_once_from_one_client(shared):
    async def both() -> list:
        client = openai.AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="none", max_retries=0)
        async with client:
            calls = [
                client.completions.create(model="fake", prompt=prompt, max_tokens=50)
                for prompt in ("ab", "xyz")
            ]
            return await asyncio.gather(*calls)

    texts = [answer.choices[0].text for answer in asyncio.run(both())]
    assert texts == [bytes(expected_tokens(prompt, 50)).decode() for prompt in (b"ab", b"xyz")]


def test_two_hundred_clients_at_once_of_whom_some_leave_lose_nothing(serve):
    served = serve(FakeCore(max_num_seqs=16))
    rng = random.Random(0)
    bodies = [
        {
            "model": "fake",
            "prompt": [rng.randrange(256) for _ in range(rng.randint(1, 40))],
            "max_tokens": rng.randint(1, 200),
            "stream": rng.random() < 0.5,
            "return_token_ids": True,
            "n": 1 + (i % 7 == 0),
        }
        for i in range(200)
    ]

    async def call(client: openai.AsyncOpenAI, body: dict, leaves: bool) -> None:
        known = {"model", "prompt", "max_tokens", "stream", "n"}
        options = {name: value for name, value in body.items() if name in known}
        answer = await client.completions.create(**options, extra_body={"return_token_ids": True})
        got: dict[int, list[int]] = {}
        if body["stream"]:
            async for chunk in answer:
                for choice in chunk.choices:
                    got.setdefault(choice.index, []).extend(choice.token_ids)
                if leaves:
                    await answer.close()
                    return
        else:
            got = {choice.index: choice.token_ids for choice in answer.choices}
        assert got == {i: expected_tokens(body["prompt"], body["max_tokens"]) for i in range(body["n"])}

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=200)
        async with (
            httpx.AsyncClient(limits=limits, timeout=60) as http,
            openai.AsyncOpenAI(
                base_url=f"{served.url}/v1", api_key="none", max_retries=0, http_client=http
            ) as client,
        ):
            await asyncio.gather(*(call(client, body, i % 10 == 0) for i, body in enumerate(bodies)))

    asyncio.run(all_of_them())
    served.until(served.idle)
    served.until(lambda: served.metric("vllm:kv_cache_usage_perc") == 0)
    sequences = sum(body["n"] for body in bodies)
    assert len(served.core.seen) == sequences
    assert served.metric("vllm:request_success_total") == sequences


# A step that raises.


class Break:
    """Raises in the step after it was armed."""

    def __init__(self) -> None:
        self.armed = threading.Event()

    def __call__(self) -> None:
        time.sleep(0.001)
        if self.armed.is_set():
            raise RuntimeError("the GPU fell off the bus")


def test_a_step_that_raises_is_told_to_all_who_run_and_health_says_so(serve, caplog):
    broken = Break()
    served = serve(endless(before_step=broken))
    errors: list[Exception] = []

    def call(stream: bool) -> None:
        try:
            answer = served.complete("abc", max_tokens=100_000, stream=stream)
            for _ in answer if stream else ():
                pass
        except Exception as error:
            errors.append(error)

    calls = [threading.Thread(target=call, args=(stream,)) for stream in (False, True, True)]
    for thread in calls:
        thread.start()
    served.until(lambda: served.engine.num_live == 3)
    assert served.http.get("/health").status_code == 200
    broken.armed.set()
    for thread in calls:
        thread.join(10)
    assert len(errors) == 3 and all("the engine failed" in str(error) for error in errors)
    assert (
        sum(isinstance(error, openai.InternalServerError) for error in errors) == 1
    )  # the others are in streams
    response = served.http.get("/health")
    assert response.status_code == 503 and "RuntimeError" in response.text
    assert served.post(**LONG).status_code == 503
    assert served.http.get("/metrics").status_code == 200
    assert served.engine.num_live == 0
    assert "fell off the bus" in caplog.text and "fell off the bus" not in str(errors)


def test_an_engine_that_can_not_be_made_raises_in_start():
    from onelaunch.server.engine_thread import EngineThread

    def fail():
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        EngineThread(fail).start()


# A stop.


def test_a_stop_lets_running_requests_end(serve):
    gate = threading.Event()
    served = serve(FakeCore(before_step=gate.wait))
    answers: list = []
    call = threading.Thread(target=lambda: answers.append(served.complete("abc", max_tokens=20)))
    call.start()
    served.until(lambda: served.engine.num_live == 1)
    served.server.should_exit = True
    with pytest.raises(httpx.ConnectError):
        while True:
            httpx.get(f"{served.url}/health")
            time.sleep(0.02)
    gate.set()
    call.join(10)
    assert answers[0].usage.completion_tokens == 20
    served.thread.join(10)
    assert not served.thread.is_alive()


def test_a_stop_tells_requests_that_run_too_long(serve):
    served = serve(endless(before_step=lambda: time.sleep(0.002)), shutdown_timeout=0.2)
    errors: list[Exception] = []

    def call(stream: bool) -> None:
        try:
            for _ in served.complete("abc", max_tokens=100_000, stream=stream):
                pass
        except Exception as error:
            errors.append(error)

    calls = [threading.Thread(target=call, args=(stream,)) for stream in (False, True)]
    for thread in calls:
        thread.start()
    served.until(lambda: served.engine.num_live == 2)
    served.server.should_exit = True
    for thread in calls:
        thread.join(10)
    assert [("the server stopped" in str(error)) for error in errors] == [True, True]
    served.until(lambda: len(served.core.aborted) == 2)
