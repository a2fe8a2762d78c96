"""One streamed completion: which times count, which tokens, and what is no whole answer."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest

from onelaunch.proof.load import stream
from onelaunch.proof.load.stream import RequestFailed, stream_completion


def chunk(text="", token_ids=None, finish=None, **more):
    choice = {"index": 0, "text": text, "finish_reason": finish}
    if token_ids is not None:
        choice["token_ids"] = token_ids
    return {"choices": [choice], **more}


def usage(tokens):
    return {"choices": [], "usage": {"completion_tokens": tokens}}


@pytest.fixture
def answer(monkeypatch):
    """Sends a request at second 10 to a server whose bytes come at the given seconds."""
    clock = [10.0]
    monkeypatch.setattr(stream, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def run(*events, done=True, status=200, max_tokens=2):
        class Body(httpx.AsyncByteStream):
            async def __aiter__(self):
                for at, event in events:
                    clock[0] = at
                    yield event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode()
                if done:
                    clock[0] += 5  # the end of the stream is no token
                    yield b"data: [DONE]\n\n"

        async def send():
            transport = httpx.MockTransport(lambda _: httpx.Response(status, stream=Body()))
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await stream_completion(client, {"max_tokens": max_tokens})

        return asyncio.run(send())

    return run


def test_latency_is_the_mean_time_of_the_tokens_after_the_first(answer):
    timing = answer((12, chunk("a")), (13, chunk("b")), (16, chunk("c", finish="length")), (17, usage(3)))
    assert timing.time_to_first_token == 2
    assert timing.inter_token_latency == 2
    assert (timing.output_tokens, timing.chunks) == (3, 3)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_gave_up_is_no_answer(answer, reason):
    with pytest.raises(RequestFailed, match=f"ended the answer: {reason}"):
        answer((12, chunk("a")), (13, chunk("b", finish=reason)), (14, usage(2)))


def test_an_answer_that_was_cut_short_is_no_answer(answer):
    with pytest.raises(RequestFailed, match="2 of 128 tokens"):
        answer((12, chunk("a")), (13, chunk("b", finish="stop")), (14, usage(2)), max_tokens=128)


def test_tokens_that_come_in_one_chunk_are_counted_one_by_one(answer):
    timing = answer((11, chunk("a")), (13, chunk("bcd")), (15, chunk("efg", finish="length")), (15, usage(7)))
    assert timing.inter_token_latency == pytest.approx(4 / 6)
    assert (timing.output_tokens, timing.chunks) == (7, 3)


def test_token_ids_count_where_there_is_no_usage(answer):
    timing = answer((11, chunk("a", [5])), (13, chunk("", [6, 7])), (14, chunk("bc", [8], "stop")))
    assert timing.output_tokens == 4
    assert timing.inter_token_latency == 1


def test_a_token_without_text_yet_counts_when_its_id_is_there(answer):
    timing = answer((11, chunk("", [5])), (13, chunk("é", [6], "length")), (13, usage(2)))
    assert timing.time_to_first_token == 1
    assert timing.inter_token_latency == 2


@pytest.mark.parametrize("empty", [chunk(""), chunk("", [])], ids=["no text", "no ids"])
def test_a_chunk_without_a_token_is_neither_the_first_nor_the_last(answer, empty):
    last = {"choices": [{**empty["choices"][0], "finish_reason": "stop"}]}
    ids = [1] if "token_ids" in empty["choices"][0] else None
    timing = answer((11, empty), (12, chunk("a", ids)), (14, chunk("b", ids)), (19, last), (20, usage(2)))
    assert timing.time_to_first_token == 2
    assert timing.inter_token_latency == 2


def test_an_event_split_over_packets_has_the_time_of_its_last_byte(answer):
    event = f"data: {json.dumps(chunk('a'))}\r\n\r\n".encode()
    timing = answer(
        (11, event[:20]),
        (12, event[20:]),
        (14, chunk("b", finish="length")),
        (14, usage(2)),
        (15, b": ping\n\n"),
    )
    assert timing.time_to_first_token == 2
    assert timing.inter_token_latency == 2


A, B = (11, chunk("a")), (12, chunk("b", finish="length"))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([A, (12, chunk("b")), (13, usage(2))], "ended before its last token"),  # no finish reason
        ([A, B], "neither usage nor token_ids"),
        ([(11, chunk("ab", finish="length")), (11, usage(2))], "2 tokens in 1 chunks"),
        ([A, (12, {"error": {"message": "out of blocks"}})], "an error in the stream: .*out of blocks"),
        ([A, (12, {"object": "error", "message": "bad"})], "an error in the stream"),
        ([A, (12, b"data: {broken\n\n")], "no completion chunk: {broken"),
        ([A, (12, {"choices": [{"delta": {}}]})], "no completion chunk"),
        ([A, (12, [1])], "no completion chunk"),
    ],
)
def test_what_is_no_whole_answer_fails(answer, events, message):
    with pytest.raises(RequestFailed, match=message):
        answer(*events)


def test_a_stream_without_its_end_mark_fails(answer):
    with pytest.raises(RequestFailed, match="ended before its last token"):
        answer(A, B, (13, usage(2)), done=False)


def test_a_status_other_than_200_fails_with_what_the_server_said(answer):
    with pytest.raises(RequestFailed, match="status 404: no such model"):
        answer((11, b"no such model"), done=False, status=404)
