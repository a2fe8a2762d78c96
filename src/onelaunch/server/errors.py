"""What goes wrong in a call, in the shape that OpenAI's clients expect."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable",
}
CLIENT_GONE = 499  # nobody reads such an answer; the number is nginx's


class ApiError(Exception):
    """A call that ends with an error status, or, in a stream that has begun, with an error chunk.

    Args:
        message: what it was and what it must be.
        param: field of the request, if one is at fault.
        status: of the HTTP answer.
        code: a word that clients can compare, where OpenAI has one.
    """

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {
            "error": {
                "message": message,
                "type": _TYPES.get(status, "invalid_request_error"),
                "param": param,
                "code": code,
            }
        }

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse(self.body, self.status, headers)


def internal_error() -> ApiError:
    """A fault of the server: the log has it, the client does not need to."""
    return ApiError("the server failed on this request; its log says how", status=500)


def install_handlers(app: FastAPI) -> None:
    """Every error of ``app`` in one shape: its own, unknown routes and faults alike."""

    async def on_api_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return error.response()

    async def on_http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        what = f"{request.method} {request.url.path}: {HTTPStatus(error.status_code).phrase}"
        return ApiError(what, status=error.status_code).response(error.headers)

    async def on_fault(request: Request, error: Exception) -> JSONResponse:
        return internal_error().response()

    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_fault)
