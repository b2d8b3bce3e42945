"""One whole answer, from a collection's hits to its notes, that a person can check by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from mrag.models.encoder import Kind
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.generate import Generator
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question, question_for
from mrag.query.retrieve import Retriever
from mrag.query.select import Selector
from mrag.schema import (
    Answer,
    Derivation,
    DocumentInfo,
    EvidenceRow,
    EvidenceTable,
    Hit,
    Leg,
    Query,
    Record,
    Source,
    SourceUnit,
    StageTrace,
    Stored,
    Usage,
    Vectors,
    Verdict,
)
from mrag.settings import SaneReader, Settings

ALMA = "The ferry Alma carries 90 passengers. She was built in Gdansk in 1962."
RUNA = "The ferry Runa was built in Visby on 3 May 1901. She carries “about 40” passengers."
PIER = "The pier is painted every spring."


def stored(record_id: str, document: DocumentInfo, number: int, text: str) -> Stored:
    unit = SourceUnit(document.id, number, 0, len(text), text)
    return Stored(Record(record_id, document.id, (f"Key {record_id}?",), text, (number,)), document, (unit,))


FERRIES = DocumentInfo("ferries.md", "Ferries", {"date": "2024-05-03"})
NOTES = DocumentInfo("notes.md")
RECORDS = {
    one.record.id: one
    for one in (
        stored("r1", FERRIES, 1, ALMA),
        stored("r2", NOTES, 4, PIER),
        stored("r3", FERRIES, 2, RUNA),
    )
}


class Collection:
    """Three records: the dense leg likes the pier best, the sparse leg knows only the ferries."""

    manifest: Any = SimpleNamespace(generation=5)

    def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
        return {
            "dense": (Hit("r2", 0.9), Hit("r1", 0.8), Hit("r3", 0.1)),
            "sparse": (Hit("r1", 7.5), Hit("r3", 6.0)),
        }

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        return tuple(RECORDS[record_id] for record_id in record_ids)


async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
    return np.ones((len(texts), 1), np.float32)


# The pool, by reciprocal rank: r1 (1/62 + 1/61), r3 (1/63 + 1/62), r2 (1/61).
ROWS = (
    {"source": "S1", "entity": "Alma", "dimension": "passengers", "value": "90"},
    {"source": "S4", "entity": "Runa", "dimension": "passengers", "value": "forty"},
    {"source": "S4", "entity": "Runa", "dimension": "passengers", "value": "140"},
)
REPLIES = [
    Rule({"selected": [2, 1, 9]}, purpose="select"),
    Rule({"table": {"schema": "COMPARATIVE", "rows": ROWS}}, purpose="evidence"),
    Rule("Answer: the Alma, with 90 against 40 or 50", purpose="answer"),
]
QUESTION = "Which ferry carries more passengers?"
BOTH = Source("ferries.md", "Ferries", (1, 2), date="2024-05-03")


def row(value: str, quote: str, number: int | None, entity: str) -> EvidenceRow:
    return EvidenceRow(
        {"entity": entity, "dimension": "passengers", "value": value},
        quote,
        Verdict.VERIFIED if number else Verdict.UNVERIFIED,
        Source("ferries.md", "Ferries", (number,), date="2024-05-03") if number else None,
    )


EXPECTED = Answer(
    question=QUESTION,
    text="the Alma, with 90 against 40 or 50",
    sources=(BOTH,),
    evidence=EvidenceTable(
        "COMPARATIVE",
        ("entity", "dimension", "value", "unit"),
        (
            row("90", "The ferry Alma carries 90 passengers.", 1, "Alma"),
            row("forty", "She carries “about 40” passengers.", 2, "Runa"),
            row("140", "She carries “about 40” passengers.", None, "Runa"),
        ),
    ),
    context=None,
    generation=5,
    trace=(
        StageTrace("retrieve", 0.0),
        StageTrace("select", 0.0, Usage(1)),
        StageTrace("extract", 0.0, Usage(1), ("1 of 3 evidence rows could not be verified.",)),
        StageTrace("generate", 0.0, Usage(1), ("The answer states 50, which stands in no evidence row.",)),
    ),
    notes=(
        "1 of 3 evidence rows could not be verified.",
        "The answer states 50, which stands in no evidence row.",
    ),
    selected=(
        Source("ferries.md", "Ferries", (2,), date="2024-05-03"),
        Source("ferries.md", "Ferries", (1,), date="2024-05-03"),
    ),
    citations=(1, 2),
)


def plain(trace: StageTrace) -> StageTrace:
    """Without what differs from run to run, or with the wording of a prompt."""
    return replace(trace, seconds=0.0, usage=Usage(trace.usage.calls))


async def test_a_whole_answer() -> None:
    model = ScriptedModel(REPLIES)
    pipeline = Pipeline(
        Retriever(lambda _: Collection(), encode).retrieve,
        Selector(model).select,
        EvidenceExtractor(model, load_blueprints()).extract,
        Generator(model).generate,
    )
    answer = await pipeline.answer(Question(QUESTION, "harbour", reader=SaneReader(w=3, k=2)))
    assert replace(answer, trace=tuple(map(plain, answer.trace))) == EXPECTED
    assert all(trace.seconds >= 0 for trace in answer.trace)
    assert model.asked[2].messages[-1].content == (
        "<evidence>\n"
        "1. entity: Alma; dimension: passengers; value: 90; "
        'quote: "The ferry Alma carries 90 passengers." (Ferries, 2024-05-03)\n'
        "2. entity: Runa; dimension: passengers; value: forty; "
        'quote: "She carries “about 40” passengers." (Ferries, 2024-05-03)\n'
        "</evidence>\n\n"
        "Question: Which ferry carries more passengers?"
    )


# By scores: r1 7/8 + 1, r2 1, r3 0 + 0; the question is likeliest after r3, then after r1.
LIKELY = [
    Rule(-20, purpose="select", contains=("runa",)),
    Rule(-40, purpose="select", contains=("alma",)),
    Rule(-90, purpose="select"),
]


async def test_a_whole_answer_as_it_is_shipped() -> None:
    model = ScriptedModel([*LIKELY, *REPLIES[1:]])
    pipeline = Pipeline(
        Retriever(lambda _: Collection(), encode).retrieve,
        Selector(model).select,
        EvidenceExtractor(model, load_blueprints()).extract,
        Generator(model).generate,
    )
    shipped = question_for(Settings(), QUESTION)
    assert isinstance(shipped.reader, SaneReader)
    few = shipped.reader.model_copy(update={"w": 3, "k": 2})
    answer = await pipeline.answer(replace(shipped, reader=few))
    asked = "Selection made 3 requests, one a candidate."
    retrieve, _, extract, generate = EXPECTED.trace
    assert replace(answer, trace=tuple(map(plain, answer.trace))) == replace(
        EXPECTED,
        trace=(retrieve, StageTrace("select", 0.0, Usage(3), (asked,)), extract, generate),
        notes=(asked, *EXPECTED.notes),
        selected=EXPECTED.selected[::-1],
    )
    pool = await pipeline.retrieve(shipped, 3)
    assert [(one.records[0].id, one.score) for one in pool.candidates] == [
        ("r1", 1.875),
        ("r2", 1.0),
        ("r3", 0.0),
    ]
    assert [request.purpose for request in model.asked] == ["select"] * 3 + ["evidence", "answer"]


async def test_an_answer_that_rests_on_a_derived_row() -> None:
    fewer = {"operation": "difference", "from": [1, 2], "value": "50"}
    wrong = {"operation": "sum", "from": [1, 3], "value": "230"}  # the third row is not verified
    table = {"schema": "COMPARATIVE", "rows": ROWS, "derived": [fewer, wrong]}
    model = ScriptedModel([REPLIES[0], Rule({"table": table}, purpose="evidence"), Rule("50 [4]")])
    pipeline = Pipeline(
        Retriever(lambda _: Collection(), encode).retrieve,
        Selector(model).select,
        EvidenceExtractor(model, load_blueprints()).extract,
        Generator(model).generate,
    )
    answer = await pipeline.answer(Question("How many more?", "harbour", reader=SaneReader(w=3, k=2)))
    assert EXPECTED.evidence is not None
    derived = EvidenceRow(
        {"derived": "difference of rows 1 and 2: 90 - 40 = 50"},
        "",
        Verdict.DERIVED,
        derivation=Derivation("difference", (1, 2)),
    )
    assert answer.evidence == replace(EXPECTED.evidence, rows=(*EXPECTED.evidence.rows, derived))
    assert (answer.text, answer.citations, answer.sources) == ("50", (4,), (BOTH,))
    assert answer.notes == (
        "1 of 3 evidence rows could not be verified.",
        "1 of 2 derived rows did not follow from verified rows and were dropped.",
    )
    lines = model.asked[2].messages[-1].content.split("\n")
    assert lines[3] == "4. difference of rows 1 and 2: 90 - 40 = 50"


async def test_the_candidates_are_shown_as_their_synopses() -> None:
    model = ScriptedModel(REPLIES)
    pool = await Retriever(lambda _: Collection(), encode).retrieve(Question(QUESTION, "harbour"), 3)
    await Selector(model).select(QUESTION, pool, SaneReader(k=2))
    assert model.asked[0].messages[-1].content == (
        "<candidates>\n"
        "[1] Ferries; date: 2024-05-03\n"
        "  keywords: alma, 90, gdansk, 1962, ferry, carries, passengers, built\n"
        "  excerpt: The ferry Alma carries 90 passengers.\n"
        "[2] Ferries; date: 2024-05-03\n"
        "  keywords: runa, visby, 3, 1901, 40, ferry, built, carries, passengers\n"
        "  excerpt: She carries “about 40” passengers.\n"
        "[3] notes.md\n"
        "  keywords: pier, painted, spring\n"
        "  excerpt: The pier is painted every spring.\n"
        "</candidates>\n\n"
        f"Question: {QUESTION}\n\n"
        "Choose the 2 candidates that are most likely to help answer the question. If it needs several "
        "facts, choose candidates for each of them."
    )
