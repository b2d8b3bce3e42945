"""Prompts begin with what they share, so that an engine computes it once: the question comes last."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from mrag.models.language_model import Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.generate import FromTable, FromUnits, FromValues, Generator, Reading
from mrag.query.select import Selector
from mrag.schema import EvidenceRow, EvidenceTable, Verdict
from mrag.settings import PlainReader, SaneReader
from tests.query_pool import candidate, pool

FERRY = candidate("The ferry Alma was built in 1962. It is of oak.", "a", title="Ferries")
BARGE = candidate("The barge Runa is new. It carries coal.", "b", title="Barges")
PIER = candidate("The pier is old. It is painted.", "c", title="Piers")
FOUND = pool(FERRY, BARGE, PIER)
QUESTIONS = ("Which ferry is of oak?", "Name the barge that carries coal.")
FACTS = EvidenceTable("ATOMIC", ("fact",), (EvidenceRow({"fact": "It is."}, "It is.", Verdict.VERIFIED),))


def shared(requests: list[Request]) -> str:
    """What the chats of all requests begin with."""
    chats = ["".join(f"<{turn.role}>\n{turn.content}\n" for turn in request.messages) for request in requests]
    return "".join(same[0] for same in takewhile(lambda some: len(set(some)) == 1, zip(*chats, strict=False)))


@pytest.mark.parametrize(("form", "reply"), [("listed", {"selected": [1]}), ("labels", "A")])
async def test_selections_from_one_pool_share_all_before_the_candidates(form: Any, reply: Any) -> None:
    model = ScriptedModel([Rule(reply)])
    for question in QUESTIONS:
        await Selector(model).select(question, FOUND, SaneReader(w=3, k=2, select=form))
    assert len(model.asked) == 2
    assert "<candidates>\n" in shared(model.asked)


async def test_candidates_that_are_judged_by_likelihood_share_all_before_them() -> None:
    model = ScriptedModel([Rule(-9)])
    for question in QUESTIONS:
        await Selector(model).select(question, FOUND, SaneReader(w=3, k=2, select="likelihood"))
    assert len(model.asked) == 6
    assert shared(model.asked).endswith("<candidate>\n")


@pytest.mark.parametrize("quoting", ["pointed", "copied"])
async def test_extractions_from_the_same_sources_share_all_before_the_question(quoting: Any) -> None:
    model = ScriptedModel([Rule({"table": {"schema": "ATOMIC", "rows": []}})])
    extractor = EvidenceExtractor(model, load_blueprints())
    for question in QUESTIONS:
        await extractor.extract(question, [FERRY, PIER], SaneReader(quoting=quoting))
    assert shared(model.asked).endswith("</sources>\n\nQuestion: ")
    await extractor.extract(QUESTIONS[0], [BARGE], SaneReader(quoting=quoting))
    assert shared(model.asked).endswith("<sources>\nFrom: ")


@pytest.mark.parametrize(
    ("reading", "end"),
    [
        (FromValues(FOUND, PlainReader()), "</context>\n\nQuestion: "),
        (FromUnits((FERRY,), 640), "</context>\n\nQuestion: "),
        (FromTable(FACTS), "</evidence>\n\nQuestion: "),
        (FromTable(FACTS, "model"), "</evidence>\n\nQuestion: "),
    ],
)
async def test_answers_from_the_same_text_share_all_before_the_question(reading: Reading, end: str) -> None:
    model = ScriptedModel([Rule("oak")])
    for question in QUESTIONS:
        await Generator(model).generate(question, reading)
    assert shared(model.asked).endswith(end)
