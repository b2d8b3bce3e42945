"""What a reply says: without the monologue and the fence around it, and the JSON objects that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MOST_BROKEN = 500
_BRACE = re.compile("[{}]")
_DECODER = json.JSONDecoder(strict=False)
_FENCE = re.compile(r"^```(?:\w*\s*\n|json\b)?|(?<!\s)\s*```$")
_OPEN, _CLOSE = (rf"(?:<{slash}(?:\w+:)?think(?:ing)?>|\[{slash}THINK\])" for slash in ("", "/"))
_MONOLOGUE = re.compile(rf"{_OPEN}.*?(?:{_CLOSE}|\Z)", re.DOTALL)
_BEGUN_BY_THE_TEMPLATE = re.compile(rf"\A.*{_CLOSE}", re.DOTALL)


def answer_of(reply: str) -> str:
    """The reply without a thinking model's monologue and without the code fence around it.

    A monologue may have been opened in the prompt. One that is not closed leaves nothing: the model was
    cut before it answered. In a reply that is JSON as a whole a `<think>` is a word like any other.
    """
    whole = _unfenced(reply)
    return whole if _is_json(whole) else _unfenced(_BEGUN_BY_THE_TEMPLATE.sub("", _MONOLOGUE.sub("", whole)))


def _unfenced(text: str) -> str:
    return _FENCE.sub("", text.strip()).strip()


def _is_json(text: str) -> bool:
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def objects(answer: str) -> Iterator[dict[str, Any] | str]:
    """The JSON objects of an answer in order, whatever stands around them.

    One that is broken or cut comes as its text, up to its end or to the next object, which may be one
    that it holds. After `MOST_BROKEN` of them nothing more is read: such a reply is noise, and reading on
    would take the square of its length.
    """
    at, broken = answer.find("{"), 0
    while at >= 0 and broken < MOST_BROKEN:
        value, end = _object_at(answer, at)
        broken += isinstance(value, str)
        yield value
        at = answer.find("{", end)


def _object_at(answer: str, at: int) -> tuple[dict[str, Any] | str, int]:
    """The object that begins at `at`, and where it ends; a broken one ends where the next one begins."""
    try:
        value, end = _DECODER.raw_decode(answer, at)
    except (ValueError, RecursionError):
        brace = _BRACE.search(answer, at + 1)
        end = len(answer) if brace is None else brace.end() if brace[0] == "}" else brace.start()
        value = answer[at:end]
    return value, end
