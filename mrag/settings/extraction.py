"""Documents become source units, and these become records (M-RAG III-B)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mrag.settings.strict import Strict


class DocumentSettings(Strict):
    """What becomes a source unit (M-RAG III-B): paragraphs or token-based segments.

    None is above `max_unit_tokens` of the encoder; segments are filled up to it, over paragraphs' ends.
    """

    unit: Literal["paragraph", "tokens"] = "paragraph"
    max_unit_tokens: int = Field(240, ge=16)


class ExampleRecord(Strict):
    """A record of a worked example: the numbers of its units, its value, and its keys, the best first."""

    units: tuple[int, ...] = Field(min_length=1)
    value: str
    keys: tuple[str, ...] = Field(min_length=1)


class MarkerExample(Strict):
    """A worked example of few-shot extraction: numbered units under one section, and their records."""

    title: str = ""
    section: tuple[str, ...] = ()
    units: tuple[tuple[int, str], ...] = Field(min_length=1)
    records: tuple[ExampleRecord, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _pointers_exist(self) -> MarkerExample:
        numbers = {number for number, _ in self.units}
        if not all(numbers.issuperset(record.units) for record in self.records):
            raise ValueError("its records must point to its units")
        return self


class ExtractionSettings(Strict):
    """M-RAG III-B. A window is what one call reads: whole units, at most `window_units` of them.

    `granularity` `unit` asks for one unit at a time, which small models need; its records point to it
    without being asked to, and their `value` may be the unit itself. `order` is that of Table V,
    `examples` are the few-shot ones: none given means the one that ships, an empty list zero-shot.
    `tokens_per_marker` gives the expected marker count (Table IV over LongBench: 80 to 100).
    `max_reply_tokens` is the most that one call may ask for, where the model's own limit is below its
    window: windows are halved until their replies fit.
    `coverage` is tau of eq. 9; the paper names neither it nor the number of `retries`.
    `retry` asks for the whole document again (the paper), or for its gaps.
    `key_text` is what is searched of a key: the key alone (the paper), or under its document's
    title and section (`titled`).
    """

    granularity: Literal["document", "unit"] = "document"
    value: Literal["rewrite", "unit"] = "rewrite"
    keys_per_record: int = Field(1, ge=1, le=10)
    order: Literal["A", "B", "C"] = "A"
    examples: tuple[MarkerExample, ...] | None = None
    window_units: int | None = Field(1, ge=1)
    max_pointers: int = Field(3, ge=1)
    tokens_per_marker: int = Field(90, ge=1)
    max_reply_tokens: int | None = Field(None, ge=256)
    coverage: float = Field(1.0, ge=0.0, le=1.0)
    retries: int = Field(2, ge=0)
    retry: Literal["gaps", "document"] = "gaps"
    key_text: Literal["key", "titled"] = "titled"

    @model_validator(mode="after")
    def _units_are_values_one_at_a_time(self) -> ExtractionSettings:
        if self.value == "unit" and self.granularity != "unit":
            raise ValueError("value unit needs granularity unit")
        return self
