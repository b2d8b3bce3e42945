"""Marker extraction (eq. 8): the call that turns one window into records, as a value.

The parts of the prompt are those of Table I; their text is `prompts/markers.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from mrag.indexing.form import Form
from mrag.indexing.tagging import Window, heading, tagged
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import filled, prompt_identity, prompt_tree, room
from mrag.models.tokens import Tokenizer
from mrag.schema import SourceUnit
from mrag.settings import ExtractionSettings, MarkerExample

PROMPT = "markers"

_TOKENS_OF_A_KEY = 60
_TOKENS_OF_A_REPLY = 64
_EXPECTED = {"value": 60, "key": 20, "braces": 20}  # tokens: Fig. 5, and JSON
_NUMBERS = ("no", "one", "two", "three")


class MarkerPrompt:
    """Requests to one model, zero-shot or with worked examples, their parts in one of Table V's orders.

    `tokenizer` measures the source for the expected number of markers: a model of unknown tokenizer counts
    bytes, which are an upper bound for windows and replies and several times the tokens.
    """

    def __init__(self, model: LanguageModel, settings: ExtractionSettings, tokenizer: Tokenizer) -> None:
        self.form = Form.of(settings)
        self._model = model
        self._tokenizer = tokenizer
        self._settings = settings
        self._tree = prompt_tree(PROMPT)
        self._parts: Mapping[str, str] = self._tree["records" if self.form.values else "questions"]
        self._before = (
            Message("system", self._instruction()),
            *(turn for example in _examples(settings) for turn in self._example(example)),
        )

    def request(self, window: Window, attempt: int = 0) -> Request:
        """Attempt 0 is decoded greedily; each later one with another seed and more variety."""
        tokens = sum(self._model.count_tokens(unit.text) for unit in window.units)
        count = self._count(window)
        keys = _TOKENS_OF_A_KEY * count * self.form.keys
        return Request(
            messages=(*self._before, self._asked(window, count)),
            max_tokens=_TOKENS_OF_A_REPLY + keys + (2 * tokens if self.form.values else 0),
            purpose="markers",
            schema=self.form.schema(window.numbers, count),
            temperature=min(0.3 * attempt, 0.9),
            seed=attempt,
        )

    def expected_tokens(self, window: Window) -> int:
        """Tokens of a reply with the expected markers, of the lengths that the paper reports."""
        keys = _EXPECTED["key"] * self.form.keys
        one = keys + _EXPECTED["value"] + _EXPECTED["braces"] if self.form.values else keys
        return self._count(window) * one

    def _count(self, window: Window) -> int:
        """The expected number of markers, at least one for each unit."""
        tokens = sum(self._tokenizer.count(unit.text) for unit in window.units)
        return max(len(window.units), round(tokens / self._settings.tokens_per_marker))

    def fits(self, window: Window) -> bool:
        """Whether prompt and reply fit the model's window together, and the reply its own limit."""
        request, most = self.request(window), self._settings.max_reply_tokens
        if most is not None and request.max_tokens > most:
            return False
        return room(self._model, request.messages, request.max_tokens) >= 0

    def _instruction(self) -> str:
        bounds = {"max_pointers": str(self.form.max_pointers), "keys": str(self.form.keys)}
        fields = [filled(self._tree["fields"][name], **bounds) for name in self.form.fields]
        values = {
            "number": _NUMBERS[len(fields)],
            "fields": "\n".join(fields),
            "form": ", ".join(self._tree["form"][name] for name in self.form.fields),
        }
        order = self._tree["orders"][self._settings.order]
        return "\n".join(filled(self._parts[part], **values) for part in order).strip()

    def _asked(self, window: Window, count: int) -> Message:
        content = filled(
            self._parts["request"],
            title=heading(window.title) or "(none)",
            paragraphs=tagged(window),
            numbers=", ".join(f"[{number}]" for number in window.numbers),
            count=str(count if self.form.values else count * self.form.keys),
        )
        return Message("user", content)

    def _example(self, example: MarkerExample) -> Iterator[Message]:
        """A call and its reply, or one for each unit that is asked for alone."""
        for units in [example.units] if self.form.pointers else [(unit,) for unit in example.units]:
            numbers = {unit for unit, _ in units}
            records = [record for record in example.records if numbers.issuperset(record.units)]
            window = Window(
                example.title,
                tuple(SourceUnit("", number, 0, 0, text, example.section) for number, text in units),
            )
            reply = self.form.reply(
                [self.form.record(record.units, record.value, record.keys) for record in records]
            )
            if records:
                yield self._asked(window, len(records))
                yield Message("assistant", json.dumps(reply, ensure_ascii=False))


def prompt_fingerprint(settings: ExtractionSettings) -> str:
    """A hash of what prompts are made of beside the document and the other settings."""
    examples = [example.model_dump(mode="json") for example in _examples(settings)]
    return prompt_identity(PROMPT, json.dumps(examples))


def _examples(settings: ExtractionSettings) -> Sequence[MarkerExample]:
    """Those of the settings; where they name none, the one of the prompt file."""
    if settings.examples is not None:
        return settings.examples
    return [MarkerExample.model_validate(example) for example in prompt_tree(PROMPT)["examples"]]
