"""Completions and chats, as clients of OpenAI's API call them."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from server.fake_core import EOS, FakeCore, expected_tokens

GREEDY = {"temperature": 0}


def text_of(tokens) -> str:
    return bytes(tokens).decode()


def test_a_text_prompt_is_completed(shared):
    answer = shared.complete("abc", max_tokens=12, **GREEDY)
    [choice] = answer.choices
    assert choice.text == text_of(expected_tokens(b"abc", 12))
    assert choice.finish_reason == "length"
    assert answer.object == "text_completion" and answer.model == "fake" and answer.id.startswith("cmpl-")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        3,
        12,
        15,
    )


def test_token_ids_are_a_prompt_and_come_back_when_asked_for(shared):
    answer = shared.complete([1, 2, 3], max_tokens=32, extra_body={"return_token_ids": True}, **GREEDY)
    [choice] = answer.choices
    assert choice.token_ids == expected_tokens([1, 2, 3], 32)
    assert choice.prompt_token_ids == [1, 2, 3]


def test_token_ids_come_in_every_chunk_and_join_to_the_whole(shared):
    body = {"return_token_ids": True, "ignore_eos": True, "cache_salt": "a"}
    chunks = list(shared.complete([1, 2, 3], max_tokens=32, stream=True, extra_body=body, **GREEDY))
    parts = [chunk.choices[0].token_ids for chunk in chunks]
    assert list(chain(*parts)) == expected_tokens([1, 2, 3], 32)
    assert max(map(len, parts)) > 1, "drafts were accepted, so some chunk has several tokens"
    assert "".join(chunk.choices[0].text for chunk in chunks) == text_of(expected_tokens([1, 2, 3], 32))
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert chunks[0].choices[0].prompt_token_ids == [1, 2, 3]
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("prompts", [["ab", "c"], [[97, 98], [99]]], ids=["texts", "token ids"])
def test_a_list_of_prompts_gives_choices_in_its_order_n_for_each(shared, prompts):
    answer = shared.complete(prompts, max_tokens=5, n=2, **GREEDY)
    want = [text_of(expected_tokens(prompt, 5)) for prompt in (b"ab", b"ab", b"c", b"c")]
    assert [choice.text for choice in answer.choices] == want
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 20)


def test_choices_of_a_prompt_have_seeds_of_their_own(serve):
    served = serve()
    served.complete(["a", "b"], n=3, seed=40)
    served.complete("a", n=2, seed=2**63 - 1)
    served.complete("a", n=2)
    seeds = [params.seed for _, _, params, _ in served.core.seen]
    assert seeds == [40, 41, 42, 40, 41, 42, 2**63 - 1, -(2**63), None, None]


def test_sampling_fields_and_the_salt_reach_the_engine(serve):
    served = serve()
    body = {"ignore_eos": True, "cache_salt": "s", "min_tokens": 2, "top_k": 7, "stop_token_ids": [9]}
    served.complete("a", temperature=0.5, top_p=0.25, stop=["x", "yz"], max_tokens=4, extra_body=body)
    served.complete("a", extra_body={"top_k": -1})
    (_, _, params, salt), (_, _, default, no_salt) = served.core.seen
    assert (params.temperature, params.top_p, params.top_k) == (0.5, 0.25, 7)
    assert (params.ignore_eos, params.min_tokens, params.max_tokens) == (True, 2, 4)
    assert (params.stop, params.stop_token_ids, salt) == (("x", "yz"), (9,), "s")
    assert (default.temperature, default.top_k, default.max_tokens, no_salt) == (1.0, 0, 16, None)


def test_usage_comes_last_in_a_stream_when_asked_for(shared):
    options = {"include_usage": True}
    *chunks, last = shared.complete("abc", max_tokens=7, stream=True, stream_options=options)
    assert last.choices == [] and last.usage.completion_tokens == 7
    assert all(chunk.usage is None for chunk in chunks)
    both = {**options, "continuous_usage_stats": True}
    *chunks, last = shared.complete("abc", max_tokens=7, stream=True, stream_options=both)
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == last.usage.completion_tokens == 7


def test_a_stream_is_server_sent_events_that_end_with_done(shared):
    body = {"prompt": "abc", "stream": True, "max_tokens": 2}
    with shared.http.stream("POST", "/v1/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = response.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all("choices" in json.loads(event.removeprefix("data: ")) for event in events[:-2])


# Stops.

HELLO = "say hello, world and more"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "body", "text", "reason"),
    [
        (["lo, w"], {}, "say hel", "lo, w"),  # over several tokens and steps
        (["world", "hello"], {}, "say ", "hello"),  # the first in the text, not in the list
        ("zzz", {}, HELLO, None),
        ([], {}, HELLO, None),
        ([" more!"], {}, HELLO, None),  # held back to the end, then shown
        (["hello"], {"include_stop_str_in_output": True}, "say hello", "hello"),
        (["s"], {"min_tokens": 3}, HELLO, None),  # no stop so early
        (["a"], {"min_tokens": 3}, "say hello, world ", "a"),
    ],
)
def test_a_stop_string_ends_the_text_and_no_part_of_it_is_ever_shown(serve, stream, stop, body, text, reason):
    served = serve(FakeCore(script=[*HELLO.encode(), EOS]))
    answer = served.complete("p", stop=stop, stream=stream, max_tokens=100, extra_body=body)
    chunks = list(answer) if stream else [answer]
    shown = ""
    for chunk in chunks:
        shown += chunk.choices[0].text
        assert text.startswith(shown)
    assert shown == text
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].choices[0].stop_reason == reason


def test_the_engine_is_told_of_a_stop_string(serve):
    served = serve(FakeCore(max_model_len=10**6))
    served.complete("p", stop=text_of(expected_tokens(b"p", 9)[4:]), max_tokens=10**5)
    served.until(served.idle)
    assert len(served.core.aborted) == 1


def test_tokens_after_a_stop_string_are_not_counted(serve):
    served = serve(FakeCore(script=[*b"abcdefghij"] * 9, burst=6))
    answer = served.complete("p", stop="cd", max_tokens=50, extra_body={"return_token_ids": True})
    assert answer.choices[0].token_ids == [*b"abcd"]
    assert answer.usage.completion_tokens == 4


def test_the_end_of_text_has_no_text_but_a_token(serve):
    served = serve(FakeCore(script=[*b"ab", EOS]))
    answer = served.complete("p", extra_body={"return_token_ids": True})
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("ab", "stop")
    assert answer.choices[0].token_ids == [*b"ab", EOS]
    assert answer.choices[0].stop_reason is None


def test_a_stop_token_ends_the_text_before_itself(serve):
    served = serve(FakeCore(script=[*b"abcd"]))
    answer = served.complete("p", extra_body={"stop_token_ids": [99], "return_token_ids": True})
    [choice] = answer.choices
    assert (choice.text, choice.stop_reason, choice.token_ids) == ("ab", 99, [*b"abc"])


def test_characters_of_several_tokens_are_never_cut(serve):
    text = "naïve — 漢字 🙂"
    served = serve(FakeCore(script=[*text.encode(), EOS], burst=2))
    chunks = list(served.complete("p", stream=True, max_tokens=100))
    texts = [chunk.choices[0].text for chunk in chunks]
    assert "".join(texts) == text
    assert not any("\ufffd" in part for part in texts)
    assert "" in texts, "a step whose bytes are no character yet has a chunk all the same"


def test_bytes_that_are_no_text_are_shown_as_such(serve):
    served = serve(FakeCore(script=[0xFF, 0x61, 0xE6, 0xBC]))
    assert served.complete("p", max_tokens=4).choices[0].text == "\ufffda\ufffd"


# Echo and log-probabilities.


def test_echo_puts_the_prompt_before_the_output_once(shared):
    want = "abc" + text_of(expected_tokens(b"abc", 9))
    assert shared.complete("abc", max_tokens=9, echo=True).choices[0].text == want
    assert shared.complete([*b"abc"], max_tokens=9, echo=True).choices[0].text == want
    chunks = shared.complete("abc", max_tokens=9, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == want


def test_logprobs_of_a_completion(shared):
    tokens = expected_tokens(b"abc", 4)
    logprobs = shared.complete("abc", max_tokens=4, logprobs=2).choices[0].logprobs
    assert logprobs.tokens == [chr(token) for token in tokens]
    assert logprobs.token_logprobs == [-token / 100 for token in tokens]
    assert logprobs.top_logprobs[0] == {
        chr(tokens[0]): -tokens[0] / 100,
        chr(tokens[0] + 1): -(tokens[0] + 1) / 100,
    }
    assert logprobs.text_offset == [0, 1, 2, 3]


def test_no_likeliest_tokens_still_gives_the_chosen_one(shared):
    logprobs = shared.complete("abc", max_tokens=2, logprobs=0).choices[0].logprobs
    assert [len(top) for top in logprobs.top_logprobs] == [1, 1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompts", [[[65, 66, 67], [66, 67]], [[65, 66, 67]]], ids=len)
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_a_likelihood_as_lm_eval_asks_for_it(shared, stream, prompts, max_tokens):
    # What lm-eval's local-completions sends: token ids, echo, one likeliest token, no or one token generated.
    answer = shared.complete(
        prompts, temperature=0, max_tokens=max_tokens, logprobs=1, seed=1234, echo=True, stream=stream
    )
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    for prompt, choice in zip(prompts, sorted(choices, key=lambda choice: choice.index), strict=True):
        logprobs = choice.logprobs
        assert len(logprobs.tokens) == len(prompt) + max_tokens
        assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
        assert logprobs.token_logprobs[1 : len(prompt)] == [-token / 100 for token in prompt[1:]]
        assert choice.text.startswith(bytes(prompt).decode()) and len(choice.text) == len(prompt) + max_tokens
        assert logprobs.text_offset == list(range(len(prompt) + max_tokens))
        greedy = [
            value == max(top.values())
            for value, top in zip(logprobs.token_logprobs[1:], logprobs.top_logprobs[1:], strict=True)
        ]
        assert all(greedy)
    if not stream:
        assert answer.usage.completion_tokens == max_tokens * len(prompts)


def test_tokens_that_are_no_text_go_by_their_ids(serve):
    served = serve(FakeCore(script=[0xE6, 97]))
    logprobs = served.complete("p", max_tokens=2, logprobs=1).choices[0].logprobs
    assert logprobs.tokens == ["token_id:230", "a"]
    by_id = served.complete("p", max_tokens=2, logprobs=1, extra_body={"return_tokens_as_token_ids": True})
    assert by_id.choices[0].logprobs.tokens == ["token_id:230", "token_id:97"]


# Chats.

MESSAGES = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
CHAT = b"[system]be kind[user]hi"


def test_a_chat_is_answered(shared):
    answer = shared.client.chat.completions.create(model="fake", messages=MESSAGES, max_tokens=8, n=2)
    assert [choice.message.content for choice in answer.choices] == [text_of(expected_tokens(CHAT, 8))] * 2
    assert answer.choices[0].message.role == "assistant" and answer.object == "chat.completion"
    assert answer.usage.prompt_tokens == len(CHAT)


def test_a_chat_streams_its_role_first(shared):
    stream = shared.client.chat.completions.create(
        model="fake",
        messages=MESSAGES,
        max_completion_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    first, *chunks, last = stream
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == text_of(expected_tokens(CHAT, 8))
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.usage.completion_tokens == 8


def test_a_chat_without_a_length_goes_to_the_longest_sequence(shared):
    answer = shared.client.chat.completions.create(model="fake", messages=MESSAGES)
    assert answer.usage.total_tokens == 256


def test_text_parts_are_a_message(shared):
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    messages = [MESSAGES[0], {"role": "user", "content": parts}]
    answer = shared.client.chat.completions.create(model="fake", messages=messages, max_tokens=3)
    assert answer.choices[0].message.content == text_of(expected_tokens(CHAT, 3))


def test_logprobs_of_a_chat(shared):
    answer = shared.client.chat.completions.create(
        model="fake", messages=MESSAGES, max_tokens=2, logprobs=True, top_logprobs=2
    )
    token = expected_tokens(CHAT, 2)[0]
    first = answer.choices[0].logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == (chr(token), -token / 100, [token])
    assert [top.token for top in first.top_logprobs] == [chr(token), chr(token + 1)]


# The rest of the routes.


def test_the_model_is_listed(shared):
    assert [model.id for model in shared.client.models.list()] == ["fake"]
    assert shared.client.models.retrieve("fake").max_model_len == 256


def test_tokens_can_be_counted_as_lm_eval_does(shared):
    assert shared.http.get("/tokenizer_info").json()["eos_token"] == "<|eos|>"
    answer = shared.post("/tokenize", prompt="abc", add_special_tokens=False).json()
    assert answer == {"count": 3, "max_model_len": 256, "tokens": [97, 98, 99]}
    assert shared.post("/tokenize", messages=MESSAGES).json()["tokens"] == [*CHAT]
    assert shared.post("/detokenize", tokens=[97, 98]).json() == {"prompt": "ab"}
    assert shared.post("/detokenize", tokens=[]).json() == {"prompt": ""}


def test_health_and_version(shared):
    from onelaunch import __version__

    assert shared.http.get("/health").status_code == 200
    assert shared.http.get("/version").json() == {"version": __version__}
