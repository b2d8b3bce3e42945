"""Taking documents out of a collection, by their ids or by what their metadata has."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mrag.collection import Collection, duplicates, existing_manifest, known_documents, lease, publish
from mrag.errors import InputError
from mrag.indexing.compact import compact_held, compact_if_due
from mrag.indexing.ledger import Ledger
from mrag.schema import Filter
from mrag.settings import Settings


@dataclass(frozen=True)
class Deletion:
    """What came of it. `unknown` are ids that the collection does not have.

    `bared` are inputs that were not indexed because a deleted document held their text: the next run
    over their folder indexes them. `compaction` says what came of one that `collection.compaction` asked for.
    """

    deleted: tuple[str, ...]
    unknown: tuple[str, ...]
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
        rows += [("same text, not indexed", identifier) for identifier in self.bared]
        rows += [("documents deleted", str(len(self.deleted))), ("generation", str(self.generation))]
        return rows + ([("compacted", self.compaction)] if self.compaction else [])

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def delete_documents(
    settings: Settings, ids: Iterable[str], filter_: Filter = (), purge: bool = False, wait_s: float = 0
) -> Deletion:
    """Deletes the named documents and those that pass the filter, with their replies in the ledger.

    What is no document but the duplicate of one is forgotten as such. `purge` compacts then. Raises
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
    stamp = existing_manifest(root, name).stamp
    known, copies = known_documents(root, name), duplicates(root, name)
    passed = _passing(settings, filter_) if filter_ else set()
    deleted = (named | passed) & known.keys()
    forgotten = named & copies.keys()
    generation = publish(root, name, stamp, None, deleted | forgotten).generation
    # Also of what is unknown by now: a deletion that was killed may have left its replies.
    Ledger(root, name).forget(deleted | named)
    bared = {copy for copy, first in copies.items() if first in deleted} - forgotten
    unknown = named - deleted - forgotten
    return Deletion(
        tuple(sorted(deleted | forgotten)), tuple(sorted(unknown)), tuple(sorted(bared)), generation
    )


def _passing(settings: Settings, filter_: Filter) -> set[str]:
    place = settings.collection
    collection = Collection.open(place.root, place.name, verify=place.verify, legs=())
    try:
        return set(collection.passing(filter_))
    finally:
        collection.close()


def read_ids(file: Path) -> list[str]:
    """An id a line; blank lines are none. Raises InputError (field `from`)."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError("from", f"{file} can't be read ({reason}): give a file with an id a line.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
