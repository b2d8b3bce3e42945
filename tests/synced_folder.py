"""A folder of texts and the collection that is synced to it, with an encoder that needs no weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import Collection, ShardEntry, known_documents
from mrag.indexing import delete, run
from mrag.indexing.builders import make_builder
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.indexing.stages import encode_built
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Document, Hit, Leg, Query
from mrag.settings import Settings, parse_settings
from tests.hash_encoder import HashEncoder

ENCODER = HashEncoder()
ALMA, TOVE, PIER = "The ferry Alma is old.", "Tove is a ferry.\n\nShe is new.", "A stone pier of the harbour."
LINES_FILE = "l.jsonl"
LINES = [
    {"id": "a", "text": ALMA, "metadata": {"lang": "en", "date": "2024-01-05"}},
    {"id": "b", "text": TOVE, "metadata": {"lang": "en", "date": "2025-01-05"}},
    {"id": "c", "text": PIER, "metadata": {"lang": "de"}},
    {"id": "copy", "text": ALMA},
]


def without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process encode by `ENCODER` and count bytes, whatever their settings name."""
    for module in (run, delete):
        monkeypatch.setattr(module, "open_encoder", lambda _: ENCODER)
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())


def settings(place: Path, **tree: Any) -> Settings:
    return parse_settings({"method": "sane", "collection": {"root": place / "root", "shards": 2}, **tree})


def write(place: Path, texts: dict[str, str]) -> None:
    for old in (place / "in").iterdir():
        old.unlink()
    for name, text in texts.items():
        (place / "in" / f"{name}.txt").write_text(text)


def sync(place: Path, **tree: Any) -> Report:
    return asyncio.run(index_folder(settings(place, **tree), place / "in", sync=True))


def content(place: Path, root: Path | None = None) -> dict[str, Any]:
    """All that can be asked of a collection, without the names of its segments."""
    root = root or place / "root"
    collection = Collection.open(root, "default")
    try:
        found: dict[str, Any] = {"counts": collection.manifest.counts}
        for identifier in sorted(known_documents(root, "default")):
            found[identifier] = (
                collection.document(identifier),
                collection.units(identifier),
                collection.records(identifier),
            )
        for text in ("ferry harbour", "Alma", "stone pier of the harbour"):
            vector = ENCODER.encode([text], "query")[0]
            found[text] = shown(collection.search(Query(text, depth=9, vector=vector)))
        return found
    finally:
        collection.close()


def shown(hits: Mapping[Leg, Sequence[Hit]]) -> dict[str, list[tuple[str, str]]]:
    """Scores and records, equal to rounding, ties too: a score of Lucene's is a sum of floats."""
    return {leg: sorted((f"{hit.score:.4g}", hit.record_id) for hit in found) for leg, found in hits.items()}


def entry_of(document: Document, given: Settings) -> ShardEntry:
    """The document as it is searched, made without a collection."""
    built = asyncio.run(make_builder(given, ByteTokenizer()).build(document))
    return encode_built(built, ENCODER, given)


def write_lines(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A folder that holds these rows in one file of JSON lines, and nothing else of that name."""
    folder.mkdir(exist_ok=True)
    (folder / LINES_FILE).write_text("\n".join(map(json.dumps, rows)))
    return folder


def read_line(row: Mapping[str, Any]) -> Document:
    """The document that is read from such a file."""
    metadata = {"path": LINES_FILE, "format": "jsonl", **row["metadata"]}
    return Document(row["id"], row["text"], row["title"], metadata)
