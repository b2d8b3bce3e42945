"""A folder into a collection, in one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from mrag.collection import (
    Copy,
    Manifest,
    SegmentInfo,
    Stamp,
    check_stamp,
    duplicates,
    known_documents,
    lease,
    publish,
    read_manifest,
)
from mrag.documents.loaders import list_inputs
from mrag.errors import MragError
from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder
from mrag.indexing.builders import make_builder
from mrag.indexing.cap import Meter, TokenCap, ToldMeter
from mrag.indexing.compact import Write, compact_if_due
from mrag.indexing.concurrency import all_of
from mrag.indexing.diff import Diff, Input, diff, settled, synced
from mrag.indexing.ledger import Ledger
from mrag.indexing.plan import ANNOUNCED, Plan, counted_plan, plan_left
from mrag.indexing.promotion import promotion
from mrag.indexing.report import Published, Report, report
from mrag.indexing.stages import build_one, encode_built, indexed, read_wanted, scan, unencoded
from mrag.indexing.stamp import collection_stamp
from mrag.indexing.writing import SegmentWriting
from mrag.models.encoder import Encoder
from mrag.models.language_model import LanguageModel
from mrag.models.opening import open_encoder, open_reviving_model
from mrag.models.tokens import load_tokenizer
from mrag.schema import Document, Outcome, Status
from mrag.settings import Settings

_AT_ONCE_WITHOUT_MODEL = 4


@dataclass(frozen=True)
class Models:
    """What a run asks. `open_model` is called where a language model is needed, for `at_once` documents."""

    encoder: Encoder
    open_model: Callable[[], Awaitable[LanguageModel]]
    at_once: int


def own_models(settings: Settings) -> Models:
    """Those of the settings, loaded by this process."""
    model = settings.indexing_model
    return Models(open_encoder(settings.encoder), partial(open_reviving_model, model), model.max_concurrency)


class Progress(Protocol):
    """What wants to know how far a run is."""

    def planned(self, plan: Plan) -> None:
        """Called once, before the language model is asked anything."""

    def replied(self, calls: int, tokens: int) -> None:
        """Called after each reply of the language model, with the sums."""

    def done(self, documents: int, records: int) -> None:
        """Called after each document that had to be indexed, with the sums."""


async def index_folder(
    settings: Settings,
    folder: Path,
    progress: Progress | None = None,
    max_llm_tokens: int | None = None,
    sync: bool = False,
    wait_s: float = 0,
    models: Models | None = None,
) -> Report:
    """Indexes what is new or changed in `folder`, as one new generation, by its own models or others.

    What is gone from the folder stays, or is removed by the same generation (`sync`).
    `max_llm_tokens` is the cap of this run: documents that it leaves no room for end as `pending`.
    Whatever ends it early leaves the generation before, and in the ledger what was validated.
    Raises InputError for the folder, CollectionError where the settings are not those of the collection or
    another run still writes it after `wait_s`, ModelError where no model opens.
    """
    started = time.monotonic()
    root, name = settings.collection.root, settings.collection.name
    await asyncio.to_thread(list_inputs, folder)  # Refuses what is no folder before anything is written.
    with lease(root, name, wait_s):
        inputs, unread = await asyncio.to_thread(scan, folder)
        found = compared(settings, inputs, unread, sync)
        models = models or own_models(settings)
        builder = make_builder(settings, await asyncio.to_thread(load_tokenizer, settings.encoder.model))
        stamp = await asyncio.to_thread(collection_stamp, settings, builder, models.encoder)
        check_stamp(root, name, stamp)
        segment, built = None, list[Outcome]()
        if found.to_index:
            Ledger(root, name).hand_on(found.heirs)
            meter = None if max_llm_tokens is None else TokenCap(max_llm_tokens)
            indexing = _Indexing(settings, builder, models, progress, meter)
            segment, built = await indexing.run(folder, found.to_index)
        found = settled(found, built)
        done = published(settings, stamp, segment, found, folder, models.encoder)
        left = await plan_left(settings, folder, found.to_index, built, builder)
    outcomes = (*unread, *found.outcomes, *built)
    seconds = time.monotonic() - started
    return report(outcomes, seconds, done, found.removed, found.withheld, left)


def compared(settings: Settings, inputs: Sequence[Input], unread: Sequence[Outcome], sync: bool) -> Diff:
    """What has to be done to bring the collection up to date, or (`sync`) to the inputs and nothing else."""
    root, name = settings.collection.root, settings.collection.name
    known = known_documents(root, name)
    return synced(inputs, unread, known, duplicates(root, name)) if sync else diff(inputs, known)


def published(
    settings: Settings,
    stamp: Stamp,
    segment: SegmentInfo | None,
    found: Diff,
    folder: Path,
    encoder: Encoder,
    write: Write | None = None,
) -> Published:
    """Publishes what a run found and wrote, and compacts then if the settings ask for it (by `write`).

    `found` is the diff after `settled`, of inputs in `folder`. A run with nothing new makes no generation.
    `encoder` is asked where a duplicate takes the place of a document that goes.
    """
    root, name = settings.collection.root, settings.collection.name
    before = read_manifest(root, name) or Manifest(name, 0, stamp)
    known = known_documents(root, name) if found.ended else {}
    ended = [gone for gone in found.ended if gone in known or gone in before.copies]
    heirs = promotion(settings, before, segment, ended, encoder, found.duplicates)
    if heirs.segment or ended or found.duplicates:
        copies = {**heirs.copies, **copies_of(folder, found, before.copies)}
        publish(root, name, stamp, heirs.segment, ended, copies)
        Ledger(root, name).forget(ended)
    if found.inputs is not None:
        Ledger(root, name).keep_only(found.inputs | known_documents(root, name).keys())
    compaction = compact_if_due(settings, write)
    manifest = read_manifest(root, name)
    return Published(manifest.generation if manifest else 0, compaction, heirs.promoted, heirs.bared)


def copies_of(folder: Path, found: Diff, before: Mapping[str, Copy]) -> Mapping[str, Copy]:
    """What is kept of the duplicates; those that are not as they were `before` are read again for it.

    Of one that changed meanwhile no more is kept than who holds its text.
    """
    copies = {name: Copy(holder) for name, holder in found.duplicates.items()}
    copied = {item.id: item for item in found.copied if item.id in copies}
    for name in [name for name, item in copied.items() if name in before and before[name].hash == item.hash]:
        del copied[name]
        copies[name] = replace(before[name], holder=copies[name].holder)
    for item, document in read_wanted(folder, copied.values()):
        copies[item.id] = Copy.of(document, copies[item.id].holder)
    return copies


class _Wanted:
    """The documents to index, read a second time, so that no more than a few are held at once."""

    def __init__(self, folder: Path, inputs: Sequence[Input]) -> None:
        self.missing = {item.origin: item for item in inputs}
        self._read = read_wanted(folder, inputs)
        self._turn = asyncio.Lock()

    async def next(self) -> Document | None:
        """The next one; None at the end, when `missing` holds those that are not as they were any more."""
        async with self._turn:
            found = await asyncio.to_thread(next, self._read, None)
        if found is None:
            return None
        del self.missing[found[0].origin]
        return found[1]


class _Indexing:
    """Builds, encodes and writes documents, several at once in one model."""

    def __init__(
        self,
        settings: Settings,
        builder: Builder,
        models: Models,
        progress: Progress | None,
        meter: Meter | None,
    ) -> None:
        self._settings = settings
        self._builder = builder
        self._models = models
        self._progress = progress
        self._meter = ToldMeter(self._replied, meter)
        self._ledger = Ledger.of(settings.collection)
        self._outcomes: list[Outcome] = []
        self._records = self._calls = self._tokens = 0

    async def run(self, folder: Path, inputs: Sequence[Input]) -> tuple[SegmentInfo | None, list[Outcome]]:
        """The new segment, None where it would be empty, and the outcome of each document."""
        async with AsyncExitStack() as stack:
            if self._progress:
                # Before the engine takes its time to load.
                plan = await counted_plan(self._settings, folder, inputs, self._builder, ANNOUNCED)
                self._progress.planned(plan)
            model = None
            if self._builder.needs_model:
                model = await self._models.open_model()
                stack.push_async_callback(model.close)
            writing = await stack.enter_async_context(SegmentWriting(self._settings))
            documents = _Wanted(folder, inputs)
            await all_of(self._work(documents, model, writing) for _ in range(self._workers()))
            self._outcomes += [_changed(item) for item in documents.missing.values()]
            written = any(outcome.status is Status.INDEXED for outcome in self._outcomes)
            return await writing.finish() if written else None, self._outcomes

    def _workers(self) -> int:
        return self._models.at_once if self._builder.needs_model else _AT_ONCE_WITHOUT_MODEL

    async def _work(self, documents: _Wanted, model: LanguageModel | None, writing: SegmentWriting) -> None:
        while document := await documents.next():
            self._note(await self._index(document, model, writing))

    async def _index(
        self, document: Document, model: LanguageModel | None, writing: SegmentWriting
    ) -> Outcome:
        asker = Asker(model, self._ledger.entries(document.id), self._meter) if model else None
        built = await build_one(self._builder, document, asker)
        if isinstance(built, Outcome):
            return built
        try:
            entry = await asyncio.to_thread(encode_built, built, self._models.encoder, self._settings)
        except MragError as error:
            return unencoded(built, error)
        await writing.add(entry)
        return indexed(built)

    def _replied(self, tokens: int) -> None:
        self._calls += 1
        self._tokens += tokens
        if self._progress:
            self._progress.replied(self._calls, self._tokens)

    def _note(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._records += outcome.records
        if self._progress:
            self._progress.done(len(self._outcomes), self._records)


def _changed(item: Input) -> Outcome:
    return Outcome(item.id, Status.FAILED, f"{item.origin} changed while it was being indexed; run again.")
