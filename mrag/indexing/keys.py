"""Key indexing (M-RAG III-B): what is encoded and analysed for each key, and beside them for each unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mrag.indexing.tagging import heading, section_path
from mrag.schema import Built, Record, RecordKind

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
    sections = [built.units[number - 1].section for number in record.pointers]
    return "\n".join((*_heading(built, _common(sections)), key))


def _heading(built: Built, section: Sequence[str]) -> tuple[str, ...]:
    """The lines for title and section, without what is empty."""
    title = built.document.title
    return tuple(line for line in (heading(title), section_path(title, section)) if line)


def _common(sections: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The headings that all of the units stand under."""
    levels = zip(*sections, strict=False)
    shared = []
    for level in levels:
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return tuple(shared)


def unit_texts(built: Built) -> tuple[str, ...]:
    """What is encoded of each source unit: its text, then its title and section.

    They come last, so that of a unit as long as the encoder reads they are cut, and not its own end.
    """
    return tuple("\n".join((unit.text, *_heading(built, unit.section))) for unit in built.units)


def expanded_units(built: Built) -> tuple[str, ...]:
    """What is analysed of each source unit: the same, and the keys of the markers that point to it.

    Fallback records, units and chunks have no keys of their own: theirs are the text again.
    """
    keys: list[dict[str, None]] = [{} for _ in built.units]
    for record in built.records:
        for number in record.pointers if record.kind is RecordKind.MARKER else ():
            keys[number - 1].update(dict.fromkeys(record.keys))
    texts = zip(unit_texts(built), keys, strict=True)
    return tuple("\n".join((text, *expansion)) for text, expansion in texts)
