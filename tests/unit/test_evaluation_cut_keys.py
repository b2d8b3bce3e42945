"""A collection cut to its first keys is the one that these keys alone would have made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag.cli import app, measuring
from mrag.collection import Collection, known_documents
from mrag.errors import CollectionError, InputError, NotFoundError
from mrag.evaluation import cut_keys as cutting
from mrag.settings import Settings, parse_settings
from tests.collection_corpus import (
    STAMP,
    STAMP_WITH_UNITS,
    add,
    ask,
    make_entry,
    make_pointed,
)
from tests.hash_encoder import HashEncoder

KEYS = {
    "boats": [["Which ferry is old?", "When was Alma built?"], ["Who owns Runa?", "Where is Runa?", "Why?"]],
    "piers": [["How long is the pier?"]],
}
QUERIES = ["Which ferry is old?", "When was Alma built?", "Where is Runa moored?", "pier"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(cutting, "open_encoder", lambda _: HashEncoder("hash-16"))
    monkeypatch.setattr(measuring, "fetch_model", lambda *_: None)
    return parse_settings({"collection": {"root": str(tmp_path), "name": "whole"}})


def cut(settings: Settings, keys: int, name: str = "cut") -> Collection:
    asyncio.run(cutting.cut_keys(settings, keys, name, lambda: None))
    return Collection.open(settings.collection.root, name, encoder_fingerprint="hash-16")


def entries(keys: int) -> list[Any]:
    return [make_entry(name, [one[:keys] for one in many], f"text of {name}") for name, many in KEYS.items()]


@pytest.mark.parametrize("keys", [1, 2, 9])
def test_a_cut_collection_is_what_its_keys_would_have_made(settings: Settings, keys: int) -> None:
    root = settings.collection.root
    add(root, "whole", [*entries(9), make_entry("gone", [["Gone?", "Really?"]])])
    add(root, "whole", [], replaced=["gone"], duplicates={"copy": "piers"})
    add(root, "reference", entries(keys))
    made, reference = cut(settings, keys), Collection.open(root, "reference")
    assert made.manifest.counts == reference.manifest.counts
    assert made.manifest.duplicates == {"copy": "piers"}
    assert known_documents(root, "cut") == known_documents(root, "reference")
    for name in KEYS:
        assert made.document(name) == reference.document(name)
        assert made.units(name) == reference.units(name)
        assert made.records(name) == reference.records(name)
    for query in QUERIES:
        assert made.search(ask(query)) == reference.search(ask(query))


def test_units_are_searched_with_the_keys_that_are_left(settings: Settings) -> None:
    whole = [make_pointed("boats", ["The ferry Alma."], [(["Which ship?", "Whose zebra?"], (1,))])]
    add(settings.collection.root, "whole", whole, stamp=STAMP_WITH_UNITS)
    made = cut(settings, 1)
    assert made.manifest.stamp.searched == "keys+units"
    found = {word: made.search(ask(word, unit_weight=1.0))["sparse"] for word in ("ship", "alma", "zebra")}
    assert {word: len(hits) for word, hits in found.items()} == {"ship": 1, "alma": 1, "zebra": 0}


def test_nothing_is_written_over_and_nothing_appended(settings: Settings) -> None:
    add(settings.collection.root, "whole", entries(9))
    made = cut(settings, 1)
    assert made.manifest.stamp.differences(STAMP) == ("builder.first_keys: 1, not None",)
    with pytest.raises(InputError, match="is a collection 'cut' already"):
        cut(settings, 2)
    with pytest.raises(InputError, match="can't be the name"):
        cut(settings, 2, "a/b")
    with pytest.raises(CollectionError, match="built with other settings"):
        add(settings.collection.root, "cut", [make_entry("new", [["What?"]])])


def test_what_can_not_be_copied_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="no collection 'whole'"):
        cut(settings, 1)
    add(settings.collection.root, "whole", entries(9))
    monkeypatch.setattr(cutting, "open_encoder", lambda _: HashEncoder("another"))
    with pytest.raises(CollectionError, match="another"):
        cut(settings, 1)


def test_the_command_names_the_copy(settings: Settings) -> None:
    root = settings.collection.root
    add(root, "whole", entries(9))
    place = ["--set", f"collection.root={root}", "--set", "collection.name=whole"]
    ended = CliRunner().invoke(app, ["cut-keys", "2", *place])
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert ended.stdout == "whole-keys2: 3 records, 5 keys\n"
