"""Connections to the store end at any moment: work goes on, or ends in a sentence with nothing half done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mrag.collection import (
    Collection,
    existing_manifest,
    known_documents,
    lease,
    manifest,
    mirror,
    object_store,
)
from mrag.collection.manifest import Part
from mrag.collection.object_store import ObjectStore, store_of
from mrag.collection.segments import segment_names
from mrag.errors import StoreError
from mrag.query.opened import OpenCollections
from mrag.query.spread import PartSearcher
from tests.collection_corpus import add, ask, make_entry
from tests.s3_server import Cut, Proxy, proxy_to, through

FOREVER = 1_000_000
LONG = [make_entry(f"d{n}", [[f"river {n} " + "long " * 200] for _ in range(20)]) for n in range(10)]


@pytest.fixture
def proxy(s3_host: str, s3_root: Path) -> Iterator[Proxy]:
    with proxy_to(s3_host) as proxy:
        yield proxy


@pytest.fixture
def cut_root(s3_root: Path, s3_host: str, proxy: Proxy) -> Path:
    return through(s3_root, s3_host, proxy)


@pytest.fixture(autouse=True)
def give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "RETRIES", 2)
    monkeypatch.setattr(mirror, "CHUNK_BYTES", 40_000)


def store_at(root: Path) -> ObjectStore:
    store = store_of(root)
    assert store
    return store


UPLOADS = [
    Cut(b"/keys.faiss", "up"),
    Cut(b"/documents.arrow", "up", after=700),
    Cut(b"/records.arrow", "down"),
    Cut(b"PUT /%s/pre/fix/c/manifests", "up"),
    Cut(b"PUT /%s/pre/fix/c/manifests", "down"),
    Cut(b"PUT /%s/pre/fix/c/CURRENT", "up", times=2),
    Cut(b"PUT /%s/pre/fix/c/CURRENT", "down"),
    Cut(b"GET /%s/pre/fix/c/CURRENT", "down", after=9),
    Cut(b"list-type=2", "down", after=30),
]


def placed(cut: Cut, root: Path, times: int | None = None) -> Cut:
    bucket = store_at(root).address.bucket.encode()
    return Cut(cut.seen.replace(b"%s", bucket), cut.way, cut.after, times or cut.times)


@pytest.mark.parametrize("cut", UPLOADS, ids=str)
def test_a_publication_gets_through_when_a_connection_ends(
    cut_root: Path, s3_root: Path, proxy: Proxy, cut: Cut
) -> None:
    add(s3_root, "c", [make_entry("a", [["river"]])])
    proxy.cuts.append(made := placed(cut, s3_root))
    with lease(cut_root, "c"):
        assert add(cut_root, "c", LONG, shards=2).generation == 2
    assert made.times == 0
    assert known_documents(s3_root, "c").keys() == {"a", *(f"d{n}" for n in range(10))}
    assert Collection.open(s3_root, "c", verify="full").manifest.counts.documents == 11


def test_what_was_done_and_never_told_is_found_by_looking(
    cut_root: Path, s3_root: Path, proxy: Proxy
) -> None:
    proxy.cuts.append(placed(UPLOADS[6], s3_root, FOREVER))
    made = add(cut_root, "c", [make_entry("a", [["river"]])])
    assert existing_manifest(s3_root, "c") == made


@pytest.mark.parametrize("cut", UPLOADS[:6], ids=str)
def test_a_publication_that_does_not_get_through_leaves_the_generation_before(
    cut_root: Path, s3_root: Path, proxy: Proxy, cut: Cut
) -> None:
    before = add(s3_root, "c", [make_entry("a", [["river"]])])
    proxy.cuts.append(placed(cut, s3_root, FOREVER))
    with pytest.raises(StoreError, match=r"does not give .* and run again"):
        add(cut_root, "c", LONG, shards=2)
    assert existing_manifest(s3_root, "c") == before
    with lease(s3_root, "c"):
        assert segment_names(s3_root, "c") == {before.segments[0].id}
        assert add(s3_root, "c", [make_entry("b", [["river"]])]).generation == 2
    assert known_documents(s3_root, "c").keys() == {"a", "b"}


DOWNLOADS = [
    Cut(b"/keys.faiss", "down", after=2_000),
    Cut(b"/documents.arrow", "down"),
    Cut(b"/records.arrow", "up"),
    Cut(b"/manifests/", "down", after=300),
    Cut(b"/CURRENT", "down", after=5),
]


@pytest.mark.parametrize("cut", DOWNLOADS, ids=str)
def test_reading_gets_through_or_ends_in_a_sentence(
    cut_root: Path,
    s3_root: Path,
    proxy: Proxy,
    cut: Cut,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(s3_root, "c", LONG, shards=2)
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "one"))
    proxy.cuts.append(made := placed(cut, s3_root, 2))
    assert _read(cut_root) == 10
    assert made.times == 0
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "two"))
    made.times = FOREVER
    with pytest.raises(StoreError, match=r"does not give .* and run again"):
        _read(cut_root)
    proxy.cuts.clear()
    assert _read(cut_root) == 10


def _read(root: Path) -> int:
    manifest._kept.cache_clear()  # As in a process of its own.
    collection = Collection.open(root, "c", verify="full")
    try:
        return collection.manifest.counts.documents
    finally:
        collection.close()


def test_a_service_goes_on_with_what_it_has_open(cut_root: Path, s3_root: Path, proxy: Proxy) -> None:
    add(s3_root, "c", [make_entry("a", [["river"]])])
    serving = OpenCollections(cut_root, "hash-16", retry_s=FOREVER)
    opened = serving("c")
    add(s3_root, "c", [make_entry("b", [["river"]])])
    proxy.cuts.append(Cut(b"GET", "up", times=FOREVER))
    assert serving("c") is opened
    asked = proxy.cuts[0].times
    assert serving("c") is opened
    assert proxy.cuts[0].times == asked
    assert len(opened.search(ask("river"))["sparse"]) == 1
    proxy.cuts.clear()
    again = OpenCollections(cut_root, "hash-16")
    assert len(again("c").search(ask("river"))["sparse"]) == 2


async def test_a_part_goes_on_with_what_it_has_open_and_has_no_other(
    cut_root: Path, s3_root: Path, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(s3_root, "c", LONG, shards=2)
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "another"))
    part, query = PartSearcher(cut_root, Part(1, 2), "hash-16"), ask("river", 300)
    found = await part.search("c", 1, query, await part.statistics("c", 1, query))
    assert 0 < len(found["sparse"]) < 200
    assert not list(mirror.local_root(cut_root).rglob("shard-000/*"))
    proxy.cuts.append(Cut(b"GET", "up", times=FOREVER))
    assert await part.search("c", 1, query, await part.statistics("c", 1, query)) == found


@pytest.mark.parametrize("header", [b"if-none-match", b"if-match"])
def test_a_store_that_takes_no_heed_of_conditions_is_refused(
    cut_root: Path, proxy: Proxy, header: bytes
) -> None:
    proxy.changed[header] = b"x" * len(header)
    with pytest.raises(StoreError, match="writes whatever the condition"), lease(cut_root, "c"):
        pass
