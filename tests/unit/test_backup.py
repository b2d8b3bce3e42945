"""docs/operations.md: a copy of a collection's files, in the order told there, is the collection."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mrag.collection import Collection
from mrag.errors import CollectionError
from tests.collection_corpus import add, ask, make_entry

FIRST, SECOND = ("CURRENT", "manifests"), ("segments", "ledger")


def copied(source: Path, target: Path, names: tuple[str, ...]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)
        elif (source / name).exists():
            shutil.copy2(source / name, target / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    add(tmp_path / "root", "mine", [make_entry("d1", [["river"]]), make_entry("d2", [["castle"]])], shards=2)
    return tmp_path / "root"


def test_a_copy_under_another_name_is_the_collection(root: Path, tmp_path: Path) -> None:
    for names in (FIRST, SECOND):
        copied(root / "mine", tmp_path / "elsewhere" / "theirs", names)
    restored = Collection.open(tmp_path / "elsewhere", "theirs", verify="full")
    assert restored.search(ask("river")) == Collection.open(root, "mine").search(ask("river"))


def test_a_run_that_publishes_during_the_copy_spoils_nothing(root: Path, tmp_path: Path) -> None:
    copied(root / "mine", tmp_path / "backup" / "mine", FIRST)
    add(root, "mine", [make_entry("d3", [["engine"]])], replaced={"d1"})
    copied(root / "mine", tmp_path / "backup" / "mine", SECOND)
    restored = Collection.open(tmp_path / "backup", "mine", verify="full")
    assert restored.manifest.generation == 1
    assert {hit.record_id for hit in restored.search(ask("river"))["sparse"]} == {"d1#1"}


def test_a_copy_that_lost_a_segment_says_so(root: Path, tmp_path: Path) -> None:
    copied(root / "mine", tmp_path / "backup" / "mine", FIRST)
    with pytest.raises(CollectionError, match="missing"):
        Collection.open(tmp_path / "backup", "mine")
