"""Folders that others name: nothing outside the roots is reached, and nothing of it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.documents.jail import HIDDEN, jailed, without_paths
from mrag.errors import InputError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside, outside = tmp_path / "in", tmp_path / "outside"
    (inside / "a b" / "ä").mkdir(parents=True)
    (inside / "file").write_text("")
    outside.mkdir()
    (inside / "out").symlink_to(outside)
    (inside / "here").symlink_to(inside / "a b")
    (inside / "loop").symlink_to(inside / "loop")
    (tmp_path / "inside").mkdir()
    return inside


@pytest.mark.parametrize("name", ["", ".", "a b", "a b/ä", "./a b", "a b/", "here", "{root}", "{root}/a b/ä"])
def test_a_folder_below_the_root_is_found(root: Path, name: str) -> None:
    found = jailed(name.format(root=root), (root,))
    assert found.is_dir()
    assert found == found.resolve()
    assert found.is_relative_to(root)


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../in",
        "a b/../a b",
        "{root}/../in",
        "{root}side",
        "/",
        "/etc",
        "out",
        "out/.",
        "loop",
        "file",
        "nothing",
        "a\0b",
        "\0",
        "\ud83d",
        "x" * 4096,
        "x/" * 4096,
        "~",
        "file:///etc",
    ],
)
def test_anything_else_is_refused_in_the_same_words(root: Path, name: str) -> None:
    said = set()
    for tried in (name.format(root=root), "nothing"):
        with pytest.raises(InputError) as caught:
            jailed(tried, (root,))
        assert caught.value.field == "folder"
        said.add(str(caught.value))
    assert len(said) == 1


def test_roots_are_asked_in_their_order_and_a_missing_one_costs_nothing(root: Path) -> None:
    other = root.parent / "inside"
    (other / "a b").mkdir()
    (other / "only").mkdir()
    roots = (root.parent / "gone", root, other)
    assert jailed("a b", roots) == root / "a b"
    assert jailed("only", roots) == other / "only"
    with pytest.raises(InputError):
        jailed("a b", ())


@given(name=st.lists(st.sampled_from(["..", "a b", "out", "here", "/", "etc", "ä", "", "\0"])).map("/".join))
def test_no_name_leads_out(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    place = tmp_path_factory.getbasetemp() / "jail"
    (place / "in" / "a b" / "ä").mkdir(parents=True, exist_ok=True)
    if not (place / "in" / "out").is_symlink():
        (place / "in" / "out").symlink_to("/etc")
    try:
        found = jailed(name, (place / "in",))
    except InputError:
        return
    assert found.resolve().is_relative_to(place / "in")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/srv/c/manifests/1.json is damaged: restore it.", f"{HIDDEN} is damaged: restore it."),
        ("Can't read '/etc/passwd'.", f"Can't read '{HIDDEN}'."),
        ("There is nothing in /data/docs/a.", "There is nothing in /data/docs/a."),
        ("In /data/docs/../x.", f"In {HIDDEN}."),
        ("In /data/docsecret.", f"In {HIDDEN}."),
        ("In /my secret/c/1.json.", f"In {HIDDEN}."),
        ("http://10.0.0.5:8000/v1 is down.", f"{HIDDEN} is down."),
        ("See file:///etc/passwd, please.", f"See {HIDDEN}, please."),
        ("12 tokens/s, 3/4 documents, and/or a.b/c", "12 tokens/s, 3/4 documents, and/or a.b/c"),
        ("boats/alma #1.md: it can't be read.", "boats/alma #1.md: it can't be read."),
    ],
)
def test_paths_outside_the_roots_are_not_told(text: str, told: str) -> None:
    assert without_paths(text, (Path("/data/docs"),), Path("/my secret")) == told
