"""Any history of a collection ends where a dictionary of its documents and a search of all of them do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mrag.collection import (
    Collection,
    ShardEntry,
    content_hash,
    duplicates,
    known_documents,
    read_manifest,
    restore,
)
from mrag.collection.filter_forms import parse_filter
from mrag.collection.manifest import generations
from mrag.errors import MragError
from mrag.indexing.compact import compact
from mrag.indexing.delete import delete_documents
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.models.encoder import Kind
from mrag.query.fuse import fuse
from mrag.query.opened import OpenCollections
from mrag.query.question import checked_question
from mrag.query.retrieve import Retriever
from mrag.schema import Document, Hit, Leg, Query, Status, Vectors
from mrag.settings import RetrievalSettings, Settings, parse_settings
from tests.disk_accesses import failing
from tests.exact_reference import REFERENCES, assert_best, assert_exact
from tests.synced_folder import ENCODER, entry_of, read_line, without_weights, write_lines

METHOD = {"builder": {"name": "units"}, "retrieval": {"name": "keys"}, "reader": {"name": "sane"}}
TEXTS = (
    "",
    "A ferry of the harbour.",
    "Copper river.\n\nThe river is copper, copper in winter.",
    "The castle by the river.\n\nA bridge.\n\nWinter at the harbour.",
    "Signal, engine and winter.\n\nFerry, ferry, ferry.",
    "An engine of copper " + "and another engine of the harbour " * 9,
    "Lantern.",
    "of the and",
)
QUERIES = ("the ferry at the harbour", "copper engine copper river", "castle winter lantern")
LANGUAGES = ("en", "de", "fi")
Passes = Callable[["Line"], bool]


class Line(NamedTuple):
    """A document, but for its id."""

    text: str
    title: str
    lang: str
    number: int


Lines = Mapping[str, Line]

FILTERS: Sequence[tuple[Mapping[str, Any], Passes]] = (
    ({}, lambda _: True),
    ({"lang": "en"}, lambda line: line.lang == "en"),
    ({"lang": ["de", "fi"], "number": {"lt": 2}}, lambda line: line.lang in ("de", "fi") and line.number < 2),
    ({"number": 9}, lambda line: line.number == 9),
)

lines = st.builds(
    Line,
    st.sampled_from(TEXTS),
    st.sampled_from(("", "The harbour")),
    st.sampled_from(LANGUAGES),
    st.integers(0, 3),
)
folders = st.dictionaries(st.sampled_from("abcdef"), lines, min_size=1, max_size=6)
names = st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3)
moments = st.none() | st.integers(1, 120)
"""Of a change: none is undisturbed, else it is the access to the disk from which on all fail."""


def row(name: str, line: Line) -> Mapping[str, Any]:
    metadata = {"lang": line.lang, "number": line.number}
    return {"id": name, "text": line.text, "title": line.title, "metadata": metadata}


def document(name: str, line: Line) -> Document:
    return read_line(row(name, line))


def settings_of(root: Path, shards: int = 2) -> Settings:
    return parse_settings({"method": METHOD, "collection": {"root": root, "shards": shards}})


@cache
def entry(name: str, line: Line) -> ShardEntry:
    return entry_of(document(name, line), settings_of(Path("nowhere")))


def write(folder: Path, given: Lines) -> Path:
    return write_lines(folder, [row(name, line) for name, line in given.items()])


def asked(text: str, depth: int, filter_: Mapping[str, Any]) -> Query:
    return Query(
        text,
        depth,
        vector=ENCODER.encode([text], "query")[0],
        filter=parse_filter(filter_) if filter_ else (),
    )


async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
    return ENCODER.encode(texts, kind)


def answers(collection: Collection) -> list[Mapping[Leg, tuple[Hit, ...]]]:
    return [collection.search(asked(text, 1000, filter_)) for text in QUERIES for filter_, _ in FILTERS]


# --------------------------------------------------------------------------- what holds after each step


def assert_names_all(root: Path, lines: Lines) -> None:
    """Each document lives as it was last given, or is the duplicate of one that does; no text lives twice."""
    known, copies = known_documents(root, "default"), duplicates(root, "default")
    assert not known.keys() & copies.keys()
    assert known.keys() | copies.keys() == lines.keys()
    assert known == {name: content_hash(document(name, lines[name])) for name in known}
    for copy, holder in copies.items():
        assert holder in known
        assert lines[copy].text == lines[holder].text
    texts = [lines[name].text for name in known]
    assert len(texts) == len(set(texts))


def assert_finds_all(collection: Collection, live: Lines) -> None:
    """Each leg finds the best of what lives and passes, with the scores of the whole, and k of them."""
    entries = [entry(name, line) for name, line in live.items()]
    owner = {record.id: name for name, one in zip(live, entries, strict=True) for record in one.built.records}
    for text in QUERIES:
        references = {leg: reference(entries, text) for leg, reference in REFERENCES.items()}
        for filter_, passes in FILTERS:
            for depth in (2, 1000):
                for leg, hits in collection.search(asked(text, depth, filter_)).items():
                    admitted = {
                        record: scores
                        for record, scores in references[leg].items()
                        if passes(live[owner[record]])
                    }
                    assert_exact(hits, admitted, depth)


def assert_fuses_all(root: Path, collection: Collection) -> None:
    """A hybrid question finds what its legs find, fused."""
    retriever = Retriever(OpenCollections(root, ENCODER.fingerprint), encode)
    for text in QUERIES:
        for filter_, _ in FILTERS:
            hits = collection.search(asked(text, 1000, filter_))
            best = {ranked.record_id: ranked.score for ranked in fuse(hits, RetrievalSettings())}
            question = checked_question(text, "default", {"name": "keys"}, filter_=filter_)
            pool = asyncio.run(retriever.retrieve(question, 3))
            found = [Hit(one.records[0].id, one.score) for one in pool.candidates]
            assert_best(found, best, 3)


def assert_rebuilt(collection: Collection, fresh: Collection, names: Sequence[str]) -> None:
    """A collection built anew of the same documents is the same."""
    assert collection.manifest.counts == fresh.manifest.counts
    for name in names:
        assert collection.document(name) == fresh.document(name)
        assert collection.units(name) == fresh.units(name)
        assert collection.records(name) == fresh.records(name)
    for one, other in zip(answers(collection), answers(fresh), strict=True):
        assert one["dense"] == other["dense"]
        scores, others = ({hit.record_id: hit.score for hit in hits["sparse"]} for hits in (one, other))
        assert scores == pytest.approx(others, rel=1e-6)  # What is equal but for rounding has no order.


# --------------------------------------------------------------------------- the history


class AnyHistory(RuleBasedStateMachine):
    """The dictionary is `self.lines`; of each generation that was in force there is one in `self.past`."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        without_weights(self.patch)
        self.place = Path(mkdtemp())
        self.root = self.place / "root"
        self.shards = 2
        self.lines: Lines = {}
        self.past: dict[int, Lines] = {}
        self.held: list[tuple[Collection, list[Mapping[Leg, tuple[Hit, ...]]]]] = []

    @property
    def generation(self) -> int:
        manifest = read_manifest(self.root, "default")
        return manifest.generation if manifest else 0

    @property
    def settings(self) -> Settings:
        return settings_of(self.root, self.shards)

    def change(self, work: Callable[[], Any], after: Lines, moment: int | None) -> Any:
        """Makes the change, or begins it on a disk that fails: then it was made or it was not."""
        before, done = self.generation, None
        if moment is None:
            done = work()
        else:
            with failing(self.root, moment), suppress(MragError, OSError):
                work()
        if moment is None or self.generation > before:
            self.lines = after
        self.past[self.generation] = self.lines
        return done

    def index(self, given: Lines, after: Lines, sync: bool, moment: int | None) -> None:
        folder = write(self.place / "in", given)
        made = self.change(lambda: asyncio.run(index_folder(self.settings, folder, sync=sync)), after, moment)
        if isinstance(made, Report):
            known = known_documents(self.root, "default")
            assert made.inputs == len(given)
            assert made.counts[Status.INDEXED] + made.counts[Status.UNCHANGED] == len(given.keys() & known)
            assert {outcome.id for outcome in made.named} == given.keys() - known.keys()

    # ------------------------------------------------------------------- changes

    @rule(given=folders, moment=moments)
    def append(self, given: Lines, moment: int | None) -> None:
        after = {name: line for name, line in {**self.lines, **given}.items() if line.text}
        self.index(given, after, False, moment)

    @rule(given=folders, moment=moments)
    def sync(self, given: Lines, moment: int | None) -> None:
        self.index(given, {name: line for name, line in given.items() if line.text}, True, moment)

    @precondition(lambda self: self.generation)
    @rule(names=names, purge=st.booleans(), moment=moments)
    def delete(self, names: set[str], purge: bool, moment: int | None) -> None:
        after = {name: line for name, line in self.lines.items() if name not in names}
        gone = names & self.lines.keys()
        made = self.change(lambda: delete_documents(self.settings, names, purge=purge), after, moment)
        if made:
            assert (set(made.deleted), set(made.unknown)) == (gone, names - gone)

    @precondition(lambda self: self.generation)
    @rule(chosen=st.sampled_from(FILTERS[1:]), moment=moments)
    def delete_by_filter(self, chosen: tuple[Mapping[str, Any], Passes], moment: int | None) -> None:
        filter_, passes = chosen
        after = {name: line for name, line in self.lines.items() if not passes(line)}
        self.change(lambda: delete_documents(self.settings, (), parse_filter(filter_)), after, moment)

    @precondition(lambda self: self.generation)
    @rule(shards=st.integers(1, 3), moment=moments)
    def compact(self, shards: int, moment: int | None) -> None:
        self.shards = shards
        self.change(lambda: compact(self.settings), self.lines, moment)

    @precondition(lambda self: self.generation)
    @rule(pick=st.integers(0, 99), moment=moments)
    def roll_back(self, pick: int, moment: int | None) -> None:
        there = [number for number in generations(self.root, "default") if number in self.past]
        chosen = there[pick % len(there)]
        self.change(lambda: restore(self.root, "default", chosen), self.past[chosen], moment)

    @precondition(lambda self: self.generation and len(self.held) < 2)
    @rule()
    def hold(self) -> None:
        """A reader keeps a generation, whatever comes of it."""
        opened = Collection.open(self.root, "default")
        self.held.append((opened, answers(opened)))

    # ------------------------------------------------------------------- what holds

    @precondition(lambda self: self.generation)
    @invariant()
    def is_the_dictionary(self) -> None:
        assert_names_all(self.root, self.lines)
        live = {name: self.lines[name] for name in known_documents(self.root, "default")}
        collection = Collection.open(self.root, "default")
        assert_finds_all(collection, live)
        assert_fuses_all(self.root, collection)
        collection.close()
        for opened, found in self.held:
            assert answers(opened) == found

    def teardown(self) -> None:
        try:
            if self.lines:
                self.rebuild()
        finally:
            for opened, _ in self.held:
                opened.close()
            self.patch.undo()
            shutil.rmtree(self.place)

    def rebuild(self) -> None:
        known = sorted(known_documents(self.root, "default"))
        given = {name: self.lines[name] for name in (*known, *sorted(self.lines.keys() - known))}
        folder, root = write(self.place / "all", given), self.place / "fresh"
        asyncio.run(index_folder(settings_of(root, 3), folder))
        opened = [Collection.open(where, "default") for where in (self.root, root)]
        assert_rebuilt(*opened, known)
        for collection in opened:
            collection.close()


def run(examples: int, steps: int) -> None:
    checks = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
    limits = profile(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=checks,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # Shrinking takes minutes.
    )
    run_state_machine_as_test(AnyHistory, settings=limits)


def test_any_history_ends_where_its_documents_built_anew_do() -> None:
    run(15, 12)


@pytest.mark.slow
def test_any_long_history_ends_where_its_documents_built_anew_do() -> None:
    run(80, 25)
