"""Models by their names: a collection and a reader."""

from __future__ import annotations

import pytest

from mrag.collection import Counts, Overview
from mrag.query.offered import Offer, offer_of, offers, searched_in
from mrag.settings import parse_settings

SETTINGS = parse_settings(
    {
        "collection": {"name": "house"},
        "method": {"reader": {"name": "plain"}, "retrieval": {"name": "keys+units"}},
    }
)
BOTH = Overview("a", 1, "markers", "keys+units", Counts())
KEYS = Overview("b", 1, "units", "keys", Counts())


@pytest.mark.parametrize(
    ("name", "offer"),
    [
        ("a:sane", Offer("a", "sane")),
        ("plain", Offer("house", "plain")),
        ("a", Offer("a", "plain")),
        ("sane:sane", Offer("sane", "sane")),
        ("a:magic", None),
        ("a:", None),
        (":sane", None),
        ("", None),
    ],
)
def test_a_name_stands_for_a_collection_and_a_reader(name: str, offer: Offer | None) -> None:
    assert offer_of(name, SETTINGS) == offer


def test_every_offer_is_found_by_its_name() -> None:
    found = offers([BOTH, KEYS])
    assert [offer.id for offer in found] == ["a:sane", "a:plain", "b:sane", "b:plain"]
    assert [offer_of(offer.id, SETTINGS) for offer in found] == list(found)


def test_a_collection_is_searched_for_what_it_has() -> None:
    assert searched_in(BOTH, SETTINGS) == {"collection": "a", "retrieval": "keys+units"}
    assert searched_in(KEYS, SETTINGS) == {"collection": "b", "retrieval": "keys"}
