"""What a reply says: without the monologue and the fence around it, and the JSON objects that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_DECODER = json.JSONDecoder(strict=False)
_FENCE = re.compile(r"^```(?:\w*\s*\n|json\b)?|\s*```$")
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
    that it holds.
    """
    at = answer.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(answer, at)
        except (ValueError, RecursionError):
            end = _end_of_broken(answer, at)
            value = answer[at:end]
        yield value
        at = answer.find("{", end)


def _end_of_broken(answer: str, at: int) -> int:
    """Where the object at `at` ends, or the next one begins."""
    following, close = answer.find("{", at + 1), answer.find("}", at + 1)
    return min((end for end in (following, close + 1) if end > at), default=len(answer))
