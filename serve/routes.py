"""The HTTP API: typed requests in, values of the core out, one shape for every error."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.routing import Route

from mrag import __version__
from mrag.collection import Description, Overview
from mrag.query.library import OpenedDocument
from mrag.query.pipeline import Evidence, Pipeline
from mrag.schema import Answer, Pool
from mrag.settings import Settings
from serve.access import Guard, Keyring, Visitor
from serve.admission import Admission, Door
from serve.bodies import EvidenceBody, QueryBody, RetrieveBody
from serve.desk import Books, Desk
from serve.events import STREAMED, event_stream
from serve.handlers import BODY, CALLER, MODEL, add_handlers, documented
from serve.job_desk import JobDesk, NoRunner, Runner
from serve.job_routes import job_routes
from serve.limits import BodyLimit
from serve.mcp_tools import PATH, McpApplication
from serve.metrics import Meters
from serve.openai_routes import openai_routes
from serve.page import add_page
from serve.readiness import Probe, Readiness
from serve.request_log import RequestLog
from serve.service_routes import Watch, service_routes, unwatched


class Health(BaseModel):
    """What `/healthz` says: that the process answers, whatever else it is busy with."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Ready(BaseModel):
    """What `/readyz` says where a question could be answered."""

    status: Literal["ready"] = "ready"


class Collections(BaseModel):
    """The collections that the caller may see, by name."""

    collections: list[Overview]


def create_api(
    pipeline: Pipeline,
    library: Books,
    settings: Settings,
    keyring: Keyring,
    watch: Watch = unwatched,
    runner: Runner | None = None,
    probe: Probe | None = None,
) -> FastAPI:
    """The application over a pipeline and a library, which it holds but knows nothing of.

    `/healthz`, `/readyz` (which asks the `probe`), the page and the descriptions of the API (`/docs`,
    `/redoc`, `/openapi.json`) carry no data and are open to all.
    """
    meters = Meters()
    desk, guard = Desk(pipeline, library, settings, meters), Guard(keyring)
    mcp = McpApplication(desk, guard)
    api = FastAPI(
        title="mrag",
        version=__version__,
        description="Select-and-extract over semantic records.",
        lifespan=lambda _: mcp.running(),
    )
    api.add_middleware(BodyLimit)
    bounds = settings.serve.gateway
    api.add_middleware(
        Admission,
        at_once=bounds.max_ongoing,
        waiting=bounds.max_queued,
        patience_s=settings.serve.timeout_s,
    )
    api.add_middleware(Door, guard=guard)
    api.add_middleware(RequestLog, meters=meters)
    add_handlers(api)
    api.router.routes.append(Route(PATH, mcp, methods=["POST"], include_in_schema=False))

    @api.get("/healthz", summary="Whether the service is up")
    async def healthz() -> Health:
        return Health()

    ready = Readiness(desk.find_anything, probe or _unprobed)

    @api.get("/readyz", summary="Whether a question could be answered", responses=documented(*BODY, *CALLER))
    async def readyz() -> Ready:
        await ready()
        return Ready()

    add_page(api)
    api.include_router(_questions(desk, guard))
    api.include_router(_library(desk, guard))
    api.include_router(job_routes(JobDesk(desk, runner or NoRunner(), settings), guard))
    api.include_router(service_routes(desk, guard, watch))
    api.include_router(openai_routes(desk, guard, settings))
    return api


async def _unprobed(_: float) -> None:
    """Of an application that no model stands behind."""


def _questions(desk: Desk, guard: Guard) -> APIRouter:
    v1 = APIRouter(prefix="/v1", responses=documented(), tags=["questions"])
    reader = Depends(guard.needs("read"))

    @v1.post("/query", summary="Answer a question", response_model=Answer, responses=STREAMED)
    async def query(body: QueryBody, visitor: Visitor = reader) -> Answer | StreamingResponse:
        if body.stream:
            return await event_stream(desk.answer_stream(visitor, body.question, **body.options()))
        return await desk.answer(visitor, body.question, **body.options())

    @v1.post("/retrieve", summary="The pool of a question")
    async def retrieve(body: RetrieveBody, visitor: Visitor = reader) -> Pool:
        return await desk.retrieve(visitor, body.question, body.w, **body.options())

    @v1.post("/evidence", summary="The verified evidence table of a question, without an answer")
    async def evidence(body: EvidenceBody, visitor: Visitor = reader) -> Evidence:
        return await desk.evidence(visitor, body.question, **body.options())

    return v1


def _library(desk: Desk, guard: Guard) -> APIRouter:
    v1 = APIRouter(prefix="/v1", tags=["library"])
    errors = documented(*BODY, *MODEL)
    reader = Depends(guard.needs("read"))

    @v1.get("/collections", summary="The collections", responses=documented(*BODY, *MODEL, 400, 404, 422))
    async def collections(visitor: Visitor = reader) -> Collections:
        return Collections(collections=list(await desk.collections(visitor)))

    @v1.get("/collections/{name}", summary="What a collection consists of", responses=errors)
    async def collection(name: str, visitor: Visitor = reader) -> Description:
        return await desk.describe(visitor, name)

    @v1.get(
        "/documents/{document_id:path}", summary="A document, its units and their records", responses=errors
    )
    async def document(
        document_id: str,
        visitor: Visitor = reader,
        collection: Annotated[
            str | None, Query(description="The collection it is in; the configured one by default.")
        ] = None,
    ) -> OpenedDocument:
        return await desk.document(visitor, collection, document_id)

    return v1
