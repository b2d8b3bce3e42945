"""One writer at a time in an object store: who is told what, and what the dead and the late can't do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mrag.collection import (
    Collection,
    existing_manifest,
    known_documents,
    lease,
    list_collections,
    publish,
    read_manifest,
)
from mrag.collection import remote_lease as module
from mrag.collection.current import Current, Holder, read_lines
from mrag.collection.manifest import write_manifest
from mrag.collection.object_store import ObjectStore, store_of
from mrag.collection.remote_lease import RemoteLease
from mrag.collection.segments import segment_names
from mrag.errors import CollectionError
from tests.collection_corpus import STAMP, add, ask, make_entry, write_segment
from tests.s3_server import environment

ONE = [make_entry("a", [["river"]])]
HOLDING = """
import sys
from pathlib import Path
from mrag.collection import lease
with lease(Path(sys.argv[1]), "c"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def writer(root: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of another machine that holds the collection until its input ends."""
    command = [sys.executable, "-c", HOLDING, str(root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(home), **pipes) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == "held\n"
            yield other
        finally:
            other.kill()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.05)


def store_at(root: Path) -> ObjectStore:
    store = store_of(root)
    assert store
    return store


def current(root: Path) -> Current:
    found = store_at(root).get("c/CURRENT")
    assert found
    return read_lines(found[0], "CURRENT")


def expire(root: Path) -> None:
    """As if the holder had not renewed it for a term."""
    now = current(root)
    assert now.holder
    late = replace(now, holder=replace(now.holder, until=time.time() - 1))
    store_at(root).put("c/CURRENT", late.lines(leased=True))


def test_a_second_writer_is_told_who_the_first_is_and_waits_for_it(s3_root: Path, tmp_path: Path) -> None:
    with writer(s3_root, tmp_path / "another") as other:
        with (
            pytest.raises(CollectionError, match=rf"'c' is being written by process {other.pid} on "),
            lease(s3_root, "c"),
        ):
            pass
        with (
            pytest.raises(CollectionError, match=r"is still, after 0\.1 s of waiting, being written"),
            lease(s3_root, "c", wait_s=0.1),
        ):
            pass
        with lease(s3_root, "other"):
            pass
        assert other.stdin
        other.stdin.close()
        with lease(s3_root, "c", wait_s=60):
            assert other.wait() == 0
    assert current(s3_root).holder is None
    assert read_manifest(s3_root, "c") is None


def test_two_writers_in_one_process_are_two(s3_root: Path) -> None:
    with (
        lease(s3_root, "c"),
        pytest.raises(CollectionError, match=f"process {os.getpid()} on "),
        lease(s3_root, "c"),
    ):
        pass


def test_a_dead_writer_holds_it_for_a_term_and_leaves_nothing(s3_root: Path, tmp_path: Path) -> None:
    add(s3_root, "c", ONE)
    with writer(s3_root, tmp_path / "another") as other:
        other.kill()
        other.wait()
    orphan = write_segment(s3_root, "c", [make_entry("b", [["river"]])])
    store_at(s3_root).put("c/manifests/000002.json", b"{}")
    with pytest.raises(CollectionError, match="is being written by"), lease(s3_root, "c"):
        pass
    expire(s3_root)
    with lease(s3_root, "c"):
        assert orphan.id not in segment_names(s3_root, "c")
        assert add(s3_root, "c", [make_entry("d", [["river"]])]).generation == 2
    assert known_documents(s3_root, "c").keys() == {"a", "d"}


def test_a_living_writer_renews(s3_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWALS", 600)
    with lease(s3_root, "c"):
        first = current(s3_root).holder
        while current(s3_root).holder == first:
            time.sleep(0.01)
        with pytest.raises(CollectionError, match="is being written by"), lease(s3_root, "c"):
            pass
        renewed = current(s3_root).holder
    assert first
    assert renewed
    assert (renewed.token, renewed.until > first.until) == (first.token, True)


def test_who_lost_the_lease_publishes_nothing_however_late(s3_root: Path) -> None:
    add(s3_root, "c", ONE)
    with lease(s3_root, "c"):
        late = write_segment(s3_root, "c", [make_entry("late", [["river"]])])
        expire(s3_root)
        mine = dict(module._held)
        module._held.clear()  # As if the other were another process.
        with lease(s3_root, "c"):
            winner = add(s3_root, "c", [make_entry("winner", [["river"]])])
        module._held.update(mine)
        with pytest.raises(CollectionError, match="is missing"):
            publish(s3_root, "c", STAMP, late)
        with pytest.raises(CollectionError, match="changed meanwhile: another writer took it over"):
            publish(s3_root, "c", STAMP, None, {"a"})
    assert existing_manifest(s3_root, "c") == winner
    assert known_documents(s3_root, "c").keys() == {"a", "winner"}


def test_the_next_writer_goes_on_after_a_publication_that_was_too_late(s3_root: Path) -> None:
    first = add(s3_root, "c", ONE)
    late = RemoteLease(store_at(s3_root), "c")
    late.take(0)
    expire(s3_root)
    with lease(s3_root, "c"):
        with pytest.raises(CollectionError, match="changed meanwhile"):
            late.publish(2, "0" * 64, b"{}")
        assert existing_manifest(s3_root, "c") == first
        with pytest.raises(CollectionError, match="changed meanwhile"):
            write_manifest(s3_root, replace(first, generation=2))
    assert add(s3_root, "c", [make_entry("b", [["river"]])]).generation == 2


def test_of_two_publishers_at_once_both_land(s3_root: Path, tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from mrag.collection import lease
from tests.collection_corpus import add, make_entry
root, name = Path(sys.argv[1]), sys.argv[2]
for number in range(2):
    with lease(root, "c", wait_s=120):
        add(root, "c", [make_entry(f"{name}{number}", [[f"key {name}"]])])
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(s3_root), name],
            env=environment(tmp_path / name),
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "xy"
    ]
    assert [one.communicate()[1] for one in writers] == ["", ""]
    assert known_documents(s3_root, "c").keys() == {"x0", "x1", "y0", "y1"}
    assert existing_manifest(s3_root, "c").generation == 4
    assert len(Collection.open(s3_root, "c").search(ask("key"))["sparse"]) == 4


def test_publishers_of_one_process_wait_for_each_other(s3_root: Path) -> None:
    segments = [write_segment(s3_root, "c", [make_entry(f"d{n}", [["river"]])]) for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda segment: publish(s3_root, "c", STAMP, segment), segments))
    assert sorted(one.generation for one in made) == [1, 2, 3, 4, 5, 6]
    assert known_documents(s3_root, "c").keys() == {f"d{n}" for n in range(6)}
    assert current(s3_root).holder is None


@pytest.mark.parametrize(
    "content", [b"", b"000000\n", b"000001\n{\n", b'000001\n{"token": 1}\n', b"000001\n[]\n", b"\xff\n"]
)
def test_a_damaged_current_is_refused_in_a_sentence(s3_root: Path, content: bytes) -> None:
    store_at(s3_root).put("c/CURRENT", content)
    with pytest.raises(CollectionError, match=r"s3://b-\w+/pre/fix/c/CURRENT .*: restore it"):
        read_manifest(s3_root, "c")
    add(s3_root, "other", ONE)
    assert list_collections(s3_root) == ("c", "other")


def test_lines_are_read_as_they_were_written() -> None:
    holder = Holder("t", 7, "höst", "2026-01-01", 5.5)
    for one in (Current(), Current(0, None, holder), Current(12, "a" * 64), Current(12, "a" * 64, holder)):
        assert read_lines(one.lines(leased=True), "CURRENT") == one
    assert read_lines(Current(12, "a" * 64).lines(), "CURRENT") == Current(12, "a" * 64)
