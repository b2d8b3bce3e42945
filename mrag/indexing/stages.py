"""The stages of a run, each on one document: `run` composes them in one process, a Ray job over many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrag.collection import ShardEntry
from mrag.documents.loaders import read_input
from mrag.errors import CapReachedError, MragError
from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder
from mrag.indexing.keys import KeyText, key_texts
from mrag.models.encoder import Encoder
from mrag.schema import Built, Document, Outcome, Status, Usage


def read_with_origins(folder: Path, path: Path) -> Iterator[tuple[str, Document | Outcome]]:
    """What one input file holds, each behind its origin: `path#number`, counted from 1 in the file."""
    name = path.relative_to(folder).as_posix()
    for number, item in enumerate(read_input(folder, path), start=1):
        yield f"{name}#{number}", item


async def build_one(builder: Builder, document: Document, asker: Asker | None) -> Built | Outcome:
    """What the builder makes of a document; else its failure, or that the cap left it for another run."""
    try:
        built = await builder.build(document, asker)
    except MragError as error:
        status = Status.PENDING if isinstance(error, CapReachedError) else Status.FAILED
        spent, reused = (asker.spent, asker.reused) if asker else (Usage(), Usage())
        return Outcome(document.id, status, str(error), usage=spent, reused=reused)
    if asker:
        await asker.finished()
    return built


def encode_built(built: Built, encoder: Encoder, key_text: KeyText) -> ShardEntry:
    """The document with the vectors of its keys. Raises ModelError and DocumentError."""
    texts = key_texts(built, key_text)
    vectors = encoder.encode([text for group in texts for text in group], "passage")
    entry = ShardEntry(built, texts, vectors)
    entry.check()
    return entry


def indexed(built: Built) -> Outcome:
    """The outcome of a document that goes into the collection."""
    return Outcome(
        built.document.id,
        Status.INDEXED,
        records=len(built.records),
        coverage=built.coverage,
        usage=built.usage,
        rejected=built.rejected,
        reused=built.reused,
    )
