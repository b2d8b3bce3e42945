"""Scenarios 14 and 17: what comes again is one, and what was deleted is nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import Collection, existing_manifest
from mrag.indexing.delete import delete_documents
from mrag.indexing.run import index_folder
from mrag.models.encoder import Kind
from mrag.query.opened import OpenCollections
from mrag.query.question import checked_question
from mrag.query.retrieve import Retriever
from mrag.schema import Query, Status, Vectors
from tests.marker_replies import record
from tests.synced_folder import ALMA, ENCODER, PIER, content, settings, write, write_lines

CANARY = "zyzzyva"
TEXT = f"The {CANARY} is a ferry of the harbour."
LINES: list[dict[str, Any]] = [
    {"id": "gone", "text": TEXT, "title": f"On the {CANARY}", "metadata": {"ship": CANARY}},
    {"id": "stays", "text": PIER, "title": "Piers", "metadata": {"ship": "none"}},
]


def test_a_file_that_is_appended_three_times_is_there_once(place: Path) -> None:
    write(place, {"a": ALMA, "b": PIER})
    for number in range(3):
        report = asyncio.run(index_folder(settings(place), place / "in"))
        assert report.counts[Status.UNCHANGED if number else Status.INDEXED] == 2
        assert (report.generation, report.records) == (1, 0 if number else 2)
    found = content(place)["Alma"]
    assert [len(hits) for hits in found.values()] == [2, 1]
    assert existing_manifest(place / "root", "default").counts.documents == 2


async def encode(texts: Any, kind: Kind) -> Vectors:
    return ENCODER.encode(texts, kind)


def files_with(place: Path) -> list[Path]:
    """Also as JSON and Arrow have it: these letters are spelled alike everywhere."""
    return [
        path for path in place.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes().lower()
    ]


@pytest.mark.parametrize("way", ["id", "sync", "change"])
def test_what_was_deleted_is_found_by_nothing_and_purged_is_nowhere(
    place: Path, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.DEBUG)
    script = place / "script.jsonl"
    rules = [{"contains": [CANARY], "reply": {"records": [record(1, value=f"The {CANARY} is a ferry.")]}}]
    script.write_text("\n".join(map(json.dumps, [*rules, {"reply": {"records": [record(1)]}}])))
    tree = {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}
    given, root = settings(place, **tree), place / "root"
    asyncio.run(index_folder(given, write_lines(place / "in", LINES)))
    serving = OpenCollections(root, ENCODER.fingerprint)
    assert serving("default").document("gone").text == TEXT
    assert any("ledger" in str(path) for path in files_with(root))

    if way == "id":
        delete_documents(given, ["gone"])
    elif way == "sync":
        asyncio.run(index_folder(given, write_lines(place / "in", LINES[1:]), sync=True))
    else:
        other = {"id": "gone", "text": ALMA, "title": "Alma", "metadata": {}}
        asyncio.run(index_folder(given, write_lines(place / "in", [other])))

    with_records = {"stays"} if way != "change" else {"stays", "gone"}
    for text in (CANARY, TEXT, f"On the {CANARY}", f"The {CANARY} is a ferry."):
        vector = ENCODER.encode([text], "query")[0]
        for found in (serving("default"), Collection.open(root, "default")):
            for hits in found.search(Query(text, 100, vector=vector)).values():
                stored = found.fetch([hit.record_id for hit in hits])
                assert {one.document.id for one in stored} <= with_records
                assert CANARY not in repr(stored).lower()
        pool = asyncio.run(Retriever(serving, encode).retrieve(checked_question(text, "default"), 20))
        assert CANARY not in repr(pool.candidates).lower()
    assert found.search(Query(CANARY, 9, legs=("sparse",))) == {"sparse": ()}
    assert found.passing(checked_question("?a", "default", filter_={"ship": CANARY}).filter) == ()

    delete_documents(given, ["nobody"], purge=True)
    assert not files_with(root)
    assert CANARY not in caplog.text.lower()
