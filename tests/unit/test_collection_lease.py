"""One writer at a time, and what dead ones left is cleared by the next."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import Collection, existing_manifest, known_documents, lease, read_manifest
from mrag.collection.lease import clear
from mrag.collection.manifest import generations
from mrag.errors import CollectionError
from tests.collection_corpus import add, ask, make_entry

THREE = [make_entry(f"d{n}", [[f"key {n}"]]) for n in range(3)]
HOLDING = """
import sys, time
from pathlib import Path
from mrag.collection import lease
with lease(Path(sys.argv[1]), "c"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_told_who_the_first_is_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout
            assert first.stdout.readline() == "held\n"
            with (
                pytest.raises(CollectionError, match=rf"written by process {first.pid} on "),
                lease(tmp_path, "c"),
            ):
                pass
            with lease(tmp_path, "other"):
                pass
        finally:
            first.kill()
    with lease(tmp_path, "c"):
        pass


WORKING = """
import sys, time
from pathlib import Path
from mrag.collection import lease
with lease(Path(sys.argv[1]), "c"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def writer(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the collection until its input ends."""
    command = [sys.executable, "-c", WORKING, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == "held\n"
            yield other
        finally:
            other.kill()


def end_soon(other: subprocess.Popen[str]) -> None:
    assert other.stdin
    threading.Timer(0.4, other.stdin.close).start()


def test_who_waits_holds_it_after_the_other(tmp_path: Path) -> None:
    with writer(tmp_path) as other:
        end_soon(other)
        with lease(tmp_path, "c", wait_s=60):
            assert other.wait() == 0
            with pytest.raises(CollectionError, match=str(os.getpid())), lease(tmp_path, "c"):
                pass


def test_who_waited_in_vain_is_told_for_whom(tmp_path: Path) -> None:
    with writer(tmp_path) as other:
        told = rf"is still, after 0\.3 s of waiting, being written by process {other.pid} on "
        with pytest.raises(CollectionError, match=told), lease(tmp_path, "c", wait_s=0.3):
            pass


@pytest.mark.parametrize(
    ("command", "generation"),
    [(["delete", "d1"], 2), (["compact"], 2), (["rollback", "1"], 1), (["delete", "d1", "--purge"], 3)],
)
def test_commands_wait_as_long_as_they_are_told(tmp_path: Path, command: list[str], generation: int) -> None:
    add(tmp_path, "c", THREE, 2)
    at = [*command, "--set", f"collection.root={tmp_path}", "--set", "collection.name=c"]
    with writer(tmp_path) as other:
        refused = CliRunner().invoke(cli.app, at)
        assert isinstance(refused.exception, CollectionError)
        assert "being written by" in str(refused.exception)
        end_soon(other)
        done = CliRunner().invoke(cli.app, [*at, "--wait", "60"])
        assert (done.exit_code, other.wait()) == (0, 0)
    manifest = read_manifest(tmp_path, "c")
    assert manifest is not None
    assert manifest.generation == generation


APPENDING = """
import sys
from pathlib import Path
from mrag.collection import lease
from tests.collection_corpus import add, make_entry
root, name = Path(sys.argv[1]), sys.argv[2]
for number in range(5):
    with lease(root, "c", wait_s=120):
        mine = make_entry(f"{name}{number}", [[f"key {name} {number}"]])
        add(root, "c", [mine, make_entry("both", [[name]])])
"""


def test_two_writers_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    commands = ([sys.executable, "-c", APPENDING, str(tmp_path), name] for name in "ab")
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for one in writers:
        assert one.communicate()[1] == ""
    assert [one.returncode for one in writers] == [0, 0]
    manifest = existing_manifest(tmp_path, "c")
    assert (manifest.generation, len(manifest.segments), manifest.counts.documents) == (10, 10, 11)
    opened = Collection.open(tmp_path, "c")
    ids = {"both", *(f"{name}{number}" for name in "ab" for number in range(5))}
    assert known_documents(tmp_path, "c").keys() == ids
    found = {hit.record_id for hit in opened.search(ask("key", 50))["sparse"]}
    assert found == {f"{name}#1" for name in ids - {"both"}}


def test_two_writers_in_one_process_are_two(tmp_path: Path) -> None:
    with lease(tmp_path, "c"), pytest.raises(CollectionError, match=str(os.getpid())), lease(tmp_path, "c"):
        pass


def test_what_no_generation_has_is_cleared(tmp_path: Path) -> None:
    for _ in range(2):
        add(tmp_path, "c", THREE, 2)
    segments = tmp_path / "c" / "segments"
    kept = {path.name for path in segments.iterdir()}
    (segments / "orphan" / "shard-000").mkdir(parents=True)
    (segments / "orphan" / "shard-000" / "keys.faiss").write_bytes(b"x")
    (segments / "half.1a2b.tmp").mkdir()
    for segment in kept:
        (segments / segment / "shard-001.1a2b.tmp").mkdir()
    (tmp_path / "c" / "CURRENT.1a2b.tmp").write_bytes(b"x")
    with lease(tmp_path, "c"):
        assert {path.name for path in segments.iterdir()} == kept
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("before", [0, 1])
def test_a_generation_that_was_never_in_force_is_cleared(tmp_path: Path, before: int) -> None:
    """A writer died between its manifest and CURRENT."""
    for _ in range(before):
        add(tmp_path, "c", THREE, 2)
    folder = tmp_path / "c"
    current = (folder / "CURRENT").read_bytes() if before else None
    kept = {path.name for path in (folder / "segments").glob("*")}
    late = add(tmp_path, "c", [make_entry("late", [["late"]])], 2)
    (folder / "CURRENT").write_bytes(current) if current else (folder / "CURRENT").unlink()
    assert generations(tmp_path, "c") == tuple(range(1, before + 1))
    with lease(tmp_path, "c"):
        assert not (folder / "manifests" / f"{late.generation:06d}.json").exists()
        assert {path.name for path in (folder / "segments").iterdir()} == kept


def test_nothing_is_cleared_where_current_is_lost(tmp_path: Path) -> None:
    for _ in range(2):
        add(tmp_path, "c", THREE, 2)
    (tmp_path / "c" / "CURRENT").unlink()
    before = {path for path in (tmp_path / "c").rglob("*") if path.suffix != ".lock"}
    clear(tmp_path, "c")
    assert before <= set((tmp_path / "c").rglob("*"))


def test_nothing_is_cleared_where_a_manifest_is_damaged(tmp_path: Path) -> None:
    add(tmp_path, "c", THREE, 2)
    add(tmp_path, "c", THREE, 2)
    (orphan := tmp_path / "c" / "segments" / "orphan").mkdir()
    (tmp_path / "c" / "manifests" / "000001.json").write_text("{")
    clear(tmp_path, "c")
    assert orphan.is_dir()


def test_a_collection_that_can_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with pytest.raises(CollectionError, match="can't be written"), lease(tmp_path / "root", "c"):
        pass
