"""The service as tools of an agent: the Model Context Protocol over HTTP, at `/mcp`, by its own SDK."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mrag import __version__
from mrag.errors import MragError
from serve.access import Guard, Visitor
from serve.desk import Desk
from serve.faults import fault_of
from serve.mcp_values import Answered, Found, Opened, Shelf, Shelves

PATH = "/mcp"
INSTRUCTIONS = (
    "Answers from documents, with quotes that were checked to stand in their sources. Ask in sentences, "
    "search for passages to read them yourself; open a document by the id that the others name."
)
_SECURITY = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard sees to it
Result = TypeVar("Result")
Collection = Annotated[
    str | None, Field(description="One of those that list_collections names; by default the configured one.")
]


class Tools:
    """The tools; each is one question to the desk, in the name of who made the request."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list_collections(self, ctx: Context[Any, Any]) -> Shelves:
        """The collections of documents that can be searched."""
        found = await _said(self._desk.collections(_visitor(ctx)))
        default = self._desk.default_collection
        return Shelves(
            collections=[
                Shelf(name=one.name, documents=one.counts.documents, default=one.name == default)
                for one in found
            ]
        )

    async def search(
        self,
        ctx: Context[Any, Any],
        question: Annotated[str, Field(description="What to look for, best as a question.")],
        collection: Collection = None,
        limit: Annotated[int, Field(ge=1, le=50, description="Most passages.")] = 8,
    ) -> Found:
        """Passages of documents that may answer a question, best first, without a language model."""
        visitor = _visitor(ctx)
        options = await _said(self._desk.fitting(visitor, collection))
        return Found.of(await _said(self._desk.retrieve(visitor, question, limit, **options)))

    async def ask(
        self,
        ctx: Context[Any, Any],
        question: Annotated[str, Field(description="One question, understandable by itself.")],
        collection: Collection = None,
        reader: Annotated[
            Literal["sane", "plain"] | None,
            Field(description="sane: verified evidence; plain: reads records; else the configured one."),
        ] = None,
    ) -> Answered:
        """The answer of the documents to a question, with a table of evidence whose quotes were checked."""
        visitor = _visitor(ctx)
        options = await _said(self._desk.fitting(visitor, collection))
        return Answered.of(await _said(self._desk.answer(visitor, question, reader=reader, **options)))

    async def open_document(
        self,
        ctx: Context[Any, Any],
        document_id: Annotated[str, Field(description="The id that search or ask named.")],
        collection: Collection = None,
        first_unit: Annotated[int, Field(ge=1, description="The number of the first source unit.")] = 1,
        units: Annotated[int, Field(ge=1, le=200, description="Most source units.")] = 40,
    ) -> Opened:
        """The text of a document, source unit by source unit, from one of them on."""
        work = self._desk.document(_visitor(ctx), collection, document_id)
        return Opened.of(await _said(work), first_unit, units)


async def _said(work: Awaitable[Result]) -> Result:
    """The result; an expected error is told to the agent in its own sentence."""
    try:
        return await work
    except MragError as error:
        raise ToolError(fault_of(error)[1].message) from None


def _visitor(ctx: Context[Any, Any]) -> Visitor:
    visitor: Visitor = ctx.request_context.request.state.visitor  # type: ignore[union-attr]
    return visitor


class McpApplication:
    """The tools behind the same door as all routes. No session is kept: any replica answers any request."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        # Nobody may listen for changes: none is told, and a listener would hold a place of the gateway.
        server = MCPServer(
            "mrag", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING", subscriptions=False
        )
        tools = Tools(desk)
        for tool in (tools.list_collections, tools.search, tools.ask, tools.open_document):
            server.add_tool(tool)
        server.streamable_http_app(stateless_http=True, transport_security=_SECURITY)
        self._manager = server.session_manager
        self._guard = guard

    def running(self) -> AbstractAsyncContextManager[None]:
        """To be entered once, while the application lives."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request of a client. Raises HTTPException where it is refused."""
        self._guard.admit(Request(scope), "read")
        await self._manager.handle_request(scope, receive, send)
