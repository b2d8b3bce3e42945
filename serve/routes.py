"""The HTTP API: typed requests in, values of `mrag.schema` out, one shape for every error."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from mrag import __version__
from mrag.errors import MragError
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question, question_for
from mrag.schema import Answer, Pool, Searched
from mrag.settings import Settings
from serve.access import guard
from serve.calls import StageDownError
from serve.events import STREAMED, event_stream
from serve.faults import ErrorBody, Fault, broken, fault, fault_of
from serve.limits import BodyLimit

RETRY_AFTER_S = 5
MAX_POOL = 1000


class TurnBody(BaseModel):
    """One turn of the conversation before a question."""

    model_config = ConfigDict(extra="forbid")

    question: str
    answer: str = ""
    titles: list[str] = Field(default_factory=list, description="Of the documents that the answer cited.")


class Body(BaseModel):
    """What every question carries; a key that is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(description="The question, in natural language.", examples=["Who designed it?"])
    collection: str | None = Field(
        None, description="The collection to search; the configured one by default."
    )
    retrieval: Searched | None = Field(
        None, description="What is searched: keys alone, or beside them the source units."
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="Metadata that documents must have: of each field a value, a list of which it is one, or "
        "tests (equals, in, gt, gte, lt, lte, prefix). `id` and `title` are fields, too.",
        examples=[{"lang": ["en", "de"], "date": {"gte": "2024-01-01"}}],
    )
    turns: list[TurnBody] | None = Field(
        None, description="The conversation before the question, the oldest turn first."
    )


class QueryBody(Body):
    """A question to be answered."""

    reader: Literal["plain", "sane"] | None = Field(None, description="How the pool is read.")
    budget_tokens: int | None = Field(
        None, le=1_000_000, description="Most tokens of context, as the generator counts them."
    )
    w: int | None = Field(None, le=MAX_POOL, description="Candidates in the pool (sane).")
    k: int | None = Field(
        None, le=MAX_POOL, description="Candidates that are read (sane), or raw texts (plain)."
    )
    select: Literal["listed", "labels", "each", "off"] | None = Field(
        None, description="How they are selected from the pool (sane)."
    )
    quoting: Literal["pointed", "copied"] | None = Field(
        None, description="How rows give their quotes (sane): by a sentence's label, or copied."
    )
    read: Literal["units", "values"] | None = Field(
        None, description="What evidence is extracted from (sane): source units, or records' values."
    )
    neighbours: int | None = Field(
        None, description="Units shown before and after each selected one, where there is room (sane)."
    )
    extract: bool | None = Field(None, description="Whether evidence is extracted at all (sane).")
    blueprints: bool | None = Field(None, description="Whether the table follows blueprints (sane).")
    derive: bool | None = Field(None, description="Whether rows may be computed from others (sane).")
    citations: Literal["rule", "model"] | None = Field(
        None, description="Who says which rows the answer rests on: a rule, or the model (sane)."
    )
    no_evidence: Literal["units", "abstain"] | None = Field(
        None, description="Without a verified row: answer from raw units, or not at all (sane)."
    )
    stream: bool = Field(False, description="Tell the stages, the text in pieces, and last the answer.")


class RetrieveBody(Body):
    """A question whose pool is wanted."""

    w: int = Field(20, ge=1, le=MAX_POOL, description="Candidates wanted.")


class Health(BaseModel):
    """What `/healthz` says."""

    status: Literal["ok"] = "ok"
    version: str = __version__


def create_api(pipeline: Pipeline, settings: Settings, token: str | None) -> FastAPI:
    """The application over a pipeline, which it holds but knows nothing of.

    With a `token` every question must bear it; without one, only callers on this machine are answered.
    `/healthz` and the descriptions of the API (`/docs`, `/redoc`, `/openapi.json`) carry no data and are
    open to all.
    """
    api = FastAPI(title="mrag", version=__version__, description="Select-and-extract over semantic records.")
    api.add_middleware(BodyLimit)
    for error, handler in _HANDLERS.items():
        api.add_exception_handler(error, handler)
    v1 = APIRouter(prefix="/v1", dependencies=[Depends(guard(token))], responses=_DOCUMENTED)

    @v1.post("/query", summary="Answer a question", response_model=Answer, responses=STREAMED)
    async def query(body: QueryBody) -> Answer | StreamingResponse:
        question = _question(settings, body)
        if body.stream:
            return await event_stream(pipeline.answer_stream(question))
        return await pipeline.answer(question)

    @v1.post("/retrieve", summary="The pool of a question")
    async def retrieve(body: RetrieveBody) -> Pool:
        return await pipeline.retrieve(_question(settings, body), body.w)

    @api.get("/healthz", summary="Whether the service is up")
    async def healthz() -> Health:
        return Health()

    api.include_router(v1)
    return api


def _question(settings: Settings, body: Body) -> Question:
    unasked = {"question", "w"} if isinstance(body, RetrieveBody) else {"question", "stream"}
    options = body.model_dump(exclude=unasked)
    return question_for(settings, body.question, **{"timeout_s": settings.serve.timeout_s, **options})


# --------------------------------------------------------------------------- errors


def _reply(status: int, told: Fault, retry: bool = False) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if retry else None
    return JSONResponse(ErrorBody(error=told).model_dump(), status, headers=headers)


async def _on_mrag_error(_: Request, error: Any) -> JSONResponse:
    return _reply(*fault_of(error), retry=isinstance(error, StageDownError))


async def _on_invalid_body(_: Request, error: Any) -> JSONResponse:
    found = error.errors()[0]
    places = [str(part) for part in found["loc"] if part != "body"]
    message = str(found["msg"]).rstrip(".")
    field = ".".join(places) if places and found["type"] != "json_invalid" else None
    sentence = f"{field}: {message}." if field else f"The body can't be read: {message}."
    return _reply(422, fault("invalid_body", sentence, field))


async def _on_http_error(_: Request, error: Any) -> JSONResponse:
    codes = {
        401: "unauthorized",
        403: "forbidden",
        404: "not_found",
        405: "method_not_allowed",
        408: "timeout",
        413: "too_large",
    }
    return _reply(error.status_code, fault(codes.get(error.status_code, "http"), str(error.detail)))


async def _on_fault(_: Request, error: Any) -> JSONResponse:
    return _reply(500, broken(error))


_HANDLERS: dict[Any, Any] = {
    Exception: _on_fault,
    MragError: _on_mrag_error,
    RequestValidationError: _on_invalid_body,
    HTTPException: _on_http_error,
}
_DOCUMENTED: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "An argument can't be used; `field` names it."},
    401: {"model": ErrorBody, "description": "The bearer token is missing or wrong."},
    403: {"model": ErrorBody, "description": "The caller is not on this machine and no token is configured."},
    404: {"model": ErrorBody, "description": "There is no such collection."},
    408: {"model": ErrorBody, "description": "The body was not sent in time."},
    413: {"model": ErrorBody, "description": "The body is longer than any question needs."},
    422: {"model": ErrorBody, "description": "The body does not have the documented form."},
    500: {"model": ErrorBody, "description": "The collection is damaged or the service has a fault."},
    502: {"model": ErrorBody, "description": "The language model gave no usable reply."},
    503: {"model": ErrorBody, "description": "A stage is busy or restarting; try again after `Retry-After`."},
    504: {"model": ErrorBody, "description": "The question was not answered before its deadline."},
}
