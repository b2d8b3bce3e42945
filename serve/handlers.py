"""Every error as a response: the one shape, or where OpenAI's clients ask, theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from mrag.errors import MragError
from serve.calls import StageDownError
from serve.faults import ErrorBody, Fault, broken, fault, fault_of, openai_error, speaks_openai
from serve.job_values import Kind
from serve.request_log import REQUEST_ID

RETRY_AFTER_S = 5
_TAGS = get_args(Kind)  # which stand in the place of a fault, and are no field
CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    429: "rate_limit",
}


def add_handlers(api: FastAPI) -> None:
    """From now on nothing leaves the application in another shape."""
    for error, handler in _HANDLERS.items():
        api.add_exception_handler(error, handler)


def reply(
    request: Request, status: int, told: Fault, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A fault in the shape that the caller of this path reads."""
    openai = speaks_openai(request.url.path)
    body = openai_error(status, told) if openai else ErrorBody(error=told)
    return JSONResponse(body.model_dump(), status, headers=dict(headers or {}))


async def _on_mrag_error(request: Request, error: Any) -> JSONResponse:
    again = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, StageDownError) else None
    return reply(request, *fault_of(error), again)


async def _on_invalid_body(request: Request, error: Any) -> JSONResponse:
    found = error.errors()[0]
    places = [str(part) for part in found["loc"] if part not in ("body", "query", "path", *_TAGS)]
    if found["type"].startswith("union_tag"):
        places.append(found["ctx"]["discriminator"].strip("'"))
    message = str(found["msg"]).removeprefix("Value error, ").rstrip(".")
    field = ".".join(places) if places and found["type"] != "json_invalid" else None
    sentence = f"{field}: {message}." if field else f"The body can't be read: {message}."
    return reply(request, 422, fault("invalid_body", sentence, field))


def refusal(request: Request, error: HTTPException) -> JSONResponse:
    """What was raised as a status and a sentence."""
    code = CODES.get(error.status_code, "http")
    return reply(request, error.status_code, fault(code, str(error.detail)), error.headers)


async def _on_http_error(request: Request, error: Any) -> JSONResponse:
    return refusal(request, error)


async def _on_fault(request: Request, error: Any) -> JSONResponse:
    # This one is sent from outside all middleware, the request log included.
    return reply(request, 500, broken(error), {REQUEST_ID: getattr(request.state, "request_id", "")})


_HANDLERS: dict[Any, Any] = {
    Exception: _on_fault,
    MragError: _on_mrag_error,
    RequestValidationError: _on_invalid_body,
    HTTPException: _on_http_error,
}

# --------------------------------------------------------------------------- as OpenAPI has them

_DESCRIPTIONS = {
    400: "An argument can't be used; `field` names it.",
    401: "The bearer token is missing or wrong.",
    403: "The token lacks the scope; or the caller is not on this machine and no token is configured.",
    404: "There is no such collection or document, or none that the token may see.",
    408: "The body was not sent in time.",
    413: "The body is longer than any question needs.",
    422: "The request does not have the documented form.",
    429: "The token has asked too often, or its address sent too many wrong ones: see `Retry-After`.",
    500: "The collection is damaged or the service has a fault.",
    502: "The language model gave no usable reply.",
    503: "A stage is busy or restarting; try again after `Retry-After`.",
    504: "The question was not answered before its deadline.",
}
BODY, MODEL, CALLER = (408, 413), (502, 504), (400, 401, 403, 422, 429)
JOBS = {501: "The cluster has no job API."}


def documented(
    *left_out: int, model: type = ErrorBody, also: Mapping[int, str] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer, but for those of these statuses, and `also` some of its own."""
    return {
        status: {"model": model, "description": description}
        for status, description in {**_DESCRIPTIONS, **(also or {})}.items()
        if status not in left_out
    }
