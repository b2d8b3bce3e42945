"""Key indexing (M-RAG III-B): what is encoded and analysed for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mrag.indexing.tagging import heading, section_path
from mrag.schema import Built, Record

KeyText = Literal["key", "titled"]


def key_texts(built: Built, mode: KeyText) -> tuple[tuple[str, ...], ...]:
    """For each key of each record, in their order: the key alone, or under its title and section.

    Deviation: `titled` is not in the paper. Keys of small extractors lose some 20 points of recall
    without their document's context, on short passages (HotpotQA).
    """
    if mode == "key":
        return tuple(record.keys for record in built.records)
    return tuple(tuple(_titled(built, record, key) for key in record.keys) for record in built.records)


def _titled(built: Built, record: Record, key: str) -> str:
    title = built.document.title
    sections = [built.units[number - 1].section for number in record.pointers]
    parts = heading(title), section_path(title, _common(sections)), key
    return "\n".join(part for part in parts if part)


def _common(sections: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The headings that all of the units stand under."""
    levels = zip(*sections, strict=False)
    shared = []
    for level in levels:
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return tuple(shared)
