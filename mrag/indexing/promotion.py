"""A document that goes hands its text on: an input that was its duplicate is indexed in its place.

The same generation takes the one out and has the other. Records are those that were made of the text, no
language model is asked for them; they get the heir's id, title and metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mrag.collection import (
    Copy,
    Manifest,
    SegmentInfo,
    ShardEntry,
    known_documents,
    new_segment_id,
    segment_documents,
    text_of,
    write_segment_shard,
)
from mrag.errors import CollectionError, MragError
from mrag.indexing.coverage import fallback, uncovered
from mrag.indexing.keys import key_texts, unit_texts
from mrag.indexing.records import Draft, records_of
from mrag.indexing.stages import encode_built
from mrag.indexing.stamp import as_stamped
from mrag.indexing.stored import StoredDocuments
from mrag.models.encoder import Encoder
from mrag.schema import Built, Document
from mrag.settings import Settings


@dataclass(frozen=True)
class Promotion:
    """What is to be published: `segment` is the run's own, and `promoted` are in it too.

    `copies` have another holder from now on. `bared` are inputs whose text nobody has any more: they differ
    from the document that had it in more than id, title and metadata, or it could not be read, or a title not
    be encoded. The next run indexes them.
    """

    segment: SegmentInfo | None
    copies: Mapping[str, Copy] = field(default_factory=dict)
    promoted: tuple[str, ...] = ()
    bared: tuple[str, ...] = ()


def promotion(
    settings: Settings,
    before: Manifest,
    segment: SegmentInfo | None,
    ended: Collection[str],
    encoder: Encoder,
    listed: Collection[str] = (),
) -> Promotion:
    """Who takes the place of what ends, by name or by the new `segment`, and writes it.

    `listed` are inputs of which the caller says himself whose copies they are. `encoder` is asked where a
    title is part of what is searched, and is another one. Call it under the lease, after reading `before`.
    """
    if not before.copies:
        return Promotion(segment)
    root, name = settings.collection.root, before.name
    written = segment_documents(root, name, before.stamp, segment) if segment else {}
    gone = {*ended, *written}
    orphans = [
        (identifier, copy)
        for identifier, copy in sorted(before.copies.items())
        if copy.holder in gone and identifier not in gone and identifier not in listed
    ]
    if not orphans:
        return Promotion(segment)
    known = known_documents(root, name)
    live = {identifier: held for identifier, held in known.items() if identifier not in gone}
    heirs = _Heirs(settings, before, encoder)
    found = _settled(orphans, known, {**live, **written}, heirs)
    if heirs.entries:
        segment = _written(as_stamped(settings, before.stamp), name, heirs.entries, segment)
    return replace(found, segment=segment)


def _settled(
    orphans: Iterable[tuple[str, Copy]], known: Mapping[str, str], after: Mapping[str, str], heirs: _Heirs
) -> Promotion:
    """Whose copy each of them is from now on, if it is no heir itself."""
    holders = {text_of(held): identifier for identifier, held in after.items()}
    by_text: dict[str, dict[str, Copy]] = defaultdict(dict)
    for identifier, copy in orphans:
        by_text[text_of(known.get(copy.holder, copy.hash))][identifier] = copy
    copies, promoted, bared = dict[str, Copy](), list[str](), list[str]()
    for text, same in by_text.items():
        holder = holders.get(text)
        if holder is None:
            holder = next((one for one, copy in same.items() if heirs.take(one, copy)), None)
            promoted += [holder] if holder else []
        if holder is None:
            bared += same
        else:
            copies |= {one: replace(copy, holder=holder) for one, copy in same.items() if one != holder}
    return Promotion(None, copies, tuple(promoted), tuple(bared))


class _Heirs:
    """The documents that are written in another's place."""

    def __init__(self, settings: Settings, before: Manifest, encoder: Encoder) -> None:
        self.entries: list[ShardEntry] = []
        self._settings = settings
        self._before = before
        self._stored = StoredDocuments(settings.collection.root, before)
        self._encoder = encoder

    def take(self, identifier: str, copy: Copy) -> bool:
        """Whether this input can take its holder's place: then it is among the entries."""
        try:
            entry = self._stored.entry(copy.holder)
            document = copy.document(identifier, entry.built.document) if entry else None
            if entry is None or document is None:
                return False
            self.entries.append(self._handed_on(entry, document))
        except MragError:  # No encoder for its title, or a damaged shard: neither may hold a deletion up.
            return False
        return True

    def _handed_on(self, entry: ShardEntry, document: Document) -> ShardEntry:
        built, stamp = _renamed(entry.built, document), self._before.stamp
        settings = as_stamped(self._settings, stamp)
        same = key_texts(built, settings.extraction.key_text) == entry.key_texts
        if same and (entry.units is None or unit_texts(built) == unit_texts(entry.built)):
            return replace(entry, built=built)
        if self._encoder.fingerprint != stamp.encoder:
            raise CollectionError(f"Collection {self._before.name!r} is encoded by {stamp.encoder!r}.")
        return encode_built(built, self._encoder, settings)


def _renamed(built: Built, document: Document) -> Built:
    """The same of another document; units, and records with the ids that a builder would give them.

    A record that names the title of the one that goes, which is not in the text, goes with it: units that
    have no other get fallback records.
    """
    units = tuple(replace(unit, document_id=document.id) for unit in built.units)
    drafts = [Draft(record.keys, record.value, record.pointers, record.kind) for record in built.records]
    title = built.document.title.casefold()
    if title not in f"{document.title}\n{document.text}".casefold():
        drafts = [draft for draft in drafts if not _names(draft, title)]
    gaps = uncovered(units, drafts)
    records = records_of(document, (*drafts, *map(fallback, gaps)))
    return replace(built, document=document, units=units, records=records)


def _names(draft: Draft, title: str) -> bool:
    return any(title in text.casefold() for text in (draft.value, *draft.keys))


def _written(
    settings: Settings, name: str, entries: Iterable[ShardEntry], segment: SegmentInfo | None
) -> SegmentInfo:
    """The segment with these documents, as a shard of their own."""
    shards = segment.shards if segment else ()
    identifier = segment.id if segment else new_segment_id()
    root, dense, sparse = settings.collection.root, settings.dense, settings.sparse
    info = write_segment_shard(root, name, identifier, len(shards), entries, dense, sparse)
    return SegmentInfo(identifier, (*shards, info))
