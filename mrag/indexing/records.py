"""Drafts become records: in document order, with ids that are the same in every run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from mrag.schema import Document, Record, RecordKind


@dataclass(frozen=True)
class Draft:
    """A record before it has an id."""

    keys: tuple[str, ...]
    value: str
    pointers: tuple[int, ...]
    kind: RecordKind = RecordKind.MARKER


def records_of(document: Document, drafts: Iterable[Draft]) -> tuple[Record, ...]:
    """A record for each draft, by the units they point to; drafts of one place keep their order."""
    ordered = sorted(drafts, key=lambda draft: draft.pointers)
    return tuple(_record(document, ordinal, draft) for ordinal, draft in enumerate(ordered))


def _record(document: Document, ordinal: int, draft: Draft) -> Record:
    content = [document.id, ordinal, draft.kind, draft.keys, draft.value, draft.pointers]
    digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()
    return Record(digest, document.id, draft.keys, draft.value, draft.pointers, draft.kind)
