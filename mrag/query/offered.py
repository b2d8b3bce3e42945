"""Collections and readers by one name, for callers that choose among models: `handbook:sane`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mrag.collection import Overview
from mrag.settings import Settings

READERS = ("sane", "plain")


@dataclass(frozen=True)
class Offer:
    """One reader over one collection. Every reader fits every collection."""

    collection: str
    reader: str

    @property
    def id(self) -> str:
        """Its name; no name of a collection has a colon."""
        return f"{self.collection}:{self.reader}"


def offers(collections: Iterable[Overview]) -> tuple[Offer, ...]:
    """All there are, in the order of the collections."""
    return tuple(Offer(collection.name, reader) for collection in collections for reader in READERS)


def offer_of(name: str, settings: Settings) -> Offer | None:
    """What a name stands for; None for what can be no offer.

    A reader alone stands for the configured collection, any other name for a collection with the
    configured reader.
    """
    collection, colon, reader = name.rpartition(":")
    if not colon and name in READERS:
        collection, reader = settings.collection.name, name
    elif not colon:
        collection, reader = name, settings.method.reader.name
    return Offer(collection, reader) if collection and reader in READERS else None


def searched_in(collection: Overview, settings: Settings) -> dict[str, Any]:
    """Options for `question_for`: the configured retrieval, or of keys where nothing else can be searched."""
    retrieval = settings.method.retrieval.name if collection.searched == "keys+units" else "keys"
    return {"collection": collection.name, "retrieval": retrieval}
