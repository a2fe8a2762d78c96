"""The server with the tiny model: its tokens are the engine's own, and no block is left over."""

from __future__ import annotations

import asyncio
import random

import httpx
import openai
import pytest
import torch

from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.config import EngineConfig
from onelaunch.engine.core import EngineCore
from server.conftest import running

OPTIONS = {"preset": "tiny", "device": "cpu", "block_size": 16, "max_model_len": 256, "max_num_seqs": 16}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As ``onelaunch serve`` has it: threads that wait for each other crawl when others want their cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def served():
    with running(lambda: EngineCore(EngineConfig.make(**OPTIONS))) as served:
        yield served


@pytest.fixture(scope="module")
def offline() -> LLM:
    return LLM(**OPTIONS)


def complete(served, prompt, **options):
    return served.client.completions.create(model="tiny", prompt=prompt, **options)


def test_tokens_are_those_of_the_engine_offline(served, offline):
    body = {"ignore_eos": True, "cache_salt": "a", "return_token_ids": True}
    options = {"max_tokens": 32, "temperature": 0, "extra_body": body}
    [want] = offline.generate([[1, 2, 3]], SamplingParams(max_tokens=32, temperature=0, ignore_eos=True))
    answer = complete(served, [1, 2, 3], **options)
    assert tuple(answer.choices[0].token_ids) == want.token_ids
    assert answer.choices[0].text == want.text
    chunks = list(complete(served, [1, 2, 3], stream=True, **options))
    assert tuple(token for chunk in chunks for token in chunk.choices[0].token_ids) == want.token_ids
    assert "".join(chunk.choices[0].text for chunk in chunks) == want.text


def test_a_seed_repeats_and_choices_differ(served):
    options = {"max_tokens": 16, "seed": 5, "n": 3, "temperature": 1.0}
    first, second = (
        [choice.text for choice in complete(served, "seeds", **options).choices] for _ in range(2)
    )
    assert first == second and len(set(first)) == 3


def test_counters_of_drafts_and_of_the_prefix_cache_move(served):
    names = (
        "spec_decode_num_drafts",
        "spec_decode_num_draft_tokens",
        "prefix_cache_hits",
        "generation_tokens",
    )
    before = {name: served.metric(f"vllm:{name}_total") for name in names}
    cached = []
    for salt in ("b", "b", "c"):
        body = {"ignore_eos": True, "cache_salt": salt}
        usage = complete(served, list(range(64)), max_tokens=12, temperature=0, extra_body=body).usage
        cached.append(usage.prompt_tokens_details.cached_tokens)
    assert cached[0] == cached[2] == 0 < cached[1], "salts share nothing"
    after = {name: served.metric(f"vllm:{name}_total") for name in names}
    assert all(after[name] > before[name] for name in names)
    assert after["prefix_cache_hits"] - before["prefix_cache_hits"] == cached[1]
    assert served.metric("onelaunch:metadata_launches_per_step") > 0


def test_a_likelihood_is_the_same_however_many_tokens_are_generated(served):
    prompt = [*b"the likelihood of this"]
    both = [
        complete(served, prompt, max_tokens=count, echo=True, logprobs=1, temperature=0).choices[0].logprobs
        for count in (0, 1)
    ]
    assert both[0].token_logprobs == both[1].token_logprobs[:-1]
    assert all(value < 0 for value in both[0].token_logprobs[1:])
    # lm-eval calls a token greedy when its log-probability is the largest shown.
    assert both[1].token_logprobs[-1] == max(both[1].top_logprobs[-1].values())


def test_a_chat_is_answered(served):
    answer = served.client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=8
    )
    assert answer.usage.completion_tokens <= 8 and answer.usage.prompt_tokens == 4


def test_prompts_that_can_not_be_served_harm_nobody(served):
    for prompt in ("a" * 256, [264], []):
        with pytest.raises(openai.BadRequestError):
            complete(served, prompt)
    assert complete(served, "abc", max_tokens=2).usage.completion_tokens > 0


@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": 1e38},
        {"temperature": 1e-45},  # no float32 but zero or a denormal
        {"top_p": 1e-300},
        {"top_k": 2**31 - 1},
        {"seed": 2**63 - 1},
        {"seed": -(2**63)},
        {"stop_token_ids": [2**63, -1]},
        {"cache_salt": "\U0001f642" * 1024},
    ],
    ids=lambda extreme: next(iter(extreme)),
)
def test_extreme_values_are_served_or_refused_and_the_engine_goes_on(served, extreme):
    response = served.post(prompt="abc", max_tokens=3, **extreme)
    assert response.status_code in (200, 400), response.text
    assert served.http.get("/health").status_code == 200


def test_mixed_clients_of_whom_some_leave_get_their_tokens_and_leak_no_block(served, offline):
    rng = random.Random(7)
    prompts = [[rng.randrange(256) for _ in range(rng.randint(1, 60))] for _ in range(60)]
    counts = [rng.randint(1, 24) for _ in prompts]
    params = [SamplingParams(max_tokens=count, temperature=0, ignore_eos=True) for count in counts]
    want = [completion.token_ids for completion in offline.generate(prompts, params)]

    async def call(client: openai.AsyncOpenAI, place: int) -> None:
        stream = await client.completions.create(
            model="tiny",
            prompt=prompts[place],
            max_tokens=counts[place],
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True, "return_token_ids": True},
        )
        got: list[int] = []
        async for chunk in stream:
            got += chunk.choices[0].token_ids
            if place % 10 == 0:
                await stream.close()
                return
        assert tuple(got) == want[place]

    async def all_of_them() -> None:
        async with (
            httpx.AsyncClient(timeout=60) as http,
            openai.AsyncOpenAI(
                base_url=f"{served.url}/v1", api_key="-", max_retries=0, http_client=http
            ) as client,
        ):
            await asyncio.gather(*(call(client, place) for place in range(len(prompts))))

    asyncio.run(all_of_them())
    served.until(served.idle)
    served.until(lambda: served.metric("vllm:kv_cache_usage_perc") == 0)
    assert served.metric("vllm:num_requests_running") == served.metric("vllm:num_requests_waiting") == 0
