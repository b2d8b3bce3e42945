"""The stages of a run, each on one document: `run` composes them in one process, a Ray job over many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mrag.collection import SearchedUnits, ShardEntry, content_hash
from mrag.documents.loaders import list_inputs, read_input
from mrag.errors import CapReachedError, CollectionError, MragError, foreseen
from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder
from mrag.indexing.diff import Input, input_of
from mrag.indexing.keys import expanded_units, key_texts, unit_texts
from mrag.models.encoder import Encoder
from mrag.schema import Built, Document, Outcome, Status, Usage
from mrag.settings import Settings


def read_with_origins(folder: Path, path: Path) -> Iterator[tuple[str, Document | Outcome]]:
    """What one input file holds, each behind its origin: `path#number`, counted from 1 in the file."""
    name = path.relative_to(folder).as_posix()
    for number, item in enumerate(read_input(folder, path), start=1):
        yield f"{name}#{number}", item


def scan(folder: Path) -> tuple[list[Input], list[Outcome]]:
    """Every document of the folder in a few words, and the inputs that hold none. Raises InputError."""
    inputs, unread = list[Input](), list[Outcome]()
    for path in list_inputs(folder):
        for origin, item in read_with_origins(folder, path):
            if isinstance(item, Document):
                inputs.append(input_of(item, origin))
            else:
                unread.append(item)
    return inputs, unread


def read_wanted(folder: Path, inputs: Iterable[Input]) -> Iterator[tuple[Input, Document]]:
    """The documents of `inputs`, read again, file by file: those that are still as they were."""
    wanted = {item.origin: item for item in inputs}
    for name in sorted({origin.rpartition("#")[0] for origin in wanted}):
        for origin, item in read_with_origins(folder, folder / name):
            found = wanted.get(origin)
            if found and isinstance(item, Document) and content_hash(item) == found.hash:
                yield found, item


async def build_one(builder: Builder, document: Document, asker: Asker | None) -> Built | Outcome:
    """What the builder makes of a document; else its failure, foreseen or not, or that the cap left it.

    Raises CollectionError where no reply can be kept: every other document would be paid for in vain.
    """
    try:
        with foreseen("Indexing it"):
            built = await builder.build(document, asker)
    except CollectionError:
        raise
    except MragError as error:
        status = Status.PENDING if isinstance(error, CapReachedError) else Status.FAILED
        spent, reused = (asker.spent, asker.reused) if asker else (Usage(), Usage())
        return Outcome(document.id, status, str(error), usage=spent, reused=reused)
    if asker:
        await asker.finished()
    return built


def encode_built(built: Built, encoder: Encoder, settings: Settings) -> ShardEntry:
    """The document with what is searched of it. Raises ModelError and DocumentError."""
    texts = key_texts(built, settings.extraction.key_text)
    vectors = encoder.encode([text for group in texts for text in group], "passage")
    units = None
    if settings.method.retrieval.name == "keys+units":
        units = SearchedUnits(expanded_units(built), encoder.encode(unit_texts(built), "passage"))
    entry = ShardEntry(built, texts, vectors, units)
    entry.check()
    return entry


def unencoded(built: Built, error: MragError) -> Outcome:
    """The outcome of a document that could not be encoded; what its records cost is counted all the same."""
    return Outcome(built.document.id, Status.FAILED, str(error), usage=built.usage, reused=built.reused)


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
        source_tokens=built.source_tokens,
    )
