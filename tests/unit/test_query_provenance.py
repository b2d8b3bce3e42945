"""Scenario 32: whatever the model replies, citations lead to rows, and rows to the units that say so."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.generate import Generator
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question
from mrag.query.verify import quoted
from mrag.schema import Pool, Verdict
from mrag.settings import SaneReader
from tests.query_pool import candidate, pool

SENTENCES = [
    "The ferry Alma was built in 1962.",
    "She carries 90 passengers.",
    "The barge Runa was sold in 1962.",
    "Runa carries forty people.",
    "The pier is of oak.",
]
FOUND = pool(
    candidate(" ".join(SENTENCES[:2]), "alma", 1),
    candidate(SENTENCES[2], "runa", 1),
    candidate(SENTENCES[3], "runa", 2),
    candidate(SENTENCES[4], "pier", 1),
)
TEXTS = {(u.document_id, u.number): u.text for found in FOUND.candidates for u in found.units}
CLAIMS = st.sampled_from(
    [*SENTENCES, "Alma carries 40.", "Runa was built in 1962.", "carries 90 … passengers"]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"fact": CLAIMS, "source": st.sampled_from(["S1", "S2", "S3", "S4", "S5", "S9"])},
        optional={"quote": CLAIMS},
    ),
    max_size=5,
)
ANSWERS = st.sampled_from(
    ["1962", "90", "yes", "no", "Alma [2]", "Runa [9]", "oak [1] [3]", "unknown", "Runa, 40"]
)


async def retrieve(_: Question, w: int) -> Pool:
    return FOUND


@given(ROWS, ANSWERS, st.sampled_from(["pointed", "copied"]))
async def test_citations_lead_to_rows_and_rows_to_units_that_say_so(
    rows: list[Any], text: str, quoting: Any
) -> None:
    table = Rule({"table": {"schema": "ATOMIC", "rows": rows}}, purpose="evidence")
    model = ScriptedModel([table, Rule(text)])
    extractor = EvidenceExtractor(model, load_blueprints())
    pipeline = Pipeline(retrieve, None, extractor.extract, Generator(model).generate)
    reader = SaneReader(select="off", quoting=quoting)
    answer = await pipeline.answer(Question("When was Alma built?", "harbour", reader=reader))
    found = answer.evidence.rows if answer.evidence else ()
    for number in answer.citations:
        assert found[number - 1].verdict is Verdict.VERIFIED
    for row in found:
        assert (row.source is not None) == (row.verdict is Verdict.VERIFIED)
        if row.source:
            (number,) = row.source.units
            assert quoted(row.quote, TEXTS[row.source.document_id, number]) == row.quote
