"""Rare tokens stand in one unit and in no key; questions about them are drawn by a seed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mrag.cli import app
from mrag.collection import Collection
from mrag.errors import InputError
from mrag.evaluation.gold import locate
from mrag.evaluation.questions import read_questions
from mrag.evaluation.rare_tokens import RareToken, TokenKind, drawn, rare_token_questions, rare_tokens
from mrag.schema import RecordKind, SourceUnit
from mrag.settings import CollectionSettings
from tests.collection_corpus import add, built_entry, make_entry

UNITS = {
    "boats": [
        "The ferry VP-09 was built by Rurik Tamsin in 1962. Gustav paid 1,450 crowns for 12 seats.",
        "Tamsin sold VP-10 to Skagen, and Skagen sold it on. He kept OI-2023.",
        "Vesna's pier is 77 m long; the model M-5a is older.",
    ],
    "piers": ["In 1962 the OI-2023-017 contract was signed by Vesna.", "Nothing else in about Whom it was."],
}


@pytest.fixture
def place(tmp_path: Path) -> CollectionSettings:
    entries = [
        built_entry(
            name,
            texts,
            [
                (RecordKind.MARKER, (number,), ["Who sold VP-10?", "What is about?"], "value")
                for number in range(1, len(texts) + 1)
            ],
        )
        for name, texts in UNITS.items()
    ]
    add(tmp_path, "c", entries)
    return CollectionSettings(root=tmp_path, name="c")


def test_rare_is_what_one_unit_has_and_no_key(place: CollectionSettings) -> None:
    collection = Collection.open(place.root, place.name, legs=())
    found = {
        (rare.token, rare.kind, rare.unit.number) for rare in rare_tokens(collection, ("boats", "piers"))
    }
    # Not Tamsin, Vesna and 1962 (two units), Gustav, Nothing and He (they begin sentences), VP-10 (a key),
    # Whom (a stop word), 12 and 77 (short).
    assert found == {
        ("VP-09", TokenKind.IDENTIFIER, 1),
        ("Rurik", TokenKind.NAME, 1),
        ("1,450", TokenKind.NUMBER, 1),
        ("Skagen", TokenKind.NAME, 2),
        ("OI-2023", TokenKind.IDENTIFIER, 2),
        ("M-5a", TokenKind.IDENTIFIER, 3),
        ("OI-2023-017", TokenKind.IDENTIFIER, 1),
    }


def test_a_question_knows_its_unit(place: CollectionSettings, tmp_path: Path) -> None:
    settings = ["--set", f"collection.root={place.root}", "--set", "collection.name=c"]
    file = tmp_path / "rare.jsonl"
    ended = CliRunner().invoke(app, ["rare-tokens", str(file), "--count", "9", *settings])
    assert ended.exit_code == 0, (ended.output, ended.exception)
    collection = Collection.open(place.root, place.name, legs=())
    questions = read_questions(file)
    for question, line in zip(questions, file.read_text("utf-8").splitlines(), strict=True):
        [passage] = locate(question, collection, {}).passages
        [(document, number)] = passage
        assert question.id == f"{document}#{number}"
        token = json.loads(line)["token"]
        assert token in collection.units(document)[number - 1].text
        assert question.question == f"What do the documents say about {token}?"
    assert len({question.id for question in questions}) == len(questions) == 4
    assert rare_token_questions(place, 9, 0) == list(map(json.loads, file.read_text("utf-8").splitlines()))


def test_where_keys_are_the_text_there_is_nothing_to_ask(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["The ferry VP-09 was built by Rurik."]])])
    with pytest.raises(InputError, match="stands in a key"):
        rare_token_questions(CollectionSettings(root=tmp_path, name="c"), 5, 0)


RARE = st.builds(
    lambda kind, document, number, token: RareToken(token, kind, SourceUnit(document, number, 0, 1, "x")),
    st.sampled_from(TokenKind),
    st.sampled_from("ab"),
    st.integers(1, 4),
    st.text("xyz0", min_size=1, max_size=3),
)


@given(st.lists(RARE, max_size=30), st.integers(1, 12), st.integers(0, 3))
def test_a_draw_is_bounded_spread_and_the_same_for_a_seed(
    found: list[RareToken], count: int, seed: int
) -> None:
    chosen = drawn(found, count, seed)
    places = [(rare.unit.document_id, rare.unit.number) for rare in chosen]
    everywhere = {(rare.unit.document_id, rare.unit.number) for rare in found}
    assert chosen == drawn(found, count, seed)
    assert len(set(places)) == len(chosen) == min(count, len(everywhere))
    assert set(chosen) <= set(found)


def test_the_kinds_come_in_turn() -> None:
    found = [
        RareToken(f"{kind}{number}", kind, SourceUnit(kind.value, number, 0, 1, "x"))
        for kind in TokenKind
        for number in range(10)
    ]
    assert Counter(rare.kind for rare in drawn(found, 9, seed=1)) == dict.fromkeys(TokenKind, 3)
    assert drawn(found, 9, seed=1) != drawn(found, 9, seed=2)
