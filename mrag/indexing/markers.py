"""Marker extraction (eq. 8): the call that turns one window into records, as a value.

The parts of the prompt are those of Table I; its text is `prompts/markers.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag.indexing.tagging import Window, heading, tagged
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import render, room

# The order of the fields matters to small models: which unit, then what it says, then who asks for that.
RECORDS, POINTERS, VALUE, KEY = "records", "units", "value", "key"

PROMPT = "markers"

_TOKENS_OF_A_KEY = 60
_TOKENS_OF_A_REPLY = 64
_TOKENS_OF_A_RECORD = 100  # Fig. 5: keys of 20, values of 50 to 65 tokens; the rest is JSON


class MarkerPrompt:
    """Requests to one model. `tokens_per_marker` gives the expected marker count (Table IV)."""

    def __init__(self, model: LanguageModel, max_pointers: int, tokens_per_marker: int) -> None:
        self._model = model
        self._max_pointers = max_pointers
        self._tokens_per_marker = tokens_per_marker

    def request(self, window: Window, attempt: int = 0) -> Request:
        """Attempt 0 is decoded greedily; each later one with another seed and more variety."""
        tokens = self._source_tokens(window)
        count = self._count(window, tokens)
        return Request(
            messages=self._messages(window, count),
            max_tokens=_TOKENS_OF_A_REPLY + _TOKENS_OF_A_KEY * count + 2 * tokens,
            purpose="markers",
            schema=reply_schema(window.numbers, count, self._max_pointers),
            temperature=min(0.3 * attempt, 0.9),
            seed=attempt,
        )

    def expected_tokens(self, window: Window) -> int:
        """Tokens of a reply with the expected markers, of the lengths that the paper reports."""
        return self._count(window, self._source_tokens(window)) * _TOKENS_OF_A_RECORD

    def _count(self, window: Window, source_tokens: int) -> int:
        """The expected number of markers, at least one for each unit."""
        return max(len(window.units), round(source_tokens / self._tokens_per_marker))

    def _source_tokens(self, window: Window) -> int:
        return sum(self._model.count_tokens(unit.text) for unit in window.units)

    def fits(self, window: Window) -> bool:
        """Whether prompt and reply fit the model's window together."""
        request = self.request(window)
        return room(self._model, request.messages, request.max_tokens) >= 0

    def _messages(self, window: Window, count: int) -> tuple[Message, ...]:
        return render(
            PROMPT,
            title=heading(window.title) or "(none)",
            paragraphs=tagged(window),
            numbers=", ".join(f"[{number}]" for number in window.numbers),
            count=str(count),
            max_pointers=str(self._max_pointers),
        )


def reply_schema(numbers: tuple[int, ...], count: int, max_pointers: int) -> Mapping[str, Any]:
    """The JSON schema of a reply: pointers are bounded, and none leaves the window."""
    pointers = {
        "type": "array",
        "items": {"type": "integer", "enum": list(numbers)},
        "minItems": 1,
        "maxItems": min(max_pointers, len(numbers)),
    }
    record = {
        "type": "object",
        "properties": {POINTERS: pointers, VALUE: {"type": "string"}, KEY: {"type": "string"}},
        "required": [POINTERS, VALUE, KEY],
        "additionalProperties": False,
    }
    records = {"type": "array", "items": record, "minItems": count, "maxItems": 2 * count + 2}
    return {
        "type": "object",
        "properties": {RECORDS: records},
        "required": [RECORDS],
        "additionalProperties": False,
    }
