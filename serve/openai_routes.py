"""`/v1/chat/completions` and `/v1/models`, for the clients and chat front ends that speak OpenAI's API."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from mrag.errors import InputError, NotFoundError
from mrag.query.footnotes import Footnote
from mrag.query.offered import Offer, offer_of, offers
from mrag.settings import Settings
from serve.access import Guard, Visitor
from serve.desk import Desk
from serve.events import event_stream, streamed
from serve.faults import OpenAIErrorBody
from serve.handlers import BODY, MODEL, documented
from serve.openai_chat import Completing, asked_in
from serve.openai_values import IGNORED, ChatBody, ChatCompletion, Model, Models

_STREAMED = streamed("The answer; with `stream`, chunks of it, and last `[DONE]`.")


def openai_routes(desk: Desk, guard: Guard, settings: Settings) -> APIRouter:
    """Each reader over each collection is a model."""
    v1 = APIRouter(prefix="/v1", tags=["openai"])
    reader = Depends(guard.needs("read"))
    errors = partial(documented, model=OpenAIErrorBody)

    @v1.post(
        "/chat/completions",
        summary="Answer the last message",
        description=IGNORED,
        response_model=ChatCompletion,
        responses={**errors(), **_STREAMED},
    )
    async def completions(
        body: ChatBody, request: Request, visitor: Visitor = reader
    ) -> ChatCompletion | StreamingResponse:
        offer, options = await _chosen(desk, visitor, body.model, settings)
        question, turns = asked_in(body)
        options |= {"reader": offer.reader, "turns": turns}
        reply = Completing(body.model, partial(_link, settings, request, offer.collection))
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            chunks = partial(reply.chunks, include_usage=usage)
            return await event_stream(desk.answer_stream(visitor, question, **options), chunks)
        return reply.completion(await desk.answer(visitor, question, **options))

    @v1.get("/models", summary="Collections and readers", responses=errors(*BODY, *MODEL, 400, 404, 422))
    async def models(visitor: Visitor = reader) -> Models:
        found = offers(await desk.collections(visitor))
        return Models(data=[Model(id=offer.id) for offer in found])

    @v1.get("/models/{model:path}", summary="One of them", responses=errors(*BODY, *MODEL))
    async def one_model(model: str, visitor: Visitor = reader) -> Model:
        await _chosen(desk, visitor, model, settings)
        return Model(id=model)

    return v1


async def _chosen(
    desk: Desk, visitor: Visitor, name: str, settings: Settings
) -> tuple[Offer, dict[str, Any]]:
    """What a model's name stands for, and what fits it. Raises NotFoundError (field `model`)."""
    offer = offer_of(name, settings)
    try:
        if offer:
            return offer, await desk.fitting(visitor, offer.collection)
    except InputError:
        pass  # no such collection, or none that the visitor may see
    raise NotFoundError(
        "model", f"There is no model {name!r:.80}: GET /v1/models lists those that there are."
    )


def _link(settings: Settings, request: Request, collection: str, note: Footnote) -> str:
    """The page, opened at what is cited: a browser can show it, and asks for a token where one is needed."""
    base = settings.serve.public_url or str(request.base_url)
    place = {
        "document": note.source.document_id,
        "collection": collection,
        "units": ",".join(map(str, note.source.units)),
        "quote": note.quote,
    }
    return f"{base.rstrip('/')}/#{urlencode({name: told for name, told in place.items() if told})}"
