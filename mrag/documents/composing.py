"""A document's text put together block by block, so that its headings and pages know their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag.documents.decoding import plain
from mrag.errors import DocumentError
from mrag.schema import Document, Heading

MAX_CHARACTERS = 100_000_000
_BETWEEN = "\n\n"


class Composer:
    """Blocks in reading order, a blank line between two of them; a block without text is left out.

    Raises DocumentError when there is absurdly much text: small files can unfold to it.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._pages: list[int] = []
        self.headings: list[Heading] = []

    def page(self) -> None:
        """What follows stands on the next page."""
        self._pages.append(self._length)

    def block(self, text: str) -> None:
        """A paragraph, a list, a table: what source units are made of."""
        self._add(plain(text).strip())

    def heading(self, text: str, level: int) -> None:
        """A heading, on one line; level 1 is the highest."""
        line = " ".join(plain(text).split())
        if line:
            start = self._add(line)
            self.headings.append(Heading(start, start + len(line), level, line))

    def _add(self, text: str) -> int:
        """Where the text begins."""
        if not text:
            return self._length
        start = self._length + (len(_BETWEEN) if self._parts else 0)
        self._parts.append(text)
        self._length = start + len(text)
        if self._length > MAX_CHARACTERS:
            raise DocumentError(f"It has more than {MAX_CHARACTERS:,} letters; split it into several files.")
        return start

    def text(self) -> str:
        """All blocks so far."""
        return _BETWEEN.join(self._parts)

    def document(self, identifier: str, title: str, metadata: Mapping[str, Any]) -> Document:
        """The finished document."""
        return Document(identifier, self.text(), title, metadata, tuple(self.headings), tuple(self._pages))
