"""The routes."""

from __future__ import annotations

import asyncio
import secrets

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Receive, Scope, Send

from onelaunch import __version__
from onelaunch.engine.tokenizer import SPECIAL_TOKENS
from onelaunch.server.chat import chat_completions, chat_prompt
from onelaunch.server.completions import completions
from onelaunch.server.engine_thread import EngineThread
from onelaunch.server.errors import ApiError, install_handlers
from onelaunch.server.limits import Limits
from onelaunch.server.protocol import DetokenizeRequest, TokenizeRequest, parse
from onelaunch.server.service import Service

# What a load balancer and a metrics scraper ask, which have no key.
_OPEN_PATHS = ("/health", "/version", "/metrics")


def make_app(engine: EngineThread, *, limits: Limits | None = None, api_key: str | None = None) -> FastAPI:
    """The application.

    Args:
        engine: started.
        api_key: that calls must bear, except those of /health, /version and /metrics.
    """
    service = Service(engine, limits or Limits())
    app = FastAPI(title="onelaunch", version=__version__, openapi_url=None)
    install_handlers(app)
    if api_key is not None:
        app.add_middleware(_ApiKey, api_key=api_key)

    @app.post("/v1/completions")
    async def v1_completions(http: Request) -> Response:
        return await completions(service, http)

    @app.post("/v1/chat/completions")
    async def v1_chat_completions(http: Request) -> Response:
        return await chat_completions(service, http)

    @app.get("/v1/models")
    async def v1_models() -> Response:
        return JSONResponse({"object": "list", "data": [_model(service)]})

    @app.get("/v1/models/{name:path}")
    async def v1_model(name: str) -> Response:
        service.check_model(name)
        return JSONResponse(_model(service))

    @app.get("/health")
    async def health() -> Response:
        if engine.fault is not None:
            raise ApiError(f"the engine has failed: {type(engine.fault).__name__}", status=503)
        return Response()

    @app.get("/version")
    async def version() -> Response:
        return JSONResponse({"version": __version__})

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(engine.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    # lm-eval counts a prompt's tokens with these three, where a server has them.

    @app.post("/tokenize")
    async def tokenize(http: Request) -> Response:
        request = parse(await service.body(http), TokenizeRequest)
        service.check_model(request.model)
        text = chat_prompt(service, request.messages) if request.messages else request.prompt or ""
        service.limits.check_size("prompt", len(text), service.limits.text_chars)
        token_ids = await asyncio.to_thread(service.tokenizer.encode, text)
        return JSONResponse(
            {"count": len(token_ids), "max_model_len": service.max_model_len, "tokens": token_ids}
        )

    @app.post("/detokenize")
    async def detokenize(http: Request) -> Response:
        request = parse(await service.body(http), DetokenizeRequest)
        service.check_model(request.model)
        service.limits.check_size("tokens", len(request.tokens), service.limits.tokens)
        service.check_tokens(request.tokens, "tokens")
        text = await asyncio.to_thread(service.tokenizer.decode, request.tokens)
        return JSONResponse({"prompt": text})

    @app.get("/tokenizer_info")
    async def tokenizer_info() -> Response:
        eos = service.tokenizer.eos_token_id
        written = (token for token in SPECIAL_TOKENS if service.tokenizer.encode(token) == [eos])
        return JSONResponse({"tokenizer_class": "Tokenizer", "eos_token": next(written, None)})

    return app


def _model(service: Service) -> dict[str, object]:
    return {
        "id": service.model_name,
        "object": "model",
        "created": service.created,
        "owned_by": "onelaunch",
        "root": service.model_name,
        "max_model_len": service.max_model_len,
    }


class _ApiKey:
    """Refuses calls without the key. Plain ASGI: a middleware of Starlette's own hides disconnects."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")  # as bytes: a key may be any text
            if not secrets.compare_digest(given, self._wanted):
                app = ApiError(
                    "the API key is missing or wrong", status=401, code="invalid_api_key"
                ).response()
        await app(scope, receive, send)
