"""Ten thousand documents: indexed, appended to, deleted by filter, compacted; and a search of all of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import Collection, ShardEntry, existing_manifest
from mrag.collection.filter_forms import parse_filter
from mrag.schema import Query
from mrag.settings import parse_settings
from tests.exact_reference import REFERENCES, assert_exact
from tests.synced_folder import ENCODER, entry_of, read_line, without_weights, write_lines

DOCUMENTS, COPIES, APPENDED = 10_000, 100, 500
WORDS = [
    f"{start}{end}" for start in ("ferr", "harb", "copp", "winte", "sign") for end in map(str, range(60))
]
QUERIES = ("ferr1 harb2 copp3", "winte9 winte9 sign59 ferr0")
FILTERS: Sequence[Mapping[str, Any]] = ({}, {"bucket": 7}, {"number": {"gte": 5000}, "lang": "de"})
METHOD = {"builder": {"name": "units"}, "retrieval": {"name": "keys"}, "reader": {"name": "sane"}}
Row = Mapping[str, Any]


def row(number: int, chance: random.Random) -> Row:
    """A document of one to three units; one in a thousand is in the same bucket."""
    units = [" ".join(chance.choices(WORDS, k=chance.randint(3, 12))) for _ in range(chance.randint(1, 3))]
    metadata = {"number": number, "bucket": number % 1000, "lang": ("en", "de", "fi")[number % 3]}
    return {"id": f"d{number:05d}", "text": "\n\n".join(units), "title": f"N {number}", "metadata": metadata}


def copy(number: int, of: Row) -> Row:
    return {**row(number, random.Random(number)), "text": of["text"]}


def passes(document: Row, filter_: Mapping[str, Any]) -> bool:
    tree = document["metadata"]
    return (
        tree["bucket"] == filter_.get("bucket", tree["bucket"])
        and tree["lang"] == filter_.get("lang", tree["lang"])
        and tree["number"] >= filter_.get("number", {"gte": 0})["gte"]
    )


class Library:
    """The collection by its commands, and what should be in it: rows by id."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.root = place / "root"
        self.rows: dict[str, Row] = {}
        self._config = place / "config.yaml"
        self.tree = {"method": METHOD, "collection": {"root": str(self.root), "shards": 2}}
        self._config.write_text(json.dumps(self.tree))
        self._entries: dict[str, ShardEntry] = {}

    def call(self, *arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli.app, [*arguments, "--config", str(self._config)])
        assert done.exit_code == 0, done.output
        told: dict[str, Any] = json.loads(done.stdout) if "--json" in arguments else {}
        return told

    def index(self, name: str, rows: Sequence[Row]) -> Mapping[str, int]:
        report = self.call("index", str(write_lines(self.place / name, rows)), "--json")
        self.rows |= {one["id"]: one for one in rows}
        assert report["inputs"] == len(rows)
        counts: Mapping[str, int] = report["counts"]
        return counts

    def live(self) -> Iterator[tuple[Row, ShardEntry]]:
        """One row for each text, the first; its entry is made once."""
        seen: set[str] = set()
        for one in self.rows.values():
            if one["text"] in seen:
                continue
            seen.add(one["text"])
            known = self._entries.get(one["id"])
            if known is None or known.built.document.text != one["text"]:
                known = entry_of(read_line(one), parse_settings(self.tree))
                self._entries[one["id"]] = known
            yield one, known

    def check(self) -> None:
        """Both legs are exact, with and without filters, one of which keeps a document in a thousand."""
        live = list(self.live())
        entries = [entry for _, entry in live]
        owner = {record.id: one for one, entry in live for record in entry.built.records}
        with closing(Collection.open(self.root, "default")) as collection:
            counts = collection.manifest.counts
            assert (counts.documents, counts.records) == (len(live), len(owner))
            for text in QUERIES:
                references = {leg: reference(entries, text) for leg, reference in REFERENCES.items()}
                vector = ENCODER.encode([text], "query")[0]
                for filter_ in FILTERS:
                    query = Query(text, 20, vector=vector, filter=parse_filter(filter_) if filter_ else ())
                    for leg, hits in collection.search(query).items():
                        admitted = {
                            record: scores
                            for record, scores in references[leg].items()
                            if passes(owner[record], filter_)
                        }
                        assert_exact(hits, admitted, 20)


@pytest.mark.slow
def test_ten_thousand_documents_stay_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_weights(monkeypatch)
    chance, library = random.Random(0), Library(tmp_path)
    first = [row(number, chance) for number in range(DOCUMENTS - COPIES)]
    copies = [copy(DOCUMENTS - COPIES + at, first[at * 50]) for at in range(COPIES)]
    counts = library.index("first", [*first, *copies])
    assert (counts["indexed"], counts["duplicate"]) == (DOCUMENTS - COPIES, COPIES)
    library.check()

    changed = [{**row(number, chance)} for number in range(3, 3 + APPENDED // 2)]
    new = [row(DOCUMENTS + at, chance) for at in range(APPENDED // 2)]
    counts = library.index("more", [*changed, *new])
    assert counts["indexed"] == APPENDED
    library.check()

    told = library.call("delete", "--filter", "number<1000", "--json")
    gone = {name for name, one in library.rows.items() if one["metadata"]["number"] < 1000}
    assert set(told["deleted"]) == gone
    library.rows = {name: one for name, one in library.rows.items() if name not in gone}
    assert set(told["promoted"]) <= library.rows.keys()
    assert told["promoted"]
    library.check()

    before = existing_manifest(library.root, "default")
    assert before.dead_share > 0.1
    library.call("compact", "--set", "collection.shards=3")
    after = existing_manifest(library.root, "default")
    assert (after.counts, len(after.segments), len(after.segments[0].shards)) == (before.counts, 1, 3)
    assert after.dead_share == 0
    library.check()
