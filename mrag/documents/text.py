"""Plain text files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrag.documents.decoding import decode
from mrag.documents.reading import read_file
from mrag.documents.titles import readable
from mrag.schema import Document

SUFFIXES = (".txt",)


def load(path: Path, name: str) -> Iterator[Document]:
    """One document a file, titled by the file's name. Raises OSError and DocumentError."""
    yield Document(
        id=name,
        text=decode(read_file(path)),
        title=readable(name),
        metadata={"path": name, "format": "text"},
    )
