"""An answer as server-sent events: each stage as it ends, the text in pieces, and last the whole answer."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from mrag.errors import MragError
from mrag.schema import Answer, StageTrace
from serve.faults import ErrorBody, Fault, broken, fault_of

_log = logging.getLogger(__name__)
MEDIA_TYPE = "text/event-stream"
# Neither kept by a cache nor held back by a proxy.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def streamed(description: str, *names: str) -> dict[int | str, dict[str, Any]]:
    """An answer that can be a stream of events, of these names where they have any, as OpenAPI has it."""
    about: dict[str, Any] = {"data": {"type": "string"}}
    if names:
        about["event"] = {"type": "string", "enum": list(names)}
    event = {"type": "object", "properties": about, "required": list(about)}
    return {200: {"description": description, "content": {MEDIA_TYPE: {"itemSchema": event}}}}


STREAMED = streamed(
    "The answer; with `stream`, events `stage`, `text`, and last `answer` or `error`; their data is JSON.",
    *("stage", "text", "answer", "error"),
)
_STAGE, _ANSWER = TypeAdapter(StageTrace), TypeAdapter(Answer)

Event = StageTrace | str | Answer
Events = AsyncGenerator[Event, None]


async def told(first: Event, events: Events) -> AsyncIterator[str]:
    """Each event by its name."""
    async with contextlib.aclosing(events):
        yield _event(first)
        try:
            async for event in events:
                yield _event(event)
        except MragError as error:
            yield _failed(fault_of(error)[1])
        except Exception as error:  # noqa: BLE001 (the last word of a stream that has begun)
            _log.exception("A streamed answer broke off.")
            yield _failed(broken(error))


async def event_stream(
    events: Events, write: Callable[[Event, Events], AsyncIterator[str]] = told
) -> StreamingResponse:
    """The response. What goes wrong before the first event is raised, and answered like any other error."""
    first = await anext(events)
    return StreamingResponse(write(first, events), media_type=MEDIA_TYPE, headers=HEADERS)


def _event(event: Event) -> str:
    match event:
        case str():
            return _line("text", json.dumps({"text": event}))
        case StageTrace():
            return _line("stage", _STAGE.dump_json(event).decode())
        case _:
            return _line("answer", _ANSWER.dump_json(event).decode())


def _failed(fault: Fault) -> str:
    return _line("error", ErrorBody(error=fault).model_dump_json())


def _line(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
