"""Bad requests: refused in OpenAI's shape, without harm to others."""

from __future__ import annotations

import json
import threading

import httpx
import openai
import pytest

from onelaunch.server.limits import Limits
from server.fake_core import FakeCore

OK = {"model": "fake", "prompt": "abc", "max_tokens": 4}
CHAT = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}


def refused(response: httpx.Response, status: int = 400) -> dict:
    """The error of a refused call, after checking its shape."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and "\n" not in error["message"]
    return error


@pytest.fixture(autouse=True)
def still_serves(request):
    yield
    if "shared" in request.fixturenames:
        shared = request.getfixturevalue("shared")
        assert shared.post(**OK).status_code == 200
        assert shared.http.get("/health").status_code == 200
        shared.until(shared.idle)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", ""),
        ("prompt", []),
        ("prompt", [[]]),
        ("prompt", ["a", ""]),
        ("prompt", 7),
        ("prompt", {"text": "a"}),
        ("prompt", [1, "a"]),
        ("prompt", [True, False]),
        ("prompt", [1.5]),
        ("prompt", [-1]),
        ("prompt", [264]),  # the vocabulary's size
        ("prompt", [10**30]),
        ("prompt", [[1], [264]]),
        ("prompt", "a" * 256),  # as long as the longest sequence
        ("prompt", ["a", "a" * 256]),
        ("max_tokens", 254),  # 3 + 254 = 257
        ("max_tokens", 10**30),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", "many"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("temperature", [1]),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_k", -2),
        ("top_k", 2**31),
        ("n", 0),
        ("n", 10**9),
        ("n", "2"),
        ("seed", 2**63),
        ("seed", "a"),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", 3),
        ("stop", ["a"] * 33),
        ("stop", "a" * 257),
        ("stop_token_ids", ["a"]),
        ("stop_token_ids", [1] * 257),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [10**4000]),
        ("logprobs", 21),
        ("logprobs", -1),
        ("logprobs", True),
        ("stream", "yes"),
        ("cache_salt", ""),
        ("cache_salt", 5),
        ("min_tokens", 5),  # above max_tokens
        ("min_tokens", -1),
        ("model", 5),
        ("echo", "true"),
    ],
)
def test_a_field_that_is_wrong_is_named(shared, field, value):
    error = refused(shared.post(**{**OK, field: value}))
    assert field in error["message"] and error["type"] == "invalid_request_error"
    assert error["param"] in (field, "prompt", None)  # "prompt" where the two together are too long
    assert len(error["message"]) < 300


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_a_number_that_is_none_is_refused(shared, field, value):
    body = json.dumps(OK)[:-1] + f', "{field}": {value}}}'
    assert field in refused(shared.http.post("/v1/completions", content=body))["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"[]",
        b'"a"',
        b"null",
        b"[" * 100_000,
        b'{"prompt": "\xff"}',
        b'{"prompt": "\\ud800"}',
    ],
    ids=["empty", "open", "words", "list", "string", "null", "deep", "latin-1", "surrogate"],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"])
def test_a_body_that_is_no_json_object_is_refused(shared, path, body):
    refused(shared.http.post(path, content=body))


def test_a_missing_prompt_is_named(shared):
    assert refused(shared.post(model="fake"))["param"] == "prompt"
    assert refused(shared.post(model="fake", prompt=None))["param"] == "prompt"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("best_of", 3),
        ("suffix", "end"),
        ("logit_bias", {"5": 1}),
        ("presence_penalty", 0.5),
        ("repetition_penalty", 1.1),
        ("min_p", 0.1),
        ("use_beam_search", True),
        ("prompt_logprobs", 1),
        ("guided_json", {"type": "object"}),
        ("guided_choice", ["a", "b"]),
        ("structural_tag", "{}"),
        ("tool_choice", "required"),
        ("function_call", {"name": "f"}),
        ("chat_template", "{{ messages }}"),
        ("add_generation_prompt", False),
        ("continue_final_message", True),
        ("length_penalty", 2),
        ("logits_processors", ["f"]),
        ("modalities", ["audio"]),
        ("spaces_between_special_tokens", False),
        ("response_format", {"type": "json_object"}),
        ("stream_options", {"include_usage": True}),  # without stream
    ],
)
def test_what_would_silently_change_the_answer_is_refused(shared, field, value):
    error = refused(shared.post(**OK, **{field: value}))
    assert field in error["message"] and error["param"] == field


def test_fields_that_ask_for_nothing_and_unknown_ones_are_ignored(shared):
    nothing = {
        "best_of": 1, "suffix": None, "logit_bias": {}, "presence_penalty": 0.0, "min_p": 0, "tools": None,
        "user": "u", "of_another_server": [1], "stop": None, "temperature": None, "stream_options": None,
        "n": None, "response_format": {"type": "text"}, "skip_special_tokens": True,
    }  # fmt: skip
    assert shared.post(**OK, **nothing).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("messages", "hi"),
        ("messages", [{"role": "user"}]),
        ("messages", [{"content": "hi"}]),
        ("messages", [{"role": "wizard", "content": "hi"}]),
        ("messages", [{"role": "user", "content": 5}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        ("messages", [{"role": "user", "content": "a" * 300}]),
        ("top_logprobs", 3),  # without logprobs
        ("max_tokens", 0),
        ("max_completion_tokens", 300),
        ("tools", [{"type": "function"}]),
    ],
)
def test_a_bad_chat_is_refused(shared, field, value):
    refused(shared.post("/v1/chat/completions", **{**CHAT, field: value}))


def test_an_unknown_model_is_not_found(shared):
    for path, body in (
        ("/v1/completions", OK),
        ("/v1/chat/completions", CHAT),
        ("/tokenize", {"prompt": "a"}),
    ):
        error = refused(shared.post(path, **{**body, "model": "gpt-9"}), 404)
        assert error["code"] == "model_not_found" and "gpt-9" in error["message"]
    refused(shared.http.get("/v1/models/gpt-9"), 404)
    with pytest.raises(openai.NotFoundError):
        shared.client.completions.create(model="gpt-9", prompt="a")


def test_a_call_without_a_model_is_for_the_one_there_is(shared):
    assert shared.post(prompt="abc").status_code == 200


def test_unknown_routes_and_methods_have_the_same_shape(shared):
    refused(shared.http.get("/v1/nothing"), 404)
    response = shared.http.get("/v1/completions")
    refused(response, 405)
    assert response.headers["allow"] == "POST"


def test_the_openai_client_raises_its_own_errors(shared):
    with pytest.raises(openai.BadRequestError, match="prompt has 256 tokens") as raised:
        shared.complete("a" * 256)
    assert raised.value.code == "context_length_exceeded" and raised.value.param == "prompt"


def test_a_stream_that_can_not_begin_has_the_status_of_its_error(shared):
    refused(shared.post(**{**OK, "stream": True, "n": 10**9}))


def test_the_engine_may_refuse_one_sequence_and_then_none_of_the_call_runs(serve):
    served = serve()
    served.core.refuse = "2"
    assert "the fake refuses it" in refused(served.post(**OK, n=3))["message"]
    served.until(served.idle)
    assert len(served.core.aborted) == 2
    assert served.post(**OK).status_code == 200


def test_a_fault_in_taking_a_request_ends_that_request_alone(serve, caplog):
    served = serve()
    served.core.add, add = None, served.core.add
    error = refused(served.post(**OK), 500)
    assert "NoneType" not in error["message"] and "NoneType" in caplog.text
    served.core.add = add
    assert served.post(**OK).status_code == 200


# Limits.


def test_a_large_body_is_refused_before_it_is_read(serve):
    served = serve(limits=Limits(body_bytes=1000))
    refused(served.post(**{**OK, "prompt": "a" * 1000}), 413)
    # Without a length ahead, as in chunked transfer.
    refused(served.http.post("/v1/completions", content=iter([b" " * 400] * 4)), 413)
    assert served.post(**OK).status_code == 200


def test_a_text_that_can_not_fit_is_refused_before_it_is_tokenized(serve, monkeypatch):
    core = FakeCore()
    served = serve(core)
    encoded = []
    monkeypatch.setattr(core.tokenizer, "encode", lambda text: encoded.append(len(text)) or [1])
    longest = 256
    assert "characters" in refused(served.post(**{**OK, "prompt": "a" * 100_000}))["message"]
    assert not encoded
    served.post(**{**OK, "prompt": "a" * (longest - 100)})
    assert encoded


def test_tokenize_and_detokenize_have_limits(serve):
    served = serve(limits=Limits(text_chars=10, tokens=10))
    assert served.http.post("/tokenize", json={"prompt": "a" * 10}).json()["count"] == 10
    refused(served.http.post("/tokenize", json={"prompt": "a" * 11}))
    assert served.http.post("/detokenize", json={"tokens": [97] * 10}).json()["prompt"] == "a" * 10
    refused(served.http.post("/detokenize", json={"tokens": [97] * 11}))
    refused(served.http.post("/detokenize", json={"tokens": [-1]}))


def test_prompts_and_choices_have_a_limit_each_and_together(serve):
    served = serve(limits=Limits(prompts=4, n=5, sequences=10))
    assert served.post(**{**OK, "prompt": ["a"] * 4, "n": 2}).status_code == 200
    for prompts, n in ((5, 1), (1, 6), (3, 4)):
        refused(served.post(**{**OK, "prompt": ["a"] * prompts, "n": n}))


def test_calls_beyond_the_queue_are_told_to_come_later(serve):
    gate = threading.Event()
    served = serve(FakeCore(before_step=gate.wait), limits=Limits(live_sequences=3))
    waiting = threading.Thread(target=lambda: served.complete("a", n=2))
    waiting.start()
    served.until(lambda: served.engine.num_live == 2)
    with pytest.raises(openai.RateLimitError):
        served.complete("a", n=2)
    gate.set()
    waiting.join()
    assert served.post(**OK).status_code == 200


# The key.


def test_a_key_may_be_any_text(serve):
    served = serve(api_key="clé")
    header = {"authorization": "Bearer clé".encode()}
    assert served.http.get("/v1/models", headers=header).status_code == 200


def test_with_a_key_all_but_health_and_metrics_needs_it(serve):
    served = serve(api_key="secret")
    assert served.complete("abc").choices[0].text
    for path in ("/health", "/version", "/metrics"):
        assert served.http.get(path).status_code == 200
    for headers in (
        {},
        {"authorization": "secret"},
        {"authorization": "Bearer wrong"},
        {"authorization": "B\xe4r"},
    ):
        for path in ("/v1/completions", "/tokenize"):
            response = served.http.post(
                path, json=OK, headers={k: v.encode("latin-1") for k, v in headers.items()}
            )
            refused(response, 401)
        refused(served.http.get("/v1/models", headers={}), 401)
