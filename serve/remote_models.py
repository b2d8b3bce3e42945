"""Seams of the core over Serve handles: who holds one does not notice that the object is elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from mrag.collection import Description, Overview
from mrag.models.encoder import Kind
from mrag.models.language_model import Choice, Completion, LanguageModel, Likelihood, Message, Request
from mrag.query.library import OpenedDocument, Reloaded
from mrag.schema import Vectors
from serve.calls import UNLIMITED, Limit, call, iterate


class RemoteLanguageModel:
    """A `LanguageModel` whose engine is the deployment behind `handle`.

    `counter` is the same model with its engine not loaded: it only counts tokens, here. `limit` is that of
    each request that is answered whole.
    """

    def __init__(self, handle: Any, counter: LanguageModel, limit: Limit = UNLIMITED) -> None:
        self._handle = handle
        self._counter = counter
        self._limit = limit

    @property
    def name(self) -> str:
        """The engine's own name."""
        return self._counter.name

    @property
    def window_tokens(self) -> int:
        """The engine's own window."""
        return self._counter.window_tokens

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request."""
        completion: Completion = await call(self._handle.complete, request, limit=self._limit)
        return completion

    def stream(self, request: Request) -> AsyncIterator[str]:
        """The reply in pieces, for as long as who reads them waits."""
        return iterate(self._handle.stream, request)

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """The next token among `labels`."""
        choice: Choice = await call(self._handle.choose, request, tuple(labels), limit=self._limit)
        return choice

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely a given reply is."""
        likelihood: Likelihood = await call(self._handle.likelihood, request, reply, limit=self._limit)
        return likelihood

    def count_tokens(self, text: str) -> int:
        """Counted here, without a call."""
        return self._counter.count_tokens(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Counted here, without a call."""
        return self._counter.count_prompt_tokens(messages)

    async def close(self) -> None:
        """Nothing to give back: the deployment owns the engine."""


class RemoteEncoder:
    """The encoding of questions by the deployment behind `handle`."""

    def __init__(self, handle: Any, limit: Limit = UNLIMITED) -> None:
        self._handle = handle
        self._limit = limit

    async def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Unit rows, in the order given."""
        vectors: Vectors = await call(self._handle.encode, list(texts), kind, limit=self._limit)
        return vectors


class RemoteLibrary:
    """The `Library` of the deployment behind `handle`."""

    def __init__(self, handle: Any, limit: Limit = UNLIMITED) -> None:
        self._handle = handle
        self._limit = limit

    async def collections(self) -> tuple[Overview, ...]:
        """All of them."""
        found: tuple[Overview, ...] = await call(self._handle.collections, limit=self._limit)
        return found

    async def overview(self, name: str) -> Overview:
        """One of them."""
        found: Overview = await call(self._handle.overview, name, limit=self._limit)
        return found

    async def describe(self, name: str) -> Description:
        """One of them, at length."""
        found: Description = await call(self._handle.describe, name, limit=self._limit)
        return found

    async def document(self, collection: str, document_id: str) -> OpenedDocument:
        """One document."""
        found: OpenedDocument = await call(self._handle.document, collection, document_id, limit=self._limit)
        return found

    async def reload(self, name: str) -> Reloaded:
        """Opened by one replica; the others open it with their next question."""
        done: Reloaded = await call(self._handle.reload, name, limit=self._limit)
        return done
