"""What a reply holds: the fields of its records, as the prompt asks for them and the schema bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrag.models.reply_schemas import closed_object
from mrag.settings import ExtractionSettings

RECORDS, POINTERS, VALUE, KEY, KEYS = "records", "units", "value", "key", "keys"


@dataclass(frozen=True)
class Form:
    """The form of the replies to one extractor.

    Without `pointers` a call has one unit, to which all its records point. Without `values` the value is
    the unit itself, and the reply the list of its keys. `keys` is the number for each record, or marker.
    """

    pointers: bool = True
    values: bool = True
    keys: int = 1
    max_pointers: int = 3

    @classmethod
    def of(cls, settings: ExtractionSettings) -> Form:
        """The form that the settings ask for."""
        return cls(
            settings.granularity == "document",
            settings.value == "rewrite",
            settings.keys_per_record,
            settings.max_pointers,
        )

    @property
    def key_field(self) -> str:
        """The name of the field that holds the key, or the list of keys."""
        return KEY if self.values and self.keys == 1 else KEYS

    @property
    def fields(self) -> tuple[str, ...]:
        """In their order, which matters to small models: which unit, what it says, who asks for that."""
        wanted = {POINTERS: self.pointers, VALUE: self.values, self.key_field: True}
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    def record(self, pointers: Sequence[int], value: str, keys: Sequence[str]) -> Mapping[str, Any]:
        """A record as a reply has it."""
        key = keys[0] if self.key_field == KEY else list(keys[: self.keys])
        whole = {POINTERS: list(pointers), VALUE: value, self.key_field: key}
        return {name: whole[name] for name in self.fields}

    def reply(self, records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The reply that holds these records."""
        if self.values:
            return {RECORDS: records}
        return {KEYS: [key for record in records for key in record[KEYS]]}

    def schema(self, numbers: Sequence[int], count: int) -> Mapping[str, Any]:
        """The JSON schema of a reply with `count` markers: pointers are bounded, none leaves the window."""
        if not self.values:
            return closed_object({KEYS: _strings(self.keys * count)})
        pointers = {
            "type": "array",
            "items": {"type": "integer", "enum": list(numbers)},
            "minItems": 1,
            "maxItems": min(self.max_pointers, len(numbers)),
        }
        key = _STRING if self.key_field == KEY else _strings(self.keys)
        fields = {POINTERS: pointers, VALUE: _STRING, self.key_field: key}
        record = closed_object({name: fields[name] for name in self.fields})
        records = {"type": "array", "items": record, "minItems": count, "maxItems": 2 * count + 2}
        return closed_object({RECORDS: records})


_STRING = {"type": "string"}


def _strings(count: int) -> Mapping[str, Any]:
    return {"type": "array", "items": _STRING, "minItems": count, "maxItems": count}
