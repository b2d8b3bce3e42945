"""Errors as callers see them: a status, a stable code, one sentence, and the field at fault."""

from __future__ import annotations

import logging

from pydantic import BaseModel

from mrag.documents.decoding import clean
from mrag.errors import CollectionError, InputError, ModelError, ModelTimeoutError, MragError, NotFoundError
from serve.calls import JobsMissingError, StageDownError
from serve.sentences import sentence_of

_log = logging.getLogger(__name__)


class Fault(BaseModel):
    """One error: a stable code, one sentence, and the field at fault where there is one."""

    code: str
    message: str
    field: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: Fault


class OpenAIFault(BaseModel):
    """The same as OpenAI's clients read it: `param` is the field."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIErrorBody(BaseModel):
    """The body of an error of the routes that OpenAI's clients ask."""

    error: OpenAIFault


OPENAI_PATHS = ("/v1/chat/completions", "/v1/models")
# What is not listed is the service's own fault.
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

# The core's sentences name folders and files, which are for the log and nobody's business out there.
NO_COLLECTION = "There is no such collection, or none that you may ask: see which are listed."
BROKEN = "The service has a fault ({}): its log says more."
UNREADABLE = "The collection can't be read as it is: the service's log says what is wrong with it."
# The first that fits holds.
STATUSES: dict[type[MragError], tuple[int, str]] = {
    NotFoundError: (404, "not_found"),
    InputError: (400, "bad_input"),
    ModelTimeoutError: (504, "timeout"),
    StageDownError: (503, "unavailable"),
    ModelError: (502, "model"),
    JobsMissingError: (501, "not_implemented"),
    MragError: (500, "internal"),
}


def fault_of(error: MragError) -> tuple[int, Fault]:
    """How an error is told: its status and its fault."""
    status, code = next(told for kind, told in STATUSES.items() if isinstance(error, kind))
    field = getattr(error, "field", None)
    return status, fault(code, _sentence(error, field), field)


def _sentence(error: MragError, field: str | None) -> str:
    if isinstance(error, NotFoundError) and field == "collection":
        return NO_COLLECTION
    if isinstance(error, InputError):
        return str(error)  # of what the caller sent
    if isinstance(error, ModelError | JobsMissingError):
        return sentence_of(error)
    _log.error("A question could not be answered: %s", error)
    return UNREADABLE if isinstance(error, CollectionError) else BROKEN.format(type(error).__name__)


def broken(error: Exception) -> Fault:
    """What is told of an error that nobody expected."""
    return fault("internal", BROKEN.format(type(error).__name__))


def fault(code: str, message: str, field: str | None = None) -> Fault:
    """Messages and names of fields repeat what a caller sent, which JSON may spell as half a character."""
    return Fault(code=code, message=clean(message), field=clean(field) if field else None)


def speaks_openai(path: str) -> bool:
    """Whether the caller of this path is a client of OpenAI's."""
    return any(path == known or path.startswith(f"{known}/") for known in OPENAI_PATHS)


def openai_error(status: int, told: Fault) -> OpenAIErrorBody:
    """A fault in OpenAI's shape."""
    code = "model_not_found" if (told.code, told.field) == ("not_found", "model") else told.code
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return OpenAIErrorBody(error=OpenAIFault(message=told.message, type=kind, param=told.field, code=code))
