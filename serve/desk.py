"""What a visitor may ask is passed on to the pipeline or the library: the same for every kind of API."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

from mrag.collection import Description, Overview, no_collection
from mrag.query.library import OpenedDocument, Reloaded
from mrag.query.offered import searched_in
from mrag.query.pipeline import Evidence, Pipeline
from mrag.query.question import Question, question_for
from mrag.schema import Answer, Pool
from mrag.settings import Settings
from serve.access import Visitor
from serve.events import Events
from serve.metrics import Meters
from serve.request_log import told_of
from serve.tracing import about

LEAST_S = 0.01  # left of a deadline that has passed: no question is without one
Result = TypeVar("Result", Pool, Evidence, Answer)


class Books(Protocol):
    """The `Library`, wherever it is."""

    def collections(self) -> Awaitable[tuple[Overview, ...]]:
        """All of them."""

    def overview(self, name: str) -> Awaitable[Overview]:
        """One of them."""

    def describe(self, name: str) -> Awaitable[Description]:
        """One of them, at length."""

    def document(self, collection: str, document_id: str) -> Awaitable[OpenedDocument]:
        """One document."""

    def reload(self, name: str) -> Awaitable[Reloaded]:
        """Opens what is in force."""


class Desk:
    """Where every API asks. A collection that the visitor may not see is told to be unknown."""

    def __init__(self, pipeline: Pipeline, library: Books, settings: Settings, meters: Meters) -> None:
        self._pipeline = pipeline
        self._meters = meters
        self._library = library
        self._settings = settings

    @property
    def default_collection(self) -> str:
        """The one that is asked where none is named."""
        return self._settings.collection.name

    # ----------------------------------------------------------------------- questions

    async def retrieve(self, visitor: Visitor, text: str, w: int, **options: Any) -> Pool:
        """The pool of a question; `options` as `question_for` takes them."""
        question = self._question(visitor, text, options)
        started = time.monotonic()
        pool = await self._pipeline.retrieve(question, w)
        self._meters.retrieved(time.monotonic() - started)
        return self._noted(visitor, question, pool)

    async def find_anything(self, timeout_s: float) -> Pool:
        """One candidate of the configured collection. Raises what keeps any from being found."""
        return await self._pipeline.retrieve(question_for(self._settings, "ready", timeout_s=timeout_s), 1)

    async def evidence(self, visitor: Visitor, text: str, **options: Any) -> Evidence:
        """Its verified table."""
        question = self._question(visitor, text, options)
        return self._noted(visitor, question, await self._pipeline.evidence(question))

    async def answer(self, visitor: Visitor, text: str, **options: Any) -> Answer:
        """Its answer."""
        question = self._question(visitor, text, options)
        return self._noted(visitor, question, await self._pipeline.answer(question))

    def answer_stream(self, visitor: Visitor, text: str, **options: Any) -> Events:
        """Its answer as it comes. What is wrong with the question is raised here."""
        question = self._question(visitor, text, options)
        return self._watched(visitor, question, self._pipeline.answer_stream(question))

    async def _watched(self, visitor: Visitor, question: Question, events: Events) -> Events:
        async with contextlib.aclosing(events):
            async for event in events:
                yield self._noted(visitor, question, event) if isinstance(event, Answer) else event

    def _noted(self, visitor: Visitor, question: Question, result: Result) -> Result:
        self._meters.found(question, result)
        visitor.told.update(told_of(question, result, self._settings.serve.log_questions))
        return result

    def _question(self, visitor: Visitor, text: str, options: dict[str, Any]) -> Question:
        waited_s = time.monotonic() - visitor.arrived
        left_s = max(self._settings.serve.timeout_s - waited_s, LEAST_S)
        question = question_for(self._settings, text, **{"timeout_s": left_s, **options})
        self.admit(visitor, question.collection)
        about(collection=question.collection)
        return question

    # ----------------------------------------------------------------------- the library

    async def collections(self, visitor: Visitor) -> tuple[Overview, ...]:
        """Those that the visitor may see."""
        found = await self._library.collections()
        return tuple(one for one in found if visitor.key.sees(one.name))

    async def fitting(self, visitor: Visitor, collection: str | None) -> dict[str, Any]:
        """Options that fit a collection, for callers that have no choice. Raises NotFoundError."""
        name = collection or self.default_collection
        self.admit(visitor, name)
        return searched_in(await self._library.overview(name), self._settings)

    async def describe(self, visitor: Visitor, name: str) -> Description:
        """The same at length."""
        self.admit(visitor, name)
        return await self._library.describe(name)

    async def overview(self, visitor: Visitor, name: str) -> Overview:
        """One of them. Raises NotFoundError (field `collection`)."""
        self.admit(visitor, name)
        return await self._library.overview(name)

    async def reload(self, visitor: Visitor, name: str) -> Reloaded:
        """Opens its generation in force now."""
        self.admit(visitor, name)
        return await self._library.reload(name)

    async def document(self, visitor: Visitor, collection: str | None, document_id: str) -> OpenedDocument:
        """One document. Raises NotFoundError (field `collection` or `document`)."""
        name = collection or self.default_collection
        self.admit(visitor, name)
        return await self._library.document(name, document_id)

    def admit(self, visitor: Visitor, collection: str) -> None:
        """Raises NotFoundError for a collection that the visitor may not know of."""
        if not visitor.key.sees(collection):
            raise no_collection(self._settings.collection.root, collection)
