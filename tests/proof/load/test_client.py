"""Whole load runs: how many requests, how many at once, which prompts, and what a failed request means."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from onelaunch.proof.load import LoadSettings, RequestFailed, client, run_load
from onelaunch.proof.load.prompts import make_prompts
from onelaunch.proof.load.result import LoadResult
from onelaunch.proof.load.stream import RequestTiming
from proof.load.completion_server import completion_server


def settings(base_url="http://server", **changes):
    return LoadSettings(
        **{
            "base_url": base_url,
            "model": "m",
            "concurrency": 3,
            "requests": 8,
            "prompt_tokens": 5,
            "max_tokens": 4,
            **changes,
        }
    )


def test_all_requests_are_sent_and_never_more_than_the_concurrency_at_once():
    seen = []
    with completion_server() as (url, record):
        result = asyncio.run(run_load(settings(url), seen.append))
    assert len(record.bodies) == len(result.requests) == 8
    assert record.most_in_flight == 3
    assert seen == list(range(1, 9))
    assert result.output_tokens == 32


def test_every_request_asks_for_a_stream_of_equal_length_with_its_tokens_counted():
    with completion_server() as (url, record):
        asyncio.run(run_load(settings(url)))
    for body in record.bodies:
        prompt = body.pop("prompt")
        assert len(prompt) == 5 and all(16 <= token < 256 for token in prompt)
        assert body == {
            "model": "m",
            "max_tokens": 4,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }


@pytest.mark.parametrize(("key", "sent"), [("secret", "Bearer secret"), ("", None)])
def test_a_key_of_the_environment_is_sent(monkeypatch, key, sent):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with completion_server() as (url, record):
        asyncio.run(run_load(settings(url)))
    assert record.keys == {sent}


def test_one_failed_request_fails_the_run():
    with (
        completion_server(fails_at=4) as (url, record),
        pytest.raises(RequestFailed, match=r"request \d of 8 failed"),
    ):
        asyncio.run(run_load(settings(url)))
    assert len(record.bodies) < 8


def test_a_stream_that_something_buffers_has_no_latency_and_fails(monkeypatch):
    async def buffered(client, body):
        return RequestTiming(0.1, 0.0, 4, 4)

    monkeypatch.setattr(client, "stream_completion", buffered)
    with pytest.raises(RequestFailed, match="all tokens of most answers came at once"):
        asyncio.run(run_load(settings()))


def test_no_server_at_all_is_a_failed_request():
    with completion_server() as (url, _):
        pass
    with pytest.raises(RequestFailed, match=r"request 1 of 8 failed: ConnectError"):
        asyncio.run(run_load(settings(url)))


def test_prompts_are_decided_by_the_seed():
    assert make_prompts(settings(seed=1)) == make_prompts(settings(seed=1))
    assert make_prompts(settings(seed=1)) != make_prompts(settings(seed=2))


def test_no_two_prompts_share_a_block_that_a_prefix_cache_would_keep():
    prompts = [make_prompts(settings(seed=seed, prompt_tokens=64, requests=50)) for seed in range(4)]
    beginnings = {tuple(prompt[:8]) for some in prompts for prompt in some}
    assert len(beginnings) == 200


def test_text_prompts_have_as_many_words_as_tokens_were_asked_for():
    prompts = make_prompts(settings(text=True, prompt_tokens=7))
    assert len(set(prompts)) == 8
    assert all(len(prompt.split(" ")) == 7 for prompt in prompts)


def test_the_median_is_over_requests():
    latencies = (0.001, 0.002, 0.009)
    requests = tuple(RequestTiming(0.1 * one, one, 11, 11) for one in latencies)
    measured = LoadResult(settings(requests=3), requests, 2.0).as_json()
    assert measured["inter_token_latency_us"]["p50"] == pytest.approx(2000)
    assert measured["inter_token_latency_us"]["mean"] == pytest.approx(statistics.fmean(latencies) * 1e6)
    assert measured["inter_token_latency_us"]["values"] == pytest.approx([1000, 2000, 9000])
    assert measured["time_to_first_token_us"]["p50"] == pytest.approx(200)
    assert measured["output_tokens_per_second"] == pytest.approx(16.5)


def test_one_request_has_percentiles_too():
    measured = LoadResult(
        settings(requests=1, concurrency=1), (RequestTiming(0.1, 0.005, 4, 2),), 1.0
    ).as_json()
    assert measured["inter_token_latency_us"]["p99"] == pytest.approx(5000)
    assert measured["tokens_per_chunk"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_url": "server:8000"}, "base-url is 'server:8000': it must be an address"),
        ({"concurrency": 0}, "concurrency is 0: it must be at least 1"),
        ({"requests": 2}, "requests is 2: it must be at least the concurrency, 3"),
        ({"prompt_tokens": 0}, "prompt-tokens is 0"),
        ({"max_tokens": 1}, "max-tokens is 1: it must be at least 2"),
        ({"seed": -1}, "seed is -1"),
        ({"vocab_size": 16}, "vocab-size is 16: it must be more than 16"),
        ({"timeout": 0}, "timeout is 0"),
    ],
)
def test_a_setting_out_of_range_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        settings(**change)
