"""Manifests: what is written is read, and nothing else is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import (
    SCHEMA_VERSION,
    Copy,
    Counts,
    FileInfo,
    Manifest,
    SegmentInfo,
    ShardInfo,
    list_collections,
    read_manifest,
)
from mrag.collection.manifest import _checksum, collection_folder, write_manifest
from mrag.errors import CollectionError, InputError, NotFoundError
from tests.collection_corpus import STAMP

SHARD = ShardInfo(
    Counts(2, 3, 4, 5, 5, 21, 3, 55),
    16,
    (FileInfo("records.arrow", 10, "ab"), FileInfo("lucene/_0.cfs", 1, "")),
)
MANIFEST = Manifest(
    "notes",
    1,
    STAMP,
    (SegmentInfo("s1", (SHARD, SHARD), 1),),
    {"gone \ud800 é": 1},
    {"copy": Copy("first", "0-1", "é \ud800", {"years": [1999, None]})},
    Counts(4, 6, 8, 10, 10, 42, 6, 110),
)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path, "notes") == MANIFEST
    assert (tmp_path / "notes" / "CURRENT").read_text().startswith("000001\n")


def aged(path: Path, seconds: int) -> None:
    """As if it had been written so long ago."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns - seconds * 10**9))


def test_a_manifest_is_checked_once_and_again_when_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for generation in (1, 2):
        write_manifest(tmp_path, replace(MANIFEST, generation=generation))
    checked: list[int] = []

    def counted(tree: Mapping[str, Any]) -> str:
        checked.append(tree["generation"])
        return _checksum(tree)

    monkeypatch.setattr("mrag.collection.manifest._checksum", counted)
    path = tmp_path / "notes" / "manifests" / "000002.json"
    for file in (path, path.with_name("000001.json")):
        aged(file, 60)
    for _ in range(3):
        assert read_manifest(tmp_path, "notes") == replace(MANIFEST, generation=2)
        assert read_manifest(tmp_path, "notes", 1) == MANIFEST
    assert checked == [2, 1]
    path.write_bytes(path.read_bytes().replace(b'"hash-16"', b'"hash-17"'))
    for seconds in (30, 0):
        aged(path, seconds)
        with pytest.raises(CollectionError, match="another checksum"):
            read_manifest(tmp_path, "notes")


def test_a_manifest_that_was_only_just_written_is_read_each_time(tmp_path: Path) -> None:
    """The clock of a disk is coarse: what changes twice within a tick looks as if it had changed once."""
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path, "notes") == MANIFEST
    path = tmp_path / "notes" / "manifests" / "000001.json"
    written = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(b'"hash-16"', b'"hash-17"'))
    os.utime(path, ns=(0, written))
    with pytest.raises(CollectionError, match="another checksum"):
        read_manifest(tmp_path, "notes")


def test_earlier_generations_can_be_read_and_later_ones_can_not(tmp_path: Path) -> None:
    second = replace(MANIFEST, generation=2, tombstones={})
    for manifest in (MANIFEST, second, replace(MANIFEST, generation=3)):
        write_manifest(tmp_path, manifest)
    write_manifest(tmp_path, second)
    assert read_manifest(tmp_path, "notes") == second
    assert read_manifest(tmp_path, "notes", generation=1) == MANIFEST
    for generation in (3, 0, -1, 99):
        with pytest.raises(
            NotFoundError, match=f"no generation {generation}; the one in force is 2"
        ) as caught:
            read_manifest(tmp_path, "notes", generation)
        assert caught.value.field == "generation"


def test_a_collection_without_current_is_none(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    (tmp_path / "notes" / "CURRENT").unlink()
    assert read_manifest(tmp_path, "notes") is None
    assert list_collections(tmp_path) == ()


def test_collections_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_manifest(tmp_path, replace(MANIFEST, name=name))
    (tmp_path / "other").mkdir()
    assert list_collections(tmp_path) == ("a", "b")
    assert list_collections(tmp_path / "nowhere") == ()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 65, "a\n"])
def test_a_name_can_not_leave_the_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="can't be the name") as caught:
        collection_folder(tmp_path, name)
    assert caught.value.field == "collection"


def test_every_flipped_bit_of_a_manifest_and_of_current_is_noticed(tmp_path: Path) -> None:
    small = replace(MANIFEST, segments=(), tombstones={})
    write_manifest(tmp_path, small)
    for path in (tmp_path / "notes" / "CURRENT", tmp_path / "notes" / "manifests" / "000001.json"):
        content = path.read_bytes()
        for place in range(0, len(content) * 8, 11):
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(CollectionError):
                read_manifest(tmp_path, "notes")
        path.write_bytes(content)
    assert read_manifest(tmp_path, "notes") == small


@pytest.mark.parametrize("content", ["", "7\n", "000001", "000002\n", "one\n", "1" * 5000 + "\n"])
def test_a_current_that_names_no_manifest_is_refused(tmp_path: Path, content: str) -> None:
    write_manifest(tmp_path, MANIFEST)
    (tmp_path / "notes" / "CURRENT").write_text(content)
    with pytest.raises(CollectionError, match=r"(CURRENT|000002\.json) .*: restore"):
        read_manifest(tmp_path, "notes")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[" * 100_000,
        "1" * 5000,
        '{"schema_version": 3, "name": ' + "[" * 900 + "]" * 900 + "}",
        '{"schema_version": ' + "[" * 900 + "]" * 900 + "}",
        '{"schema_version": 3, "checksum": 1e999}',
    ],
)
def test_what_is_no_manifest_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    write_manifest(tmp_path, MANIFEST)
    (tmp_path / "notes" / "manifests" / "000001.json").write_text(content)
    with pytest.raises(CollectionError, match=r"000001\.json .*: (restore|use the mrag)") as caught:
        read_manifest(tmp_path, "notes")
    assert len(str(caught.value)) < 400


def test_another_schema_version_is_refused_by_name(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "notes" / "manifests" / "000001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    with pytest.raises(CollectionError, match=rf"000001\.json has .* 99 .* reads {SCHEMA_VERSION}:"):
        read_manifest(tmp_path, "notes")


def test_a_stamp_says_what_differs() -> None:
    assert STAMP.differences(replace(STAMP, builder_settings={"max_unit_tokens": 240.0})) == ()
    other = replace(STAMP, encoder="e5", k1=1.2)
    assert STAMP.differences(other) == ("encoder: 'hash-16', not 'e5'", "k1: 0.9, not 1.2")


def test_a_stamp_says_which_of_the_builders_settings_differ() -> None:
    other = replace(STAMP, builder="units-2", builder_settings={"max_unit_tokens": 100, "new": [1]})
    assert STAMP.differences(other) == ("builder.max_unit_tokens: 240, not 100", "builder.new: None, not [1]")
    silent = replace(STAMP, builder="units-2")
    assert STAMP.differences(silent) == ("builder: 'units-1', not 'units-2'",)
