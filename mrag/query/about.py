"""What a document is, beside its text: title, section and metadata, as prompts show and checks use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from mrag.models.prompt import shortened
from mrag.schema import DocumentInfo

PART_CHARACTERS = 120
ALL_CHARACTERS = 600
MOST_FIELDS = 12


def title_and_section(document: DocumentInfo, section: Sequence[str]) -> list[str]:
    """The title (or the id) and the headings above a unit, each once, inert and of bounded length."""
    parts = (document.title or document.id, *section)
    return list(dict.fromkeys(shortened(part, PART_CHARACTERS) for part in parts[:MOST_FIELDS]))


def metadata(document: DocumentInfo) -> Iterator[tuple[str, str]]:
    """Names and values of the metadata, inert and bounded; lists and objects are left out."""
    scalars = (
        (name, value) for name, value in document.metadata.items() if isinstance(value, str | int | float)
    )
    for name, value in islice(scalars, MOST_FIELDS):
        yield shortened(name, PART_CHARACTERS), shortened(str(value), PART_CHARACTERS)


def about(document: DocumentInfo, section: Sequence[str], between: str = "; ") -> str:
    """All of it on one line of at most `ALL_CHARACTERS`, `between` the title and the headings."""
    path = between.join(title_and_section(document, section))
    fields = (f"{name}: {value}" for name, value in metadata(document))
    return shortened("; ".join(dict.fromkeys((path, *fields))), ALL_CHARACTERS)
