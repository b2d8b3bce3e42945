"""Marker extraction with scripted replies: what a request asked for, what a good model replies, one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mrag.indexing.asking import Asker
from mrag.indexing.build_markers import Markers
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Built, Document
from mrag.settings import DocumentSettings, ExtractionSettings


def numbers_of(request: Request) -> list[int]:
    """The unit numbers that the reply schema of a request allows."""
    [numbers] = _enums(request.schema)
    return numbers


def _enums(tree: Any) -> Iterator[list[int]]:
    if isinstance(tree, dict):
        if "enum" in tree:
            yield list(tree["enum"])
        for below in tree.values():
            yield from _enums(below)


def asked_for(requests: Sequence[Request]) -> list[list[int]]:
    """The unit numbers of each request, in order."""
    return [numbers_of(request) for request in requests]


def record(*units: int, key: str = "", value: str = "") -> dict[str, Any]:
    """A record of the reply format; where none is given, the value is one that any source grounds."""
    value = value or f"Whose {' and '.join(map(_little_words, units))}."
    return {"units": list(units), "key": key or f"What is {units}?", "value": value}


def _little_words(number: int) -> str:
    """Words that say nothing, others for each number."""
    return " ".join(_LITTLE[int(digit)] for digit in str(number))


_LITTLE = ("hers", "thus", "whom", "yet", "via", "upon", "neither", "onto", "nor", "ever")


def reply(*records: dict[str, Any]) -> str:
    """The records as a model replies them."""
    return json.dumps({"records": records})


def one_each(request: Request) -> str:
    """A valid record for each unit that was asked for."""
    return reply(*map(record, numbers_of(request)))


# --------------------------------------------------------------------------- one run


def document(*paragraphs: str, title: str = "Harbour notes") -> Document:
    """A source unit for each paragraph."""
    return Document("d", "\n\n".join(paragraphs), title)


def numbered(count: int) -> Document:
    """Units that say which they are: `Paragraph 2 says something.`"""
    return document(*(f"Paragraph {number} says something." for number in range(1, count + 1)))


def builder(**extraction: Any) -> Markers:
    """The builder under test, for units of up to 1000 bytes."""
    return Markers(
        ExtractionSettings(**extraction),
        ByteTokenizer(),
        DocumentSettings(max_unit_tokens=1000),
        {"model": "scripted"},
    )


async def build(
    given: Document, model: ScriptedModel | Callable[[Request], Any], **extraction: Any
) -> tuple[Built, list[Request]]:
    """What the builder makes of a document, and the requests that it made."""
    scripted = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
    return await builder(**extraction).build(given, Asker(scripted)), scripted.asked
