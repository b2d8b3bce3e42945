"""`kill -9` at twenty moments of a change, and damage: readers see all of a generation or the one before."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import Collection, Copy, duplicates, existing_manifest, known_documents, lease, publish
from mrag.collection.manifest import generations, published_segments
from mrag.errors import CollectionError
from mrag.query.opened import OpenCollections
from mrag.schema import Document
from mrag.settings import DenseSettings
from tests.collection_corpus import STAMP, add, ask, make_entry, write_segment
from tests.damage import flip, truncate
from tests.dying_change import MOMENTS, SEGMENT, change

WORDS = ("river bridge", "castle harbour", "winter signal", "copper engine", "river castle", "winter copper")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents, one of them dead, copies of two, and a segment that is not published yet."""
    root = tmp_path_factory.mktemp("base")
    entries = [make_entry(f"d{number}", [[words], [words[::-1]]]) for number, words in enumerate(WORDS)]
    add(root, "c", entries[:4], 2, stamp=STAMP)
    add(root, "c", [*entries[4:], make_entry("d0", [["harbour"]])], 2, duplicates={"twin": "d5"})
    twin = Document("heir", entries[2].built.document.text, "About d2", {"year": 1901})
    publish(root, "c", STAMP, None, copies={"heir": Copy.of(twin, "d2")})
    segment = write_segment(root, "c", [make_entry("d6", [["a river"]]), make_entry("d3", [["signal"]])], 2)
    (root / SEGMENT).write_bytes(pickle.dumps(segment))
    return root


def content(root: Path) -> dict[str, Any]:
    """All that can be asked of the collection."""
    collection = Collection.open(root, "c", verify="full")
    try:
        found: dict[str, Any] = {"counts": collection.manifest.counts, "copies": duplicates(root, "c")}
        for name in sorted(known_documents(root, "c")):
            found[name] = (collection.document(name), collection.units(name), collection.records(name))
        for text in WORDS:
            hits = collection.search(ask(text, 9))
            found[text] = {leg: [(hit.record_id, f"{hit.score:.4g}") for hit in hits[leg]] for leg in hits}
        return found
    finally:
        collection.close()


@pytest.mark.parametrize("name", ["publish", "delete", "compact"])
def test_a_change_that_is_killed_is_made_or_not_and_can_be_made_again(
    base: Path, tmp_path: Path, name: str
) -> None:
    command = [sys.executable, "-m", "tests.dying_change", str(base), str(tmp_path), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = content(base), content(tmp_path / "0")
    generation = existing_manifest(base, "c").generation
    assert (before == after) is (name == "compact")
    assert ("heir" in after) is (name == "delete")
    killed = sorted(
        (path for path in tmp_path.iterdir() if path.name != "0"), key=lambda path: int(path.name)
    )
    assert len(killed) >= min(MOMENTS, int(done.stdout))
    seen = set()
    for root in killed:
        assert_cleared(root)
        made = existing_manifest(root, "c").generation - generation
        assert content(root) == (after if made else before)
        seen.add(made)
        change(name, root)
        assert content(root) == after
        with lease(root, "c"):
            pass
        on_disk = {path.name for path in (root / "c" / "segments").iterdir()}
        assert on_disk == published_segments(root, "c")
        assert not list(root.rglob("*.tmp"))
    assert seen == {0, 1}


def assert_cleared(root: Path) -> None:
    """The next writer leaves what is in force or was, if it makes nothing itself (tried on a copy)."""
    copy = shutil.copytree(root, root.with_name(f"{root.name}-cleared"))
    newest = existing_manifest(copy, "c").generation
    with lease(copy, "c"):
        manifests = {int(path.stem) for path in (copy / "c" / "manifests").iterdir()}
        assert manifests == set(generations(copy, "c"))
        assert max(manifests) == newest
        kept = {part.id for number in manifests for part in existing_manifest(copy, "c", number).segments}
        assert {path.name for path in (copy / "c" / "segments").iterdir()} == kept
    shutil.rmtree(copy)


# --------------------------------------------------------------------------- a new generation that is damaged


@pytest.mark.parametrize("damage", [Path.unlink, truncate, flip])
def test_the_generation_before_goes_on_serving_whatever_is_damaged_of_the_new_one(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    add(tmp_path / "old", "c", [make_entry("d0", [["river bridge"]])])
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    graph = DenseSettings(index="hnsw", hnsw={"m": 4})
    add(tmp_path / "new", "c", [make_entry("d1", [["castle"], ["winter"]])], dense=graph)
    old, new = (
        {path.relative_to(at) for path in at.rglob("*") if path.is_file()}
        for at in (tmp_path / "old", tmp_path / "new")
    )
    added = sorted(new - old)
    assert {path.name for path in added} >= {
        "000002.json",
        "keys.faiss",
        "keys.hnsw",
        "_0.cfs",
        "records.arrow",
    }
    for number, path in enumerate(added):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", root)
        collections = OpenCollections(root, STAMP.encoder)
        assert collections("c").manifest.generation == 1
        shutil.copytree(tmp_path / "new", root, dirs_exist_ok=True)
        damage(root / path)
        served = collections("c")
        assert (served.manifest.generation, served.document("d0").id) == (1, "d0")
        assert [hit.record_id for hit in served.search(ask("river"))["sparse"]] == ["d0#1"]
        with pytest.raises(CollectionError, match="restore it"):
            Collection.open(root, "c")
