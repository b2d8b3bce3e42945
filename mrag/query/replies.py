"""What can be saved of a reply that should have been JSON."""

from __future__ import annotations

import json
import re
from typing import Any

_DECODER = json.JSONDecoder(strict=False)
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_FENCE = re.compile(r"^```\w*\s*|\s*```$")


def unfenced(reply: str) -> str:
    """The reply without a thinking model's monologue and without the code fence around it."""
    return _FENCE.sub("", _THOUGHT.sub("", reply).strip()).strip()


def objects(reply: str) -> list[dict[str, Any]]:
    """The JSON objects of a reply in order; of one that is broken or cut, the whole ones inside it."""
    found: list[dict[str, Any]] = []
    at = reply.find("{")
    while at >= 0:
        try:
            value, at = _DECODER.raw_decode(reply, at)
            found.append(value)
        except (ValueError, RecursionError):
            at += 1
        at = reply.find("{", at)
    return found


def scalar(value: Any) -> str:
    """A JSON value as the text of a cell; empty for null and for anything nested."""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return str(value).lower() if isinstance(value, bool) else ""
    text = " ".join(str(value).split())
    return "" if text.casefold() in ("null", "none", "n/a") else text
