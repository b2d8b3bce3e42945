"""A language model whose replies are kept by request: what was asked once is not asked again."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from mrag.collection.storage import atomic_write, writable
from mrag.errors import MragError
from mrag.models.language_model import Choice, Completion, LanguageModel, Likelihood, Message, Request
from mrag.models.opening import counting_model, open_reviving_model
from mrag.models.request_key import request_key
from mrag.schema import Usage
from mrag.settings import LanguageModelSettings

T = TypeVar("T")
Entry = Mapping[str, Any]
Read = Callable[[Entry], T]


class KeptReplies:
    """A folder with a file for each reply, whole or absent, which several runs may share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, read: Read[T]) -> Entry | None:
        """The entry; None where there is none, or none that can be read."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            entry = json.loads(self._path(key).read_text("utf-8"))
            read(entry)
            return {**entry, "seconds": float(entry["seconds"]), "kept": True}
        return None

    def put(self, key: str, entry: Entry) -> None:
        """Keeps an entry; it is on disk before this returns. Raises CollectionError for a full disk."""
        path = self._path(key)
        with writable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, json.dumps(entry).encode())

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


# --------------------------------------------------------------------------- time as it was when first asked


class Clock:
    """The seconds that the replies of one question took when they were first asked.

    Replies to requests that follow each other add up; of those under way together the slowest counts.
    `kept` says that one of them was not asked for now, or by another question: the time that passed is less.
    """

    seconds = 0.0
    kept = False


_CLOCK = ContextVar[Clock | None]("clock", default=None)


@contextmanager
def clocked() -> Iterator[Clock]:
    """The clock of what is asked in this context, and in the tasks that it starts."""
    clock = Clock()
    token = _CLOCK.set(clock)
    try:
        yield clock
    finally:
        _CLOCK.reset(token)


# --------------------------------------------------------------------------- the model


class KeepingModel:
    """A `LanguageModel` that opens its engine when a reply is missing, and keeps every reply but failures.

    `counting` knows name, window and tokens. The same request, asked twice at once, is asked once. A reply
    counts its tokens whether it was kept or not. Without `replies` nothing is kept. `asked` counts the
    requests that went to the engine; `refused` is what kept it from opening.
    """

    def __init__(
        self,
        counting: LanguageModel,
        open_model: Callable[[], Awaitable[LanguageModel]],
        replies: KeptReplies | None = None,
    ) -> None:
        self._counting = counting
        self._open = open_model
        self._replies = replies
        self._model: LanguageModel | None = None
        self._opening = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[Entry]] = {}
        self.asked = 0
        self.refused: MragError | None = None

    @property
    def name(self) -> str:
        """The engine's own."""
        return self._counting.name

    @property
    def window_tokens(self) -> int:
        """The engine's own."""
        return self._counting.window_tokens

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request, as it was when it was first asked."""

        async def ask(model: LanguageModel) -> Entry:
            return asdict(await model.complete(request))

        return await self._reply(request_key(request, self.name), ask, _completion)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The same in one piece."""
        yield (await self.complete(request)).text

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """Log-probability of each label as the next token, likewise kept."""

        async def ask(model: LanguageModel) -> Entry:
            return asdict(await model.choose(request, labels))

        key = request_key(request, self.name, labels=list(labels))
        return await self._reply(key, ask, _choice)

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely a given reply is, likewise kept."""

        async def ask(model: LanguageModel) -> Entry:
            return asdict(await model.likelihood(request, reply))

        return await self._reply(request_key(request, self.name, reply=reply), ask, _likelihood)

    def count_tokens(self, text: str) -> int:
        """As the engine counts."""
        return self._counting.count_tokens(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """As the engine counts."""
        return self._counting.count_prompt_tokens(messages)

    async def close(self) -> None:
        """Ends what is under way, and gives the engine back where one was opened."""
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        if self._model:
            await self._model.close()
        await self._counting.close()

    async def _reply(self, key: str, ask: Callable[[LanguageModel], Awaitable[Entry]], read: Read[T]) -> T:
        clock = _CLOCK.get() or Clock()
        started = clock.seconds
        task = self._under_way.get(key)
        shared = task is not None
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._entry(key, ask, read))
            task.add_done_callback(lambda ended: self._ended(key, ended))
        # A caller who gives up ends neither the others' waiting nor the reply, which will be kept.
        entry = await asyncio.shield(task)
        clock.seconds = max(clock.seconds, started + entry["seconds"])
        clock.kept = clock.kept or shared or "kept" in entry
        return read(entry)

    def _ended(self, key: str, task: asyncio.Task[Entry]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # Seen, though all who waited for it may have left.

    async def _entry(
        self, key: str, ask: Callable[[LanguageModel], Awaitable[Entry]], read: Read[T]
    ) -> Entry:
        if self._replies and (kept := await asyncio.to_thread(self._replies.get, key, read)):
            return kept
        model = await self._opened()
        self.asked += 1
        started = time.monotonic()
        entry = {**await ask(model), "seconds": time.monotonic() - started}
        if self._replies:
            await asyncio.to_thread(self._replies.put, key, entry)
        return entry

    async def _opened(self) -> LanguageModel:
        """The engine. One that does not open is not tried again: no other request could fare better."""
        async with self._opening:
            if self.refused:
                raise self.refused
            if self._model is None:
                try:
                    self._model = await self._open()
                except MragError as error:
                    self.refused = error
                    raise
            return self._model


def _completion(entry: Entry) -> Completion:
    return Completion(entry["text"], Usage(**entry["usage"]), entry["finish"])


def _choice(entry: Entry) -> Choice:
    logprobs = {label: float(value) for label, value in entry["logprobs"].items()}
    return Choice(logprobs, Usage(**entry["usage"]))


def _likelihood(entry: Entry) -> Likelihood:
    return Likelihood(float(entry["logprob"]), Usage(**entry["usage"]))


async def open_keeping_model(settings: LanguageModelSettings, folder: Path | None) -> KeepingModel:
    """The model of the settings, whose replies are kept in `folder`. Fetches weights where needed.

    Raises ModelError or SettingsError; the engine opens, and may refuse to, with the first missing reply.
    """

    async def opened() -> LanguageModel:
        return await open_reviving_model(settings)

    return KeepingModel(await counting_model(settings), opened, KeptReplies(folder) if folder else None)
