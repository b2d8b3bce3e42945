"""Files and folders are whole or absent, and what changed is noticed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mrag.collection.storage import atomic_folder, atomic_write, checksum, describe, locked, verify
from mrag.errors import CollectionError


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_an_atomic_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        atomic_write(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
        assert names(tmp_path) == {"file"}


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write(tmp_path / "file", b"old")

    def broken(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        atomic_write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == {"file"}


def test_a_folder_takes_the_place_of_an_earlier_one_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with atomic_folder(tmp_path / "a" / "shard") as folder:
            (folder / name).write_text(name)
            assert not (tmp_path / "a" / "shard" / name).exists()
        assert names(tmp_path / "a") == {"shard"}
        assert names(tmp_path / "a" / "shard") == {name}


def test_a_folder_whose_filling_fails_is_not_there(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_folder(tmp_path / "shard") as folder:
            (folder / "file").touch()
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fill()
    assert names(tmp_path) == set()


def test_only_one_holds_the_lock(tmp_path: Path) -> None:
    held, order = threading.Event(), []

    def wait() -> None:
        held.wait()
        with locked(tmp_path / "lock"):
            order.append("second")

    other = threading.Thread(target=wait)
    other.start()
    with locked(tmp_path / "lock"):
        held.set()
        other.join(0.1)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_verifying_names_the_file_and_the_fault(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"abc")
    files = describe(tmp_path)
    assert [(file.path, file.bytes) for file in files] == [("below/file", 3)]
    assert files[0].sha256 == checksum(tmp_path / "below" / "file")
    verify(tmp_path, files, full=True)
    (tmp_path / "below" / "file").write_bytes(b"abd")
    verify(tmp_path, files, full=False)
    with pytest.raises(CollectionError, match=r"below/file has another checksum .*: restore"):
        verify(tmp_path, files, full=True)
    (tmp_path / "below" / "file").write_bytes(b"ab")
    with pytest.raises(CollectionError, match=r"below/file has 2 bytes instead of 3"):
        verify(tmp_path, files, full=False)
    (tmp_path / "below" / "file").unlink()
    with pytest.raises(CollectionError, match=r"below/file is missing"):
        verify(tmp_path, files, full=False)
