"""What is searched for a key: the key alone, or under its title and section."""

from __future__ import annotations

from mrag.indexing.keys import expanded_units, key_texts, unit_texts
from mrag.schema import Built, Coverage, Document, Record, RecordKind, SourceUnit


def built(title: str, *sections: tuple[str, ...], pointers: tuple[int, ...] = (1,)) -> Built:
    units = tuple(SourceUnit("d", at, 0, 1, "x", section) for at, section in enumerate(sections, start=1))
    record = Record("r", "d", ("When is it?", "What is it?"), "It is.", pointers)
    other = Record("s", "d", ("Who is it?",), "It is.", (len(units),))
    return Built(Document("d", "x", title), units, (record, other), Coverage(len(units), len(units), 0))


def titled(title: str, *sections: tuple[str, ...], pointers: tuple[int, ...] = (1,)) -> str:
    """What stands before the first key of the first record."""
    ((first, second), _) = key_texts(built(title, *sections, pointers=pointers), "titled")
    assert second == first.replace("When", "What")
    return first.removesuffix("When is it?")


def test_the_paper_searches_the_key_alone() -> None:
    assert key_texts(built("Title", ("A",)), "key") == (("When is it?", "What is it?"), ("Who is it?",))


def test_titled_keys_stand_under_their_title_and_section() -> None:
    assert key_texts(built("Title", ("A",), ("B", "C")), "titled") == (
        ("Title\nA\nWhen is it?", "Title\nA\nWhat is it?"),
        ("Title\nB > C\nWho is it?",),
    )


def test_what_is_missing_or_said_already_takes_no_line() -> None:
    assert titled("", ()) == ""
    assert titled("Title", ()) == "Title\n"
    assert titled("", ("A",)) == "A\n"
    assert titled("Title", ("Title",)) == "Title\n"
    assert titled("Title", ("Title", "A")) == "Title\nA\n"
    assert titled("Title", ("Title", "A", "B")) == "Title\nA > B\n"


def test_several_units_share_the_headings_above_all_of_them() -> None:
    assert titled("T", ("A", "B"), ("A", "C"), pointers=(1, 2)) == "T\nA\n"
    assert titled("T", ("A", "B"), ("A", "B", "C"), pointers=(1, 2)) == "T\nA > B\n"
    assert titled("T", ("A",), ("B",), pointers=(1, 2)) == "T\n"
    assert titled("T", ("A", "X"), ("B", "X"), pointers=(1, 2)) == "T\n"
    assert titled("T", ("A",), ("B",), ("A",), pointers=(1, 3)) == "T\nA\n"
    assert titled("T", ("T", "A", "B"), ("T", "A", "C"), pointers=(1, 2)) == "T\nA\n"
    assert titled("T", ("T",), ("T", "A", "B"), pointers=(1, 2)) == "T\n"


def test_long_and_hostile_titles_leave_room_for_the_key() -> None:
    lines = titled("Ti\ntle " + "word " * 100, ("<|im_end|>\nA",)).split("\n")
    assert len(lines) == 3
    assert lines[0].startswith("Ti tle word")
    assert lines[0].endswith("…")
    assert len(lines[0]) <= 120
    assert lines[1] == "< |im_end|> A"


def test_units_stand_before_their_title_and_section() -> None:
    assert unit_texts(built("Title", ("A",), ("Title", "B"))) == ("x\nTitle\nA", "x\nTitle\nB")
    assert unit_texts(built("", ())) == ("x",)


def test_a_unit_is_expanded_by_the_keys_of_all_markers_that_point_to_it_each_once() -> None:
    units = tuple(SourceUnit("d", number, 0, 1, "x") for number in (1, 2, 3))
    records = (
        Record("r", "d", ("k1", "k2"), "v", (1, 2)),
        Record("s", "d", ("k2", "k3"), "v", (2,)),
        Record("t", "d", ("x",), "x", (3,), RecordKind.FALLBACK),
    )
    one = Built(Document("d", "x", "T"), units, records, Coverage(3, 2, 1))
    assert expanded_units(one) == ("x\nT\nk1\nk2", "x\nT\nk1\nk2\nk3", "x\nT")
