"""What a document's content is, so that a change is seen; and what is kept of one that was not indexed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mrag.schema import Document


def content_hash(document: Document) -> str:
    """`<of the text>-<of title, metadata, headings, pages>`: another one if anything that is stored is other.

    Duplicates are equal up to the dash: `text_of` has that part.
    """
    headings = [asdict(heading) for heading in document.headings]
    about = json.dumps([document.title, dict(document.metadata), headings, document.pages], sort_keys=True)
    return f"{_digest(document.text)}-{_digest(about)}"


def text_of(content_hash: str) -> str:
    """The part of a content hash that two documents of the same text share."""
    return content_hash.partition("-")[0]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Copy:
    """An input that was not indexed because `holder` has its text; and what of it is its own, JSON values.

    `hash` is its content hash, empty where nobody kept it.
    """

    holder: str
    hash: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, holder: str) -> Copy:
        """Of an input as it was read."""
        metadata = json.loads(json.dumps(dict(document.metadata)))
        return cls(holder, content_hash(document), document.title, metadata)

    def document(self, identifier: str, held: Document) -> Document | None:
        """The input again, by the document that has its text; None where they differ in more than this."""
        found = replace(held, id=identifier, title=self.title, metadata=self.metadata)
        return found if content_hash(found) == self.hash else None
