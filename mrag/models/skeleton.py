"""What every language model does around its engine: window, turn, deadline, empty reply."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence

from mrag.errors import (
    EmptyReplyError,
    EngineDeadError,
    ModelError,
    ModelTimeoutError,
    MragError,
    NoLogprobsError,
    PromptTooLongError,
    named,
)
from mrag.models.language_model import Choice, Completion, Likelihood, Message, Request
from mrag.models.replies import answer_of
from mrag.schema import Usage


def final(sentence: str) -> ModelError:
    """An error that the same request will always meet."""
    error = ModelError(sentence)
    error.retryable = False
    return error


class ModelSkeleton(ABC):
    """The checks of the `LanguageModel` seam, once for all its siblings.

    At most `max_concurrency` requests are in the engine; the others wait their turn. A request's own
    `timeout_s` counts from the call, the model's default only from its turn, so that a long queue
    is no failure. One instance belongs to one event loop: open one for each.
    """

    computes_together = False
    """The engine computes its requests together: by default none is late while others come to their end."""

    def __init__(self, window_tokens: int, max_concurrency: int, timeout_s: float) -> None:
        self._window_tokens = window_tokens
        self._turns = asyncio.Semaphore(max_concurrency)
        self._timeout_s = timeout_s
        self._patience: set[asyncio.Timeout] = set()
        self._moved = float("-inf")
        self._closed = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's identity for fingerprints: name and revision."""

    @property
    def window_tokens(self) -> int:
        """The most tokens that prompt and reply may have together."""
        return self._window_tokens

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request."""
        self._admit(request, request.max_tokens)
        async with self._turn(request) as deadline, self._until(deadline, request):
            with self._faults_named(request):
                completion = await self._complete(request)
        if not completion.text.strip():
            raise self._empty(request, completion.usage)
        if not answer_of(completion.text):
            thought = "its own thoughts or an empty fence: turn its thinking off"
            raise self._empty(request, completion.usage, thought)
        return completion

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The reply in pieces, in order; a caller that stops early closes it, which frees the engine."""
        self._admit(request, request.max_tokens)
        blank = True
        async with self._turn(request) as deadline, contextlib.aclosing(self._pieces(request)) as pieces:
            while True:
                # Set anew for each piece: between two of them the caller's own code runs.
                async with self._until(deadline, request):
                    with self._faults_named(request):
                        piece = await anext(pieces, None)
                if piece is None:
                    break
                blank = blank and not piece.strip()
                if piece:
                    yield piece
        if blank:
            raise self._empty(request)

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """The next token among `labels`."""
        self._admit(request, 1)
        async with self._turn(request) as deadline, self._until(deadline, request):
            with self._faults_named(request):
                return await self._choose(request, labels)

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely a given reply is."""
        self._admit(request, self.count_tokens(reply) + 1)
        async with self._turn(request) as deadline, self._until(deadline, request):
            with self._faults_named(request):
                return await self._likelihood(request, reply)

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Tokens of bare `text`, as this model counts them."""

    @abstractmethod
    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered chat, the template's own included."""

    async def close(self) -> None:
        """Gives everything back; the model can't be used afterwards."""
        self._closed = True

    @abstractmethod
    async def _complete(self, request: Request) -> Completion: ...

    @abstractmethod
    def _pieces(self, request: Request) -> AsyncGenerator[str, None]: ...

    @abstractmethod
    async def _choose(self, request: Request, labels: Sequence[str]) -> Choice: ...

    async def _likelihood(self, request: Request, reply: str) -> Likelihood:
        raise NoLogprobsError(f"{self.name} does not tell how likely a given reply is.")

    def _admit(self, request: Request, reply_tokens: int) -> None:
        if self._closed:
            raise EngineDeadError(f"The model {self.name} was closed: open it again.")
        with self._faults_named(request):
            prompt_tokens = self.count_prompt_tokens(request.messages)
        if prompt_tokens + reply_tokens > self.window_tokens:
            raise PromptTooLongError(
                f"The prompt of {request.purpose} has {prompt_tokens} tokens and wants {reply_tokens} more "
                f"for the reply, but the window of {self.name} is {self.window_tokens}: shorten the prompt."
            )

    @contextlib.contextmanager
    def _faults_named(self, request: Request) -> Iterator[None]:
        """Around each use of the engine: what its door does not know costs this request, and not the run."""
        try:
            yield
        except MragError:
            raise
        except Exception as error:
            raise final(
                f"{self.name} ended {request.purpose} with {named(error)}: "
                "this is a fault of mrag or of its engine, report it."
            ) from error

    @contextlib.asynccontextmanager
    async def _turn(self, request: Request) -> AsyncIterator[float]:
        """Waits for a free place in the engine, then yields the loop's time at which the request ends."""
        clock = asyncio.get_running_loop().time
        own = None if request.timeout_s is None else clock() + request.timeout_s
        async with self._until(own, request):
            await self._wait_for_room(request)
            await self._turns.acquire()
        try:
            yield clock() + self._timeout_s if own is None else own
            self._move(clock())
        finally:
            self._turns.release()

    def _move(self, now: float) -> None:
        """A request has come to its end: others that are computed with it are given their time anew."""
        self._moved = now
        for limit in self._patience:
            if not limit.expired():
                limit.reschedule(now + self._timeout_s)

    async def _wait_for_room(self, request: Request) -> None:  # noqa: B027 (most engines need none)
        """Waits where the engine may not be asked as fast as requests come: only their own deadlines run."""

    @contextlib.asynccontextmanager
    async def _until(self, deadline: float | None, request: Request) -> AsyncIterator[None]:
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                if self.computes_together and deadline is not None and request.timeout_s is None:
                    limit.reschedule(max(deadline, self._moved + self._timeout_s))
                    self._patience.add(limit)
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            seconds = self._timeout_s if request.timeout_s is None else request.timeout_s
            raise ModelTimeoutError(
                f"{self.name} did not answer {request.purpose} within {seconds:g} s: "
                "raise timeout_s or ask fewer things at once."
            ) from None
        finally:
            self._patience.discard(limit)

    def _empty(
        self, request: Request, paid: Usage | None = None, what: str = "white space"
    ) -> EmptyReplyError:
        error = EmptyReplyError(f"{self.name} answered {request.purpose} with nothing but {what}.")
        if paid:
            error.tokens = (paid.prompt_tokens, paid.completion_tokens)
        return error
