from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag.collection import Collection, known_documents, read_manifest, segment
from mrag.documents.units import split_units
from mrag.errors import CollectionError, InputError
from mrag.indexing import builder as building
from mrag.indexing import run
from mrag.indexing.plan import Plan
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.models.tokens import ByteTokenizer
from mrag.query.local import encoding
from mrag.query.opened import OpenCollections
from mrag.query.question import question_for
from mrag.query.retrieve import Retriever
from mrag.schema import Document, RecordKind, Status, Vectors
from mrag.settings import Settings, parse_settings
from tests.marker_replies import record


class HashEncoder:
    """Unit vectors out of a text's hash: nothing is near anything, everything is found by itself."""

    fingerprint = "hash"
    dimension = 8
    bad = ""

    def encode(self, texts: Sequence[str], kind: str) -> Vectors:
        digests = [np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.uint8) for text in texts]
        rows = np.array(digests, np.float32).reshape(-1, 8) + 1
        if self.bad:
            rows[[self.bad in text for text in texts]] = np.nan
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> HashEncoder:
    found = HashEncoder()
    monkeypatch.setattr(run, "open_encoder", lambda _: found)
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())
    return found


@pytest.fixture
def folder(tmp_path: Path, encoder: HashEncoder) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def settings(folder: Path, **tree: Any) -> Settings:
    return parse_settings(
        {"method": "sane", "collection": {"root": folder.parent / "root", "shards": 2}, **tree}
    )


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)


def index(folder: Path, **tree: Any) -> Report:
    return asyncio.run(index_folder(settings(folder, **tree), folder))


def counts(report: Report) -> dict[str, int]:
    return {status.value: count for status, count in report.counts.items() if count}


def live(folder: Path) -> set[str]:
    return set(known_documents(folder.parent / "root", "default"))


def markers(folder: Path, *rules: dict[str, Any]) -> dict[str, Any]:
    """Settings of the markers builder over a script."""
    script = folder.parent / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, rules)))
    return {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}


def test_every_input_ends_in_one_status(folder: Path) -> None:
    write(folder, a="One text.\n\nTwo of it.", b="One text.\n\nTwo of it.", c=" \n")
    (folder / "d.xyz").write_text("what")
    (folder / "e.jsonl").write_text('{"id": "e1", "text": "Three."}\n{\n{"id": "e1", "text": "Four."}\n')
    (folder / "sub").mkdir()
    write(folder / "sub", a="Another text.")
    report = index(folder)
    assert counts(report) == {"indexed": 3, "empty": 1, "duplicate": 1, "unsupported": 1, "failed": 2}
    assert report.inputs == 8
    assert {outcome.id for outcome in report.named} == {"b.txt", "c.txt", "d.xyz", "e.jsonl#2", "e1"}
    assert (report.generation, report.exit_code, report.coverage.units) == (1, 1, 4)
    assert live(folder) == {"a.txt", "sub/a.txt", "e1"}
    opened = Collection.open(folder.parent / "root", "default")
    assert opened.manifest.duplicates == {"b.txt": "a.txt"}
    assert [unit.text for unit in opened.units("a.txt")] == ["One text.", "Two of it."]
    opened.close()


ODD_TEXTS: dict[str, str | bytes] = {
    "nul": b"x" * 9000 + b"one\x00two",
    "nul at once": b"\x00one \x00two, which are words of a text",
    "surrogates": b'{"id": "surrogates", "text": "a \\ud800 b \\udfff"}',
    "bom": "\ufeffone two",
    "utf-16": "one 日本 two".encode("utf-16"),
    "crlf": b"one\r\ntwo\rthree\r\n\r\nfour",
    "zero width": "pay\u200bment \u200dof\u2060fers\ufeff",
    "right to left": "\u200fשלום עולם\u200e (هذا نص)",
    "chinese": "这是一个中文句子。没有空格",
    "one line": "a megabyte on one line, " * 41_000,
    "control": "\x01\x02\x1b[0m",
    "lone marks": "\u0301\u0301",
    "latin": "Die Straße ist schön und süß".encode("cp1252"),
    "tags": "<|im_start|> {x} </s> <think> [3]",
}


def test_odd_texts_end_in_indexed_and_are_all_there(folder: Path) -> None:
    for name, text in ODD_TEXTS.items():
        suffix = ".jsonl" if name == "surrogates" else ".txt"
        (folder / (name + suffix)).write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "invisible.txt").write_text("\u200b\ufeff\u2060")
    report = index(folder)
    assert counts(report) == {"indexed": len(ODD_TEXTS), "empty": 1}
    assert report.coverage.after_repair == 1.0
    opened = Collection.open(folder.parent / "root", "default")
    assert [unit.text for unit in opened.units("zero width.txt")] == ["payment \u200doffers"]
    assert [unit.text for unit in opened.units("crlf.txt")] == ["one\ntwo\nthree", "four"]
    assert " ".join(unit.text for unit in opened.units("one line.txt")) == str(ODD_TEXTS["one line"]).strip()
    opened.close()


def test_a_second_run_does_only_what_is_new(folder: Path) -> None:
    write(folder, a="One.", b="Two.", c="Three.", d="Four.")
    index(folder)
    write(folder, b="Two, changed.", c="", d="One.", e="Five.")
    (folder / "a.txt").rename(folder / "z.txt")
    report = index(folder)
    assert counts(report) == {"indexed": 2, "empty": 1, "duplicate": 2}
    assert live(folder) == {"a.txt", "b.txt", "e.txt"}
    again = index(folder)
    assert counts(again) == {"unchanged": 2, "empty": 1, "duplicate": 2}
    assert (report.generation, again.generation) == (2, 2)
    assert not list((folder.parent / "root").rglob("*.tmp"))


def test_nothing_to_index_makes_no_collection(folder: Path) -> None:
    write(folder, a=" ")
    assert index(folder).generation == 0
    assert read_manifest(folder.parent / "root", "default") is None
    with pytest.raises(InputError):
        index(folder / "missing")


def test_other_settings_are_refused_before_any_work(folder: Path) -> None:
    write(folder, a="One.")
    index(folder)
    with pytest.raises(CollectionError):
        index(folder, documents={"max_unit_tokens": 100})
    with pytest.raises(CollectionError):
        index(folder, **markers(folder))


def pool(folder: Path, question: str, retrieval: str, **tree: Any) -> list[str]:
    """The documents that the words of a question find."""
    asked = question_for(settings(folder, **tree), question, retrieval=retrieval)
    asked = replace(asked, retrieval=asked.retrieval.model_copy(update={"legs": ("sparse",)}))
    retriever = Retriever(OpenCollections(folder.parent / "root", "hash"), encoding(HashEncoder()))
    found = asyncio.run(retriever.retrieve(asked, 5))
    return [candidate.document.id for candidate in found.candidates]


KEYS_AND_UNITS = {"builder": {"name": "markers"}, "retrieval": {"name": "keys+units"}}


def test_an_identifier_that_no_key_repeats_is_found_with_units_only(folder: Path) -> None:
    write(folder, pump="Part XJ-4471 fits the pump.", buoy="The buoy is yellow.", crane="It lifts.")
    tree = {**markers(folder, {"reply": {"records": [record(1)]}}), "method": KEYS_AND_UNITS}
    index(folder, **tree)
    assert pool(folder, "Which pump takes XJ-4471?", "keys+units", **tree)[0] == "pump.txt"
    assert pool(folder, "XJ-4471?", "keys+units", **tree) == ["pump.txt"]
    assert pool(folder, "XJ-4471?", "keys", **tree) == []


def test_units_are_searched_where_they_were_indexed(folder: Path) -> None:
    write(folder, a="One.")
    index(folder)
    with pytest.raises(InputError, match="nothing to search but its keys") as caught:
        pool(folder, "One?", "keys+units")
    assert caught.value.field == "retrieval"
    with pytest.raises(CollectionError, match=r"searched: 'keys', not 'keys\+units'"):
        index(folder, method={"builder": {"name": "units"}, "retrieval": {"name": "keys+units"}})


def test_a_document_without_a_reply_fails_and_is_taken_up_by_the_next_run(folder: Path) -> None:
    write(folder, good="The good text.", bad="The bad text.", copy="The bad text.")
    reply = {"records": [record(1)]}
    timeout = {"contains": ["bad text"], "error": "timeout"}
    report = index(folder, **markers(folder, timeout, {"reply": reply}))
    assert counts(report) == {"indexed": 1, "failed": 2}
    assert [(outcome.id, outcome.status) for outcome in report.named] == [
        ("bad.txt", Status.FAILED),
        ("copy.txt", Status.FAILED),
    ]
    assert live(folder) == {"good.txt"}
    again = index(folder, **markers(folder, {"contains": ["bad text"], "reply": "no JSON"}))
    assert counts(again) == {"indexed": 1, "unchanged": 1, "duplicate": 1}
    assert (again.fallback_share, again.usage.calls) == (1.0, 3)
    opened = Collection.open(folder.parent / "root", "default")
    assert [each.kind for each in opened.records("bad.txt")] == [RecordKind.FALLBACK]
    opened.close()


def test_when_all_fail_nothing_is_published(folder: Path) -> None:
    write(folder, a="The bad text.")
    report = index(folder, **markers(folder, {"error": "dead"}))
    assert (counts(report), report.generation) == ({"failed": 1}, 0)
    assert read_manifest(folder.parent / "root", "default") is None
    assert not list((folder.parent / "root").rglob("segments/*"))


def test_a_document_that_fails_keeps_its_old_version(folder: Path) -> None:
    write(folder, a="The first text.")
    good = {"contains": ["first"], "reply": {"records": [record(1)]}}
    index(folder, **markers(folder, good))
    write(folder, a="The bad text.")
    index(folder, **markers(folder, {"error": "timeout"}))
    opened = Collection.open(folder.parent / "root", "default")
    assert opened.document("a.txt").text == "The first text."
    opened.close()


def test_a_vector_that_is_none_costs_its_document(folder: Path, encoder: HashEncoder) -> None:
    write(folder, a="One.", b="Two.")
    encoder.bad = "Two"
    report = index(folder)
    assert counts(report) == {"indexed": 1, "failed": 1}
    assert "vector" in report.named[0].detail


def test_what_nobody_foresaw_costs_its_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def split(document: Document, *rest: Any) -> Any:
        if "Two" in document.text:
            raise IndexError("unit 7")
        return split_units(document, *rest)

    monkeypatch.setattr(building, "split_units", split)
    write(folder, a="One.", b="Two.")
    report = index(folder)
    assert (counts(report), live(folder)) == ({"indexed": 1, "failed": 1}, {"a.txt"})
    assert "IndexError (unit 7)" in report.named[0].detail


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_a_run_leaves_the_generation_before(folder: Path, stop: type[BaseException]) -> None:
    write(folder, a="One.")
    index(folder)
    write(folder, **{f"n{number}": f"New {number}." for number in range(40)})

    class Interrupt:
        def planned(self, plan: Plan) -> None:
            assert plan.documents == 40

        def replied(self, calls: int, tokens: int) -> None:
            raise AssertionError("nothing was asked")

        def done(self, documents: int, records: int) -> None:
            if documents == 20:
                raise stop

    with pytest.raises(stop):
        asyncio.run(index_folder(settings(folder), folder, Interrupt()))
    assert live(folder) == {"a.txt"}
    assert len(list((folder.parent / "root" / "default" / "segments").iterdir())) == 1
    assert counts(index(folder)) == {"indexed": 40, "unchanged": 1}


@pytest.mark.parametrize("documents", [2, 60])
def test_a_shard_that_cannot_be_written_ends_the_run(
    documents: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, **{f"n{number}": f"New {number}." for number in range(documents)})
    write_shard = segment.write_shard

    def fail(place: Path, entries: Any, *rest: Any) -> Any:
        if place.name != "shard-000":
            return write_shard(place, entries, *rest)
        next(iter(entries), None)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment, "write_shard", fail)
    with pytest.raises(OSError, match="No space"):
        index(folder)
    assert live(folder) == set()
    assert not list((folder.parent / "root").rglob("shard-*"))


def test_progress_tells_of_every_document(folder: Path) -> None:
    write(folder, a="One.\n\nTwo.", b="Three.")
    told: list[Any] = []

    class Told:
        def planned(self, plan: Plan) -> None:
            told.append((plan.documents, plan.units))

        def replied(self, calls: int, tokens: int) -> None:
            raise AssertionError("nothing was asked")

        def done(self, *now: int) -> None:
            told.append(now)

    asyncio.run(index_folder(settings(folder), folder, Told()))
    assert told[0] == (2, 3)
    assert [now[0] for now in told[1:]] == [1, 2]
    assert told[-1] == (2, 3)


def test_a_document_that_changes_between_the_passes_fails_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, a="One.", b="Two.")
    diff = run.diff

    def change(*given: Any) -> Any:
        write(folder, a="Other.")
        return diff(*given)

    monkeypatch.setattr(run, "diff", change)
    report = index(folder)
    assert counts(report) == {"indexed": 1, "failed": 1}
    assert "changed" in report.named[0].detail
    assert live(folder) == {"b.txt"}


def test_no_more_than_a_few_documents_are_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = most = 0

    class Counted(Document):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            return super().__new__(cls)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    monkeypatch.setattr("mrag.documents.text.Document", Counted)
    write(folder, **{f"n{number}": f"Text {number}." for number in range(300)})
    assert counts(index(folder)) == {"indexed": 300}
    assert most < 60
