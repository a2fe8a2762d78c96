"""Requests as they come in: OpenAI's fields, and those of vLLM's that this engine has.

Unknown fields are ignored, as vLLM does. Known ones that would change the answer and can't be served are
refused: an answer without them would be wrong and look right. ``null`` is the same as leaving a field out.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from onelaunch.engine.sampling_params import MAX_LOGPROBS, SamplingParams
from onelaunch.server.errors import ApiError

# Field -> its values that ask for nothing.
_NOT_SERVED: dict[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "best_of": (1,),
    "chat_template": (),
    "continue_final_message": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "logits_processors": ([],),
    "logprob_token_ids": ([],),
    "min_p": (0,),
    "modalities": (["text"],),
    "presence_penalty": (0,),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "structural_tag": (),
    "structured_outputs": (),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
}


def _prompts(value: object) -> list[str | list[int]]:
    """A prompt, or a list of prompts, as a list."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _is_token_ids(value):
            return [value]
        if all(isinstance(prompt, str) for prompt in value) or all(map(_is_token_ids, value)):
            return value
    raise ValueError("it must be a string, a list of token ids, or a list of either, and not empty")


def _is_token_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)


def _stop(value: object) -> tuple[str, ...]:
    stop = [value] if isinstance(value, str) else value
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise ValueError("it must be a string or a list of strings, none of them empty")
    return tuple(stop)


def _content(value: object) -> str:
    """The text of a chat message: a string, or OpenAI's list of text parts."""
    parts = [{"type": "text", "text": value}] if isinstance(value, str) else value
    if isinstance(parts, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in parts
    ):
        texts = [part.get("text") for part in parts]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise ValueError("it must be a string or a list of text parts")


def _refused(name: str, why: str) -> PydanticCustomError:
    """An error of a whole request that is about one field."""
    return PydanticCustomError("refused", "{reason}", {"param": name, "reason": f"{name} {why}"})


class _Request(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            raise ValueError("it must be a JSON object")
        return {name: value for name, value in data.items() if value is not None}


class StreamOptions(_Request):
    """``include_usage``: a last chunk with it. ``continuous_usage_stats``: every chunk has it (vLLM)."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class GenerationRequest(_Request):
    """What completions and chats share."""

    model: str | None = None
    n: int = Field(1, ge=1)
    temperature: float = Field(1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1, lt=2**31)  # -1 is vLLM's other way to say all tokens
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[tuple[str, ...], BeforeValidator(_stop)] = ()
    stop_token_ids: list[int] = []
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = Field(0, ge=0)
    stream: bool = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = Field(None, min_length=1, max_length=1024)
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False

    @model_validator(mode="before")
    @classmethod
    def _can_be_served(cls, data: object) -> object:
        if isinstance(data, dict):
            for name in data.keys() & _NOT_SERVED:
                value = data[name]
                if value is not None and value not in _NOT_SERVED[name]:
                    raise _refused(name, f"is {_shown(value)}: this server does not have it")
            if data.get("stream_options") is not None and not data.get("stream"):
                raise _refused("stream_options", "is given without stream: it must come with it")
        return data

    def sampling(
        self, max_tokens: int, choice: int, logprobs: int | None, prompt_logprobs: int | None = None
    ) -> SamplingParams:
        """How choice ``choice`` of a prompt samples; its seed, if any, is its own.

        Raises:
            ApiError: fields contradict each other.
        """
        seed = self.seed
        if seed is not None:
            seed = (seed + choice + 2**63) % 2**64 - 2**63  # in the range of 64 bits, whatever n adds
        try:
            return SamplingParams(
                max_tokens=max_tokens,
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=max(self.top_k, 0),
                seed=seed,
                stop=self.stop,
                stop_token_ids=tuple(self.stop_token_ids),
                ignore_eos=self.ignore_eos,
                min_tokens=self.min_tokens,
                logprobs=logprobs,
                prompt_logprobs=prompt_logprobs,
            )
        except ValueError as error:
            raise ApiError(str(error)) from error


class CompletionRequest(GenerationRequest):
    """The body of ``/v1/completions``; ``prompt`` is a list, whatever came in."""

    prompt: Annotated[list[str | list[int]], BeforeValidator(_prompts)]
    max_tokens: int = Field(16, ge=0)
    echo: bool = False
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)

    @model_validator(mode="after")
    def _ends(self) -> CompletionRequest:
        if self.max_tokens == 0 and not self.echo:
            raise _refused("max_tokens", "is 0: it must be at least 1 without echo")
        return self


class Message(_Request):
    role: str
    content: Annotated[str, BeforeValidator(_content)]


class ChatCompletionRequest(GenerationRequest):
    """The body of ``/v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)

    @model_validator(mode="after")
    def _logprobs_come_together(self) -> ChatCompletionRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise _refused("top_logprobs", f"is {self.top_logprobs}: it must come with logprobs true")
        return self


class TokenizeRequest(_Request):
    """The body of ``/tokenize``: a text, or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise _refused("prompt", "or messages must be given, and not both")
        return self


class DetokenizeRequest(_Request):
    """The body of ``/detokenize``."""

    model: str | None = None
    tokens: list[int]


Parsed = TypeVar("Parsed", bound=_Request)


def parse(body: bytes, model: type[Parsed]) -> Parsed:
    """A request from its JSON.

    Raises:
        ApiError: it is no JSON, or a field is not what it must be. Only the first one is named.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    path = first["loc"]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        raise ApiError(f"the body is not JSON: {message}")
    if first["type"] == "refused":
        raise ApiError(message, first["ctx"]["param"])
    if not path:
        raise ApiError(f"the body is not a request: {message}")
    name = ".".join(map(str, path))
    if first["type"] == "missing":
        raise ApiError(f"{name} is missing", str(path[0]))
    raise ApiError(f"{name} is {_shown(first['input'])}: {message}", str(path[0]))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
