"""The form of a shard's payload: three Arrow schemas, and texts and offsets as UTF-8 has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

SURROGATES = re.compile("[\ud800-\udfff]")

HEADING = pa.struct(
    [("start", pa.int64()), ("end", pa.int64()), ("level", pa.int32()), ("text", pa.string())]
)
COUNTED = ("units", "records", "keys", "worded_keys", "words", "worded_units", "unit_words")
USED = ("calls", "prompt_tokens", "completion_tokens")
SCHEMAS = {
    "documents": pa.schema(
        [
            ("id", pa.string()),
            ("id_hash", pa.uint64()),
            ("content_hash", pa.string()),
            ("title", pa.string()),
            ("metadata", pa.string()),
            ("text", pa.large_string()),
            ("headings", pa.list_(HEADING)),
            ("pages", pa.list_(pa.int64())),
            *((name, pa.int64()) for name in (*COUNTED, *USED)),
            ("rejected", pa.map_(pa.string(), pa.int64())),
        ]
    ),
    "units": pa.schema(
        [
            ("document", pa.string()),
            ("number", pa.int32()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("start_byte", pa.int64()),
            ("end_byte", pa.int64()),
            ("section", pa.list_(pa.string())),
            ("page", pa.int32()),
        ]
    ),
    "records": pa.schema(
        [
            ("id", pa.string()),
            ("id_hash", pa.uint64()),
            ("document", pa.string()),
            ("keys", pa.list_(pa.string())),
            ("value", pa.string()),
            ("pointers", pa.list_(pa.int32())),
            ("kind", pa.string()),
        ]
    ),
}


def storable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which UTF-8 does not have; the length stays."""
    return SURROGATES.sub("\ufffd", text)


def byte_offsets(text: str, offsets: Iterable[int]) -> dict[int, int]:
    """For each offset in characters the one in UTF-8 bytes, in one pass over the text."""
    found, character, byte = {}, 0, 0
    for offset in sorted(set(offsets)):
        byte += len(text[character:offset].encode())
        character = offset
        found[offset] = byte
    return found
