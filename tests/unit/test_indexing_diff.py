from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mrag.indexing.diff import Diff, Input, diff, input_of, settled, synced
from mrag.schema import Document, Outcome, Status


def item(identifier: str, text: str, about: str = "", origin: str = "") -> Input:
    return Input(identifier, f"{text}-{about}", not text, origin or f"{identifier}#1")


def statuses(found: Diff) -> dict[str, Status]:
    return {outcome.id: outcome.status for outcome in found.outcomes}


def ids(found: Diff) -> list[str]:
    return [each.id for each in found.to_index]


def test_new_changed_unchanged_and_empty() -> None:
    inputs = [
        item("new", "1"),
        item("same", "2"),
        item("changed", "3"),
        item("about", "4", "b"),
        item("empty", ""),
    ]
    found = diff(inputs, {"same": "2-", "changed": "0-", "about": "4-a", "gone": "9-"})
    assert ids(found) == ["new", "changed", "about"]
    assert statuses(found) == {"same": Status.UNCHANGED, "empty": Status.EMPTY}
    assert found.replaced == ()


def test_what_became_empty_or_a_duplicate_leaves_nothing_behind() -> None:
    found = diff([item("a", ""), item("b", "1"), item("c", "1")], {"a": "5-", "c": "2-"})
    assert statuses(found) == {"a": Status.EMPTY, "c": Status.DUPLICATE}
    assert found.replaced == ("a", "c")


def test_the_same_text_is_indexed_once() -> None:
    found = diff([item("a", "1", "x"), item("b", "1", "y"), item("c", "2")], {"elsewhere": "2-z"})
    assert ids(found) == ["a"]
    assert found.duplicates == {"b": "a", "c": "elsewhere"}
    assert "elsewhere" in found.outcomes[1].detail


def test_the_copy_of_a_document_that_changes_is_indexed() -> None:
    found = diff([item("a", "2"), item("b", "1")], {"a": "1-"})
    assert ids(found) == ["a", "b"]


def test_two_documents_that_change_places_are_both_indexed() -> None:
    assert ids(diff([item("a", "2"), item("b", "1")], {"a": "1-", "b": "2-"})) == ["a", "b"]


def test_the_one_that_is_known_keeps_its_text_wherever_it_comes() -> None:
    found = diff([item("new", "1"), item("known", "1", "other title")], {"known": "1-title"})
    assert ids(found) == ["known"]
    assert found.duplicates == {"new": "known"}


def test_an_id_that_comes_twice_is_never_lost() -> None:
    found = diff(
        [item("a", "1", origin="x#1"), item("a", "2", origin="y#1"), item("a", "1", origin="z#4")], {}
    )
    assert [each.origin for each in found.to_index] == ["x#1"]
    assert [(outcome.status, outcome.id) for outcome in found.outcomes] == [
        (Status.FAILED, "a"),
        (Status.DUPLICATE, "a"),
    ]
    assert all("x#1" in outcome.detail for outcome in found.outcomes)
    assert "y#1" in found.outcomes[0].detail


def test_a_duplicate_of_what_failed_fails() -> None:
    found = diff([item("a", "1"), item("b", "1"), item("c", "2"), item("d", "2")], {"b": "9-"})
    after = settled(found, [Outcome("a", Status.FAILED, "no reply"), Outcome("c", Status.INDEXED)])
    assert statuses(after) == {"b": Status.FAILED, "d": Status.DUPLICATE}
    assert (after.duplicates, after.replaced) == ({"d": "c"}, ())


def test_the_hash_sees_text_title_and_metadata() -> None:
    document = Document("a", "text", "title", {"k": 1})
    base = input_of(document, "o")
    assert base == Input("a", base.hash, False, "o")
    others = [
        Document("a", "Text", "title", {"k": 1}),
        Document("a", "text", "Title", {"k": 1}),
        Document("a", "text", "title"),
    ]
    assert len({base.hash, *(input_of(other, "o").hash for other in others)}) == 4
    assert input_of(Document("a", " \n"), "o").is_empty


# --------------------------------------------------------------------------- run after run


@dataclass
class Model:
    """A collection as it should be: the text of each live document."""

    live: dict[str, str] = field(default_factory=dict)

    def run(self, texts: dict[str, str]) -> Diff:
        found = diff(
            [item(name, text) for name, text in texts.items()], {k: f"{v}-" for k, v in self.live.items()}
        )
        for name in found.replaced:
            del self.live[name]
        self.live |= {each.id: texts[each.id] for each in found.to_index}
        return found


FOLDERS = st.dictionaries(st.sampled_from("abcde"), st.sampled_from(["", "1", "2", "3"]))


@given(st.lists(FOLDERS, min_size=1, max_size=4))
def test_after_any_runs_every_text_is_live_exactly_once(folders: list[dict[str, str]]) -> None:
    model = Model()
    for texts in folders:
        found = model.run(texts)
        assert len(found.to_index) + len(found.outcomes) == len(texts)
        held = list(model.live.values())
        assert len(held) == len(set(held))
        assert {text for text in texts.values() if text} <= set(held)
        for name, text in texts.items():
            assert model.live.get(name, text) == text
            assert name in model.live or not text or model.live[found.duplicates[name]] == text
        assert not model.run(texts).to_index


# --------------------------------------------------------------------------- to the inputs, and nothing else

KNOWN = {"a.txt": "1-", "b.txt": "2-", "c": "3-"}


def test_what_the_inputs_lack_is_removed_and_its_duplicate_comes_in_its_place() -> None:
    found = synced([item("b.txt", "2"), item("copy", "1")], [], KNOWN, ["copy", "other"])
    assert (found.removed, found.inputs) == (("a.txt", "c", "other"), {"b.txt", "copy"})
    assert ids(found) == ["copy"]
    assert statuses(found) == {"b.txt": Status.UNCHANGED}


def test_what_can_not_be_read_this_time_stays() -> None:
    unread = [
        Outcome("a.txt", Status.FAILED),
        Outcome("new.pdf", Status.FAILED),
        Outcome("c", Status.UNSUPPORTED),
    ]
    assert synced([item("copy", "1")], unread, KNOWN, []).removed == ("b.txt",)


def test_a_file_of_documents_that_is_torn_withholds_all_removals() -> None:
    for name in ("notes.jsonl#3", "notes.jsonl", "Notes.JSONL#1"):
        found = synced([item("b.txt", "2")], [Outcome(name, Status.FAILED)], KNOWN, ["copy"])
        assert (found.removed, found.ended, found.inputs) == ((), (), None)
        assert name in found.withheld
        assert statuses(found) == {"b.txt": Status.UNCHANGED}


def test_a_duplicate_that_is_still_there_stays_one() -> None:
    found = synced([item("a.txt", "1"), item("copy", "1")], [], KNOWN, ["copy"])
    assert found.removed == ("b.txt", "c")
    assert found.duplicates == {"copy": "a.txt"}
