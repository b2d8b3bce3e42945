"""Whatever a model replies: what can be read is read, nothing crashes, and every unit stays reachable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mrag.errors import EmptyReplyError
from mrag.indexing.asking import Asker
from mrag.indexing.form import Form
from mrag.indexing.ledger import Ledger
from mrag.indexing.tagging import Window
from mrag.indexing.validation import parse
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.schema import RecordKind, SourceUnit
from tests.marker_replies import asked_for, builder, document, numbers_of, one_each

FOUND = yaml.safe_load((Path(__file__).parents[1] / "data" / "broken_replies.yaml").read_text("utf-8"))
REPLIES: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in FOUND}
TEXTS = ("The ferry Alma was built in Gdansk in 1962.", "It carries 90 passengers.", "It sails from May on.")
UNITS = tuple(SourceUnit("d", 7 + at, 0, len(text), text) for at, text in enumerate(TEXTS))
DOCUMENT = document(*(f"Paragraph {number} says something." for number in range(1, 7)), *TEXTS)
RETRIES = 2

every_reply = pytest.mark.parametrize("name", REPLIES)


def failing(name: str) -> bool:
    return REPLIES[name].get("outcome") == "failed"


def test_the_corpus_is_one() -> None:
    assert len(FOUND) == len(REPLIES) >= 60
    assert all(set(entry) <= {"name", "reply", "outcome", "records", "rejected"} for entry in FOUND)
    assert sum("records" in entry for entry in FOUND) >= 30


@every_reply
def test_what_can_be_read_is_kept_and_the_rest_has_a_reason(name: str) -> None:
    entry = REPLIES[name]
    parsed = parse(entry["reply"], Window("Harbour notes", UNITS), Form(max_pointers=2))
    assert [
        {"units": list(draft.pointers), "keys": list(draft.keys), "value": draft.value}
        for draft in parsed.drafts
    ] == entry.get("records", [])
    assert list(parsed.rejected) == entry.get("rejected", [])


def answering(name: str) -> ScriptedModel:
    """A good model that has one reply for the last three units, however often they are asked for."""
    reply = REPLIES[name]["reply"]
    return ScriptedModel(lambda request: reply if numbers_of(request)[0] >= 7 else one_each(request))


@every_reply
async def test_coverage_is_whole_after_repair_or_the_document_has_failed(name: str, tmp_path: Path) -> None:
    model = answering(name)
    entries = Ledger(tmp_path, "boats").entries("d")
    building = builder(window_units=3, max_pointers=2, retries=RETRIES).build(DOCUMENT, Asker(model, entries))
    if failing(name):
        with pytest.raises(EmptyReplyError):
            await building
        assert asked_for(model.asked).count([7, 8, 9]) == 1 + RETRIES
        return
    built = await building
    assert built.coverage.after_repair == 1.0
    assert {number for r in built.records for number in r.pointers} == set(range(1, 10))
    values = {r.value for r in built.records}
    assert values >= {record["value"] for record in REPLIES[name].get("records", [])}
    assert len(model.asked) <= 2 + (1 + RETRIES) * 3
    fallbacks = [r for r in built.records if r.kind is RecordKind.FALLBACK]
    assert [(r.keys, r.value) for r in fallbacks] == [
        ((unit.text,), unit.text) for r in fallbacks for unit in built.units if unit.number in r.pointers
    ]


@every_reply
async def test_what_was_of_no_use_is_asked_again_by_the_next_run(name: str, tmp_path: Path) -> None:
    entries, made = Ledger(tmp_path, "boats").entries("d"), builder(window_units=3, max_pointers=2)
    try:
        await made.build(DOCUMENT, Asker(answering(name), entries))
    except EmptyReplyError:
        assert failing(name)
    again = ScriptedModel(one_each)
    built = await made.build(DOCUMENT, Asker(again, entries))
    useful = "records" in REPLIES[name]
    assert ([7, 8, 9] in asked_for(again.asked)) is not useful
    assert {r.kind for r in built.records} == {RecordKind.MARKER}


def test_the_scenarios_are_there() -> None:
    """6: broken JSON of every kind; 7: blanks without end; 8: thoughts and nothing else; 9: see above."""
    names = " ".join(REPLIES)
    for kind in ("comma", "prose around", "fence", "single quotes", "not a number", "doubled field", "two",
                 "wrong type", "unknown unit", "blanks until", "thought"):  # fmt: skip
        assert kind in names


def test_nothing_of_the_prompt_is_taken_for_a_reply() -> None:
    """The worked example, copied, is refused in any document that does not say the same."""
    [_, _, answered, _] = request_of(document("Sheep graze.")).messages
    window = Window("Meadows", (SourceUnit("d", 7, 0, 0, "Sheep graze on the meadow of Holm."),))
    parsed = parse(answered.content, window, Form())
    assert parsed.drafts == ()
    assert len(parsed.rejected) == 2


def request_of(given_document: Any) -> Request:
    [estimate] = builder().estimates(given_document, ScriptedModel([]))
    return estimate.request
