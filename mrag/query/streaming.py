"""A reply that is told while it comes: only what is certain to stay in the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from mrag.errors import EmptyReplyError
from mrag.models.language_model import Completion, LanguageModel, Request
from mrag.models.replies import answer_of
from mrag.schema import Usage

Tell = Callable[[str], None]
Event = TypeVar("Event")
Result = TypeVar("Result")

# What may yet turn out to be a fence, or `The final answer is:`.
_UNDECIDED = re.compile(
    r"\s*(?:`{1,3}\w*|(?:the)?\s*(?:final)?\s*(?:answer)?\s*(?:is)?\s*:?)\s*\Z", re.IGNORECASE
)
_FENCE = re.compile(r"\s*`+\Z")


async def as_told(
    work: Callable[[Callable[[Event], None]], Awaitable[Result]],
) -> AsyncGenerator[Event | Result, None]:
    """What `work` tells, as it tells it, and last its result. Raises what it raises; closing this ends it."""
    told: asyncio.Queue[tuple[Event] | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(lambda event: told.put_nowait((event,))))
    task.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (event := await told.get()) is not None:
            yield event[0]
        yield task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def streamed(
    model: LanguageModel, request: Request, tell: Tell, shown: Callable[[str], str]
) -> Completion:
    """The whole reply, as `complete` has it; `tell` is given its pieces, which joined are `shown` of it.

    Whole words are told, marks when they are closed. A reply of which the model takes something back, such as
    thoughts that nothing announced, may have told more than it is: the whole reply is what holds.
    """
    text = told = ""
    async for piece in model.stream(request):
        text += piece
        told += _more(told, shown(certain(text)), tell)
    if not answer_of(text):
        raise EmptyReplyError(f"{model.name} answered {request.purpose} with nothing but its own thoughts.")
    _more(told, shown(text), tell)
    used = Usage(1, model.count_prompt_tokens(request.messages), model.count_tokens(text))
    return Completion(text, used)


def certain(text: str) -> str:
    """The words of a beginning that are whole, without a mark or a fence that is not."""
    words = text[: max(map(text.rfind, " \t\n")) + 1]
    words = _FENCE.sub("", words[: _opened(words)].rstrip())
    return "" if _UNDECIDED.match(words) else words


def _opened(text: str) -> int:
    """Where the first bracket stands that is not closed yet; a mark may stand within another."""
    open_at: list[int] = []
    for at, c in enumerate(text):
        if c == "[":
            open_at.append(at)
        elif c == "]" and open_at:
            open_at.pop()
    return open_at[0] if open_at else len(text)


def _more(told: str, now: str, tell: Tell) -> str:
    """Tells what is new, and returns it."""
    new = now[len(told) :] if now.startswith(told) else ""
    if new:
        tell(new)
    return new
