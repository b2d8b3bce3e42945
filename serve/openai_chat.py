"""Between OpenAI's chat and a question: messages to turns, an answer or its stream to a completion."""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrag.errors import InputError, MragError
from mrag.query.footnotes import Footnote, footnoted
from mrag.query.turns import Turn, turns_of
from mrag.schema import Answer, StageTrace, Usage
from serve.events import Event, Events
from serve.faults import Fault, broken, fault_of, openai_error
from serve.openai_values import (
    Annotation,
    ChatBody,
    ChatCompletion,
    Choice,
    Message,
    Reply,
    TokenUsage,
    UrlCitation,
    chunk,
)

_log = logging.getLogger(__name__)

Link = Callable[[Footnote], str]


def asked_in(body: ChatBody) -> tuple[str, tuple[Turn, ...]]:
    """The question and the turns before it. Raises InputError for what can't be read or done."""
    if body.n not in (None, 1):
        raise InputError("n", "One answer is given: leave n out, or set it to 1.")
    if body.response_format and body.response_format.type != "text":
        raise InputError(
            "response_format", "Answers are text: leave response_format out, or /v1/query gives JSON."
        )
    texts = [
        (message.role == "user", _text(number, message))
        for number, message in enumerate(body.messages)
        if message.role in ("user", "assistant")
    ]
    return turns_of(texts)


def _text(number: int, message: Message) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise InputError(
                f"messages.{number}.content",
                f"A part of type {part.type!r:.40} can't be read: send text, nothing else is read.",
            )
    return "\n".join(part.text or "" for part in message.content)


@dataclass(frozen=True)
class Completing:
    """One answer on its way to a client: `link` gives the address of a footnote's document."""

    model: str
    link: Link
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, answer: Answer) -> ChatCompletion:
        """The whole answer."""
        text = footnoted(answer)
        reply = Reply(content=text.content, annotations=self._annotations(text.notes))
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[Choice(message=reply)],
            usage=_usage(answer),
        )

    async def chunks(self, first: Event, events: Events, include_usage: bool) -> AsyncIterator[str]:
        """The same in pieces, as server-sent events; stages are comments, which keep the line busy."""
        unused = {"usage": None} if include_usage else {}
        about = {"id": self.id, "created": self.created, "model": self.model, **unused}
        async with contextlib.aclosing(events):
            try:
                yield _line(chunk(about, {"role": "assistant", "content": ""}))
                told = ""
                async for event in _with(first, events):
                    match event:
                        case str():
                            told += event
                            yield _line(chunk(about, {"content": event}))
                        case StageTrace():
                            yield f": {event.stage}\n\n"
                        case _:
                            for last in self._end(about, told, event, include_usage):
                                yield last
            except MragError as error:
                yield _line(_fault(*fault_of(error)))
            except Exception as error:  # noqa: BLE001 (the last word of a stream that has begun)
                _log.exception("A streamed completion broke off.")
                yield _line(_fault(500, broken(error)))

    def _end(self, about: dict[str, Any], told: str, answer: Answer, include_usage: bool) -> Sequence[str]:
        text = footnoted(answer)
        whole = text.content.startswith(told)
        rest = text.content[len(told) :] if whole else f"\n\n{text.content}"
        notes = [note.model_dump() for note in self._annotations(text.notes, 0 if whole else len(told) + 2)]
        end = [chunk(about, {"content": rest, "annotations": notes})] if rest or notes else []
        end.append(chunk(about, {}, finish_reason="stop"))
        if include_usage:
            end.append(chunk(about, None, usage=_usage(answer).model_dump()))
        return (*map(_line, end), "data: [DONE]\n\n")

    def _annotations(self, notes: Sequence[Footnote], shift: int = 0) -> list[Annotation]:
        return [
            Annotation(
                url_citation=UrlCitation(
                    start_index=note.start + shift,
                    end_index=note.end + shift,
                    title=note.title,
                    url=self.link(note),
                )
            )
            for note in notes
        ]


async def _with(first: Event, events: Events) -> AsyncIterator[Event]:
    yield first
    async for event in events:
        yield event


def _usage(answer: Answer) -> TokenUsage:
    used = sum((stage.usage for stage in answer.trace), Usage())
    return TokenUsage(
        prompt_tokens=used.prompt_tokens,
        completion_tokens=used.completion_tokens,
        total_tokens=used.tokens,
    )


def _fault(status: int, told: Fault) -> dict[str, Any]:
    return openai_error(status, told).model_dump()


def _line(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
