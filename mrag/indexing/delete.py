"""Taking documents out of a collection, by their ids or by what their metadata has."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mrag.collection import Collection, Manifest, existing_manifest, known_documents, lease, publish
from mrag.collection.filters import passing
from mrag.errors import InputError
from mrag.indexing.compact import compact_held, compact_if_due
from mrag.indexing.ledger import Ledger
from mrag.indexing.promotion import promotion
from mrag.indexing.report import handed_on
from mrag.models.opening import open_encoder
from mrag.schema import DocumentInfo, Filter
from mrag.settings import Settings


@dataclass(frozen=True)
class Deletion:
    """What came of it. `unknown` are ids that the collection does not have.

    `promoted` are inputs that were not indexed because a deleted document held their text, and are now;
    `bared` are those that could not be (see Promotion): the next run over their folder indexes them.
    `compaction` says what came of one that `collection.compaction` asked for.
    """

    deleted: tuple[str, ...]
    unknown: tuple[str, ...]
    promoted: tuple[str, ...]
    bared: tuple[str, ...]
    generation: int
    compaction: str = ""

    @property
    def exit_code(self) -> int:
        """1 where an id is unknown, else 0."""
        return 1 if self.unknown else 0

    def table(self) -> list[tuple[str, str]]:
        """Rows of a label and a value."""
        rows = [("deleted", identifier) for identifier in self.deleted]
        rows += [("unknown", identifier) for identifier in self.unknown]
        rows += handed_on(self.promoted, self.bared)
        rows += [("documents deleted", str(len(self.deleted))), ("generation", str(self.generation))]
        return rows + ([("compacted", self.compaction)] if self.compaction else [])

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def delete_documents(
    settings: Settings, ids: Iterable[str], filter_: Filter = (), purge: bool = False, wait_s: float = 0
) -> Deletion:
    """Deletes the named documents and those that pass the filter, with their replies in the ledger.

    What is no document but the duplicate of one is forgotten as such; another duplicate of a deleted
    document takes its place. `purge` compacts then. Raises
    NotFoundError (field `collection`), InputError (field `ids`) where nothing is named, and CollectionError,
    for a collection that another process still writes after `wait_s` too.
    """
    root, name = settings.collection.root, settings.collection.name
    existing_manifest(root, name)
    named = set(ids)
    if not named and not filter_:
        raise InputError("ids", "Name the documents to delete, by their ids or by a filter.")
    with lease(root, name, wait_s):
        deletion = _deleted(settings, named, filter_)
        if purge:
            return replace(deletion, generation=compact_held(settings).generation)
        if compaction := compact_if_due(settings):
            generation = existing_manifest(root, name).generation
            return replace(deletion, compaction=compaction, generation=generation)
    return deletion


def _deleted(settings: Settings, named: set[str], filter_: Filter) -> Deletion:
    root, name = settings.collection.root, settings.collection.name
    before, known = existing_manifest(root, name), known_documents(root, name)
    wanted = named | (_passing(settings, before, filter_) if filter_ else set())
    deleted = wanted & (known.keys() | before.copies.keys())
    encoder = open_encoder(settings.encoder.model_copy(update={"device": "cpu"}))
    heirs = promotion(settings, before, None, deleted, encoder)
    after = publish(root, name, before.stamp, heirs.segment, deleted, heirs.copies)
    # Also of what is unknown by now: a deletion that was killed may have left its replies.
    Ledger(root, name).forget(wanted)
    unknown = tuple(sorted(named - deleted))
    return Deletion(tuple(sorted(deleted)), unknown, heirs.promoted, heirs.bared, after.generation)


def _passing(settings: Settings, manifest: Manifest, filter_: Filter) -> set[str]:
    """Documents and duplicates that pass."""
    place, passes = settings.collection, passing(filter_)
    collection = Collection.open(place.root, place.name, verify=place.verify, legs=())
    try:
        found = set(collection.passing(filter_))
    finally:
        collection.close()
    copies = (DocumentInfo(name, copy.title, copy.metadata) for name, copy in manifest.copies.items())
    return found | {document.id for document in copies if passes(document)}


def read_ids(file: Path) -> list[str]:
    """An id a line; blank lines are none. Raises InputError (field `from`)."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError("from", f"{file} can't be read ({reason}): give a file with an id a line.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
