"""What the tests of marker extraction read off a request, and replies that a good model would give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mrag.models.language_model import Request


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


def record(*units: int, key: str = "", value: str = "") -> dict[str, Any]:
    """A record of the reply format; a valid key and value are made up where none is given."""
    named = " and ".join(map(str, units))
    return {
        "units": list(units),
        "key": key or f"What does paragraph {named} say?",
        "value": value or f"It says what stands in paragraph {named}.",
    }


def reply(*records: dict[str, Any]) -> str:
    """The records as a model replies them."""
    return json.dumps({"records": records})


def one_each(request: Request) -> str:
    """A valid record for each unit that was asked for."""
    return reply(*(record(number) for number in numbers_of(request)))
