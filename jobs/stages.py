"""The stages of an indexing job as Ray Data sees them: thin holders of mrag's core objects.

Every stage gives back one row for each document it was given: what can't go on is an outcome.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs.cap import RemoteMeter
from jobs.progress import Done, built_one
from jobs.rows import Batch, Row, pack, unpack, unpack_column
from mrag.collection import content_hash, shard_of, write_segment_shard
from mrag.errors import MragError
from mrag.indexing.asking import Asker
from mrag.indexing.builders import make_builder
from mrag.indexing.cap import ToldMeter
from mrag.indexing.diff import input_of
from mrag.indexing.ledger import Ledger
from mrag.indexing.stages import build_one, encode_built, indexed, read_with_origins, unencoded
from mrag.models.language_model import LanguageModel
from mrag.models.opening import open_encoder, open_reviving_model
from mrag.models.tokens import load_tokenizer
from mrag.schema import Built, Document, Outcome
from mrag.settings import Settings

NO_SHARD = -1


class Survey:
    """First pass: what the diff needs to know of each input, never its text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, row: Row) -> Iterator[Row]:
        """One row for each input that a file holds: an `Input`, or the `Outcome` of what can't be read."""
        for origin, item in read_with_origins(self._folder, Path(os.fsdecode(row["path"]))):
            seen = item if isinstance(item, Outcome) else input_of(item, origin)
            yield {"seen": pack(seen)}


class Read:
    """Second pass: the documents that are to be indexed. `wanted` has the content hash of each by origin."""

    def __init__(self, folder: Path, wanted: Mapping[str, str]) -> None:
        self._folder = folder
        self._wanted = wanted

    def __call__(self, row: Row) -> Iterator[Row]:
        """One row for each wanted document; one that changed since the survey is left for the next run."""
        for origin, item in read_with_origins(self._folder, Path(os.fsdecode(row["path"]))):
            if isinstance(item, Document) and self._wanted.get(origin) == content_hash(item):
                yield {"document": pack(item)}


class Extract:
    """Builds records, one engine an actor; batches run beside each other in its event loop."""

    def __init__(self, settings: Settings, counter: Any, cap: Any = None) -> None:
        self._counter = counter
        self._meter = ToldMeter(self._replied, RemoteMeter(cap) if cap else None)
        self._ledger = Ledger.of(settings.collection)
        self._settings = settings
        self._builder = make_builder(settings, load_tokenizer(settings.encoder.model))
        self._opening: asyncio.Task[LanguageModel] | None = None

    async def __call__(self, batch: Batch) -> AsyncIterator[Batch]:
        """One row a document, in the order given."""
        model = await self._model() if self._builder.needs_model else None
        for document in unpack_column(batch, "document"):
            asker = Asker(model, self._ledger.entries(document.id), self._meter) if model else None
            built = await build_one(self._builder, document, asker)
            self._counter.add.remote(built_one(built))
            yield {"built": [pack(built)]}

    def _replied(self, tokens: int) -> None:
        self._counter.add.remote(Done(calls=1, tokens=tokens))

    async def _model(self) -> LanguageModel:
        """The engine, opened by the first batch and shared by those that run beside it."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(open_reviving_model(self._settings.indexing_model))
        return await asyncio.shield(self._opening)


class Encode:
    """Embeds keys, and says in which shard a document goes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._encoder = open_encoder(settings.encoder)

    def __call__(self, batch: Batch) -> Batch:
        """One row a document, in the order given; a document that failed is in no shard."""
        rows: dict[str, list[Any]] = {"outcome": [], "entry": [], "shard": []}
        for built in unpack_column(batch, "built"):
            outcome, entry, shard = self._encoded(built)
            rows["outcome"].append(pack(outcome))
            rows["entry"].append(entry)
            rows["shard"].append(shard)
        return rows

    def _encoded(self, built: Built | Outcome) -> tuple[Outcome, bytes, int]:
        if isinstance(built, Outcome):
            return built, b"", NO_SHARD
        try:
            entry = encode_built(built, self._encoder, self._settings)
        except MragError as error:
            return unencoded(built, error), b"", NO_SHARD
        return indexed(built), pack(entry), shard_of(built.document.id, self._settings.collection.shards)


def write_group(group: Batch, settings: Settings, segment: str) -> Batch:
    """Writes one shard of the run's segment; one row: the shard's number and what was written."""
    shard = int(group["shard"][0])
    place = settings.collection
    entries = (unpack(data) for data in group["entry"] if data)
    info = write_segment_shard(
        place.root, place.name, segment, shard, entries, settings.dense, settings.sparse
    )
    return {"shard": [shard], "info": [pack(info)]}
