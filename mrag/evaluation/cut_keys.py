"""A collection copied with the first keys of each record only, to see what the others are worth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from mrag.collection import Collection, Manifest, Stamp, known_documents, lease, publish, read_manifest
from mrag.errors import InputError
from mrag.indexing.stages import encode_built
from mrag.indexing.stamp import as_stamped
from mrag.indexing.writing import SegmentWriting
from mrag.models.opening import open_encoder
from mrag.schema import Built, Coverage, RecordKind
from mrag.settings import CollectionSettings, Settings


def documents(place: CollectionSettings) -> int:
    """How many documents there are to copy."""
    return len(known_documents(place.root, place.name))


async def cut_keys(settings: Settings, keys: int, name: str, progress: Callable[[], None]) -> Manifest:
    """Makes the collection `name` beside the one of the settings, with at most `keys` keys a record.

    Everything else is as there, whatever the settings say of it, but what its extraction had cost: nothing
    is asked here. `progress` is called after each document. Raises InputError (field `name`) for a collection
    that is there already, NotFoundError and CollectionError for the one to be copied.
    """
    place = settings.collection
    if read_manifest(place.root, name) is not None:
        raise InputError("name", f"There is a collection {name!r} already: give another name.")
    encoder = open_encoder(settings.encoder)
    fingerprint = await asyncio.to_thread(lambda: encoder.fingerprint)
    opened = Collection.open(
        place.root, place.name, verify=place.verify, encoder_fingerprint=fingerprint, legs=()
    )
    with closing(opened) as collection, lease(place.root, name):
        copied = as_stamped(settings, collection.manifest.stamp)
        copied = copied.model_copy(update={"collection": place.model_copy(update={"name": name})})
        async with SegmentWriting(copied) as writing:
            for document_id in sorted(known_documents(place.root, place.name)):
                built = _cut(collection, document_id, keys)
                await writing.add(await asyncio.to_thread(encode_built, built, encoder, copied))
                progress()
            segment = await writing.finish()
        manifest = collection.manifest
        return publish(place.root, name, _stamp(manifest.stamp, keys), segment, copies=manifest.copies)


def _stamp(stamp: Stamp, keys: int) -> Stamp:
    """Another builder's, so that no run appends to a copy."""
    settings = {**stamp.builder_settings, "first_keys": keys}
    return replace(stamp, builder=f"{stamp.builder}-first-{keys}", builder_settings=settings)


def _cut(collection: Collection, document_id: str, keys: int) -> Built:
    units = collection.units(document_id)
    records = collection.records(document_id)
    extracted = {
        number for record in records if record.kind != RecordKind.FALLBACK for number in record.pointers
    }
    return Built(
        collection.document(document_id),
        units,
        tuple(replace(record, keys=record.keys[:keys]) for record in records),
        Coverage(len(units), len(extracted), len(units) - len(extracted)),
    )
