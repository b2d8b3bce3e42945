"""A language model whose engine is opened anew when it dies, for work that must come to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from mrag.errors import EngineDeadError, ModelError
from mrag.models.language_model import Choice, Completion, LanguageModel, Likelihood, Message, Request

T = TypeVar("T")


class RevivingModel:
    """A `LanguageModel` that opens another by `open_model` when an engine has stopped.

    What was under way is asked once more, one request at a time: a request that ends its engine again is
    what ended it, and fails with EngineDeadError. All the others come through.
    """

    def __init__(self, model: LanguageModel, open_model: Callable[[], Awaitable[LanguageModel]]) -> None:
        self._model = model
        self._open = open_model
        self._alone = asyncio.Lock()
        self._dead: LanguageModel | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """The engine's own."""
        return self._model.name

    @property
    def window_tokens(self) -> int:
        """The engine's own."""
        return self._model.window_tokens

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request."""
        return await self._twice(lambda model: model.complete(request))

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """The next token among `labels`."""
        return await self._twice(lambda model: model.choose(request, labels))

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely a given reply is."""
        return await self._twice(lambda model: model.likelihood(request, reply))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The reply in pieces; asked once more only where none of it was told yet."""
        asked, told = self._model, False
        try:
            async for piece in asked.stream(request):
                told = True
                yield piece
            return
        except EngineDeadError:
            self._dead = asked
            if told or self._closed:
                raise
        async with self._alone:
            if self._model is self._dead:
                await self._revive()
        async for piece in self._model.stream(request):
            yield piece

    def count_tokens(self, text: str) -> int:
        """As the engine counts; a dead one still does."""
        return self._model.count_tokens(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """As the engine counts; a dead one still does."""
        return self._model.count_prompt_tokens(messages)

    async def close(self) -> None:
        """Closes the engine, and opens no other."""
        self._closed = True
        await self._model.close()

    async def _twice(self, ask: Callable[[LanguageModel], Awaitable[T]]) -> T:
        try:
            return await self._once(ask)
        except EngineDeadError:
            if self._closed:
                raise
        async with self._alone:
            if self._model is self._dead:
                await self._revive()
            return await self._once(ask)

    async def _once(self, ask: Callable[[LanguageModel], Awaitable[T]]) -> T:
        asked = self._model
        try:
            return await ask(asked)
        except EngineDeadError:
            self._dead = asked
            raise

    async def _revive(self) -> None:
        with contextlib.suppress(ModelError):
            await self._model.close()
        self._model = await self._open()
