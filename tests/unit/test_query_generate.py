"""The answer: what the model is given to read, within budget and window, and what becomes of its reply."""

from __future__ import annotations

from typing import Any

import pytest

from mrag.errors import EmptyReplyError, InputError, ModelTimeoutError
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.generate import MARGIN_TOKENS, REPLY_TOKENS, FromTable, FromUnits, FromValues, Generator
from mrag.schema import Candidate, Derivation, EvidenceRow, EvidenceTable, Source, Verdict
from mrag.settings import PlainReader
from tests.query_pool import candidate, info, pool

FERRY = candidate("The ferry Alma was built in 1962.", "ferry", title="Ferries", values=("Alma: 1962.",))
BARGE = candidate("The barge Runa was built in 1901.", "barge", 4, title="Barges", values=("Runa: 1901.",))
PIER = candidate("The pier is old.", "pier", values=("An old pier.", "A long pier."))
FOUND = pool(FERRY, BARGE, PIER)
QUESTION = "When was the ferry Alma built?"


def model(reply: Any = "1962", **options: Any) -> ScriptedModel:
    return ScriptedModel([Rule(reply)], **options)


def shown(asked: ScriptedModel) -> str:
    """What stands between the tags of the one prompt."""
    (request,) = asked.asked
    return request.messages[-1].content.split("\n", 1)[1].rsplit("\n</", 1)[0]


def row(
    fact: str, verdict: Verdict = Verdict.VERIFIED, quote: str = "", title: str = "Ferries"
) -> EvidenceRow:
    source = Source("ferry.md", title, (1,)) if verdict is Verdict.VERIFIED else None
    return EvidenceRow({"fact": fact}, quote or fact, verdict, source)


def table(*rows: EvidenceRow) -> EvidenceTable:
    return EvidenceTable("ATOMIC", ("fact",), rows)


# --------------------------------------------------------------------------- the reply


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("1962", "1962"),
        (" \n1962\n", "1962"),
        ("Answer: 1962", "1962"),
        ("1962\ud83d", "1962\ufffd"),
        ("The final answer is: 1962", "1962"),
        ("```\n1962\n```", "1962"),
        ("<think>Answer: 1963?</think>\nAnswer: 1962", "1962"),
        ("Perhaps 1963.</think>1962", "1962"),
        ("Answer:", "Answer:"),
        ("unknown", "unknown"),
        ("In 1962: the answer is known.", "In 1962: the answer is known."),
    ],
)
async def test_the_answer_alone_is_taken(reply: str, text: str) -> None:
    generated = await Generator(model(reply)).answer_values(QUESTION, FOUND, PlainReader())
    assert (generated.text, generated.usage.calls) == (text, 1)


async def test_a_thought_without_an_answer_is_no_reply() -> None:
    thinking = Generator(model("<think>It was 1962, or was it"))
    for reading in (FromValues(FOUND, PlainReader()), FromTable(table(row("It is so.")))):
        with pytest.raises(EmptyReplyError, match="thinking off"):
            await thinking.generate(QUESTION, reading)


async def test_a_model_that_fails_is_raised() -> None:
    with pytest.raises(ModelTimeoutError):
        await Generator(ScriptedModel([Rule(error="timeout")])).answer_values(QUESTION, FOUND, PlainReader())


# --------------------------------------------------------------------------- from values


async def test_values_are_read_in_rank_order_under_the_budget() -> None:
    asked = model()
    generated = await Generator(asked).answer_values(QUESTION, FOUND, PlainReader(budget_tokens=4))
    assert shown(asked) == "Alma: 1962.\n\nRuna: 1901."
    assert generated.context is not None
    assert (generated.context.text, generated.context.tokens) == (shown(asked), 4)
    assert generated.context.sources == (Source("ferry", "Ferries", (1,)), Source("barge", "Barges", (4,)))
    assert generated.notes == ()
    (request,) = asked.asked
    assert request.messages[-1].content.endswith(f"</context>\n\nQuestion: {QUESTION}")
    assert (request.purpose, request.max_tokens, request.schema) == ("answer", REPLY_TOKENS, None)


async def test_the_first_k_candidates_are_read_as_they_are() -> None:
    asked = model()
    generated = await Generator(asked).answer_values(QUESTION, FOUND, PlainReader(k=2, budget_tokens=1))
    assert shown(asked) == f"{FERRY.text}\n\n{BARGE.text}"
    assert generated.notes == ()


async def test_a_k_above_the_pool_reads_all_of_it() -> None:
    asked = model()
    await Generator(asked).answer_values(QUESTION, FOUND, PlainReader(k=99))
    assert shown(asked) == "\n\n".join(found.text for found in FOUND.candidates)


async def test_a_first_value_above_the_budget_is_cut_and_noted() -> None:
    generated = await Generator(model()).answer_values(QUESTION, FOUND, PlainReader(budget_tokens=1))
    assert generated.context is not None
    assert (generated.context.text, generated.context.cut) == ("Alma", True)
    unread = "The answer states 1962, which does not stand in what was read."
    assert generated.notes == (unread, "The first text exceeded the budget and was cut.")


async def test_strictly_such_a_value_leaves_an_empty_context_which_is_noted() -> None:
    strict = PlainReader(budget_tokens=1, overflow="strict")
    generated = await Generator(model()).answer_values(QUESTION, FOUND, strict)
    assert generated.context is not None
    assert (generated.context.text, generated.context.cut) == ("", False)
    assert generated.notes[1:] == ("No text fitted the budget: the context is empty.",)


@pytest.mark.parametrize(
    ("reader", "context"),
    [
        (PlainReader(), "Alma: 1962.\n\nAn old pier.\n\nA long pier."),
        (PlainReader(deduplicate=False), "Alma: 1962.\n\nAlma: 1962.\n\nAn old pier.\n\nA long pier."),
        (PlainReader(budget_tokens=4), "Alma: 1962."),
        (PlainReader(budget_tokens=6, policy="skip", order="position"), "Alma: 1962.\n\nAn old pier."),
    ],
)
async def test_the_reader_says_what_is_read_of_values(reader: PlainReader, context: str) -> None:
    asked = model()
    await Generator(asked).answer_values(QUESTION, pool(FERRY, FERRY, PIER), reader)
    assert shown(asked) == context


async def test_an_empty_pool_leaves_an_empty_context() -> None:
    asked = model("unknown")
    generated = await Generator(asked).answer_values(QUESTION, pool(), PlainReader())
    assert shown(asked) == ""
    assert generated.context is not None
    assert (generated.context.tokens, generated.context.sources, generated.text) == (0, (), "unknown")


@pytest.mark.parametrize("spare", [1, 2, 3, 4, 5, 11])
async def test_a_window_below_the_budget_takes_what_it_can_and_says_so(spare: int) -> None:
    probe = model()
    await Generator(probe).answer_values(QUESTION, pool(), PlainReader())
    window = probe.count_prompt_tokens(probe.asked[0].messages) + REPLY_TOKENS + MARGIN_TOKENS + spare
    asked = model(window_tokens=window)
    generated = await Generator(asked).answer_values(QUESTION, FOUND, PlainReader(budget_tokens=640))
    assert generated.context is not None
    assert generated.context.tokens <= spare
    assert ("The model's window took less than the budget." in generated.notes) == (spare < 10)


# --------------------------------------------------------------------------- from units


async def test_units_are_read_and_never_the_values() -> None:
    asked = model()
    generated = await Generator(asked).answer_units(QUESTION, (PIER, FERRY), 640)
    assert shown(asked) == f"{PIER.text}\n\n{FERRY.text}"
    assert generated.context is not None
    assert [source.document_id for source in generated.context.sources] == ["pier", "ferry"]


async def test_a_budget_of_nothing_shows_nothing() -> None:
    asked = model("unknown")
    generated = await Generator(asked).answer_units(QUESTION, FOUND.candidates, 0)
    assert shown(asked) == ""
    assert generated.context is not None
    assert (generated.context.tokens, generated.context.sources) == (0, ())
    assert generated.notes == ("The first text exceeded the budget and was cut.",)


async def test_candidates_that_point_to_nothing_show_nothing() -> None:
    nowhere = Candidate(info("gone"), (), FERRY.records, "key", 1.0)
    asked = model("unknown")
    generated = await Generator(asked).answer_units(QUESTION, (nowhere,), 640)
    assert generated.context is not None
    assert (shown(asked), generated.context.sources, generated.notes) == ("", (), ())


# --------------------------------------------------------------------------- from a table


async def test_the_facts_of_a_table_are_read_and_nothing_else() -> None:
    asked = model()
    generated = await Generator(asked).answer_table(
        QUESTION,
        table(
            row("Alma is of 1962.", quote="Alma was built in 1962."),
            row("Alma is of 1963.", Verdict.UNVERIFIED),
            row("Alma is old.", title=""),
        ),
    )
    assert shown(asked) == (
        '1. fact: Alma is of 1962.; quote: "Alma was built in 1962." (Ferries)\n'
        '3. fact: Alma is old.; quote: "Alma is old." (ferry.md)'
    )
    assert "1963" not in "".join(message.content for message in asked.asked[0].messages)
    assert (generated.text, generated.context, generated.notes) == ("1962", None, ())


@pytest.mark.parametrize("rows", [(), (row("Alma is of 1963.", Verdict.UNVERIFIED),)])
async def test_a_table_without_facts_shows_nothing_and_founds_no_number(
    rows: tuple[EvidenceRow, ...],
) -> None:
    asked = model("1963")
    generated = await Generator(asked).answer_table(QUESTION, table(*rows))
    assert shown(asked) == ""
    assert generated.notes == ("The answer states 1963, which stands in no evidence row.",)


@pytest.mark.parametrize(
    ("reply", "missing"),
    [
        ("1962", None),
        ("nineteen", "19"),
        ("1962, see rows 7 and 8.", "7, 8"),
        ("In 1962, as the document of 2024-05-03 says", "2024-05-03"),
        ("on 3 May", "05-03"),
        ("12 years", "12"),  # the question says so, and no row
        ("90 passengers", None),  # of a quote
        ("unknown", None),
        ("-1962", "-1962"),
        ("1,962.50", "1962.50"),
        ("at 10:45", "10:45"),
        ("the 13th", "13th"),
        ("in the 1960s", "1960s"),
        ("VP-10", "vp-10"),
        ("1.962", "1.962"),
        ("2½ hours", "2.5"),
        ("90-1962", None),  # a range, the ends of which are there
        ("90-95", "90-95"),
        ("Gdansk", None),
    ],
)
async def test_numbers_that_point_to_nothing_are_noted(reply: str, missing: str | None) -> None:
    facts = table(row("Alma is of 1962.", quote="Alma, of 1962, carries ninety passengers."))
    generated = await Generator(model(reply)).answer_table("Is Alma older than 12 years?", facts)
    expected = (f"The answer states {missing}, which stands in no evidence row.",) if missing else ()
    assert (generated.text, generated.notes) == (reply, expected)


async def test_a_number_that_only_orders_rows_founds_no_answer() -> None:
    cells = {"event": "The ferry Alma sank", "position": "7"}
    ordered = EvidenceRow(cells, "The ferry Alma sank in a storm.", Verdict.VERIFIED)
    generated = await Generator(model("7")).answer_table("How many ships sank?", table(ordered))
    assert generated.notes == ("The answer states 7, which stands in no evidence row.",)
    assert generated.citations == ()


@pytest.mark.parametrize(("reply", "noted"), [("3 May 2024", False), ("2024", False), ("4 May 2024", True)])
async def test_the_date_of_a_source_is_one_that_its_row_states(reply: str, noted: bool) -> None:
    source = Source("ferry.md", "Ferries", (1,), date="2024-05-03")
    dated = EvidenceRow({"fact": "It is so."}, "So it is.", Verdict.VERIFIED, source)
    generated = await Generator(model(reply)).answer_table("When was it written?", table(dated))
    assert bool(generated.notes) == noted


async def test_a_fact_without_a_source_is_shown_without_one() -> None:
    asked = model()
    await Generator(asked).answer_table(
        QUESTION, table(EvidenceRow({"fact": "It is so."}, "So it is.", Verdict.VERIFIED))
    )
    assert shown(asked) == '1. fact: It is so.; quote: "So it is."'


async def test_rows_beyond_the_window_are_left_out_from_the_end() -> None:
    rows = [row(f"Alma sailed on day {n} of the year.") for n in range(100, 140)]
    asked = model("day 139", window_tokens=REPLY_TOKENS + 250)
    generated = await Generator(asked).answer_table(QUESTION, table(*rows))
    lines = shown(asked).split("\n")
    assert 0 < len(lines) < 40
    assert [f"day {100 + n} " in line for n, line in enumerate(lines)] == [True] * len(lines)
    assert generated.notes == (
        "The answer states 139, which stands in no evidence row.",
        f"{40 - len(lines)} evidence rows did not fit the model's window.",
    )


# --------------------------------------------------------------------------- whatever there is to read

READINGS = [
    FromValues(FOUND, PlainReader(budget_tokens=4)),
    FromValues(FOUND, PlainReader(k=2)),
    FromTable(table(row("Alma is of 1962."))),
    FromUnits((FERRY,), 640),
]


@pytest.mark.parametrize("reading", READINGS)
async def test_the_time_that_is_left_is_told_to_the_model(reading: Any) -> None:
    asked = model()
    generated = await Generator(asked).generate(QUESTION, reading, 7.5)
    assert generated.text == "1962"
    assert [request.timeout_s for request in asked.asked] == [7.5]


@pytest.mark.parametrize("reading", [*READINGS, FromTable(table()), FromUnits((), 0)])
async def test_a_question_beyond_the_window_is_refused_by_name(reading: Any) -> None:
    asked = ScriptedModel([], window_tokens=700)
    with pytest.raises(InputError, match="too long") as raised:
        await Generator(asked).generate("why " * 700, reading)
    assert (raised.value.field, asked.asked) == ("question", [])


# --------------------------------------------------------------------------- citations

DERIVED = EvidenceRow(
    {"derived": "difference of rows 1 and 2: 1962 - 1901 = 61"},
    "",
    Verdict.DERIVED,
    derivation=Derivation("difference", (1, 2)),
)
AGES = table(row("Alma is of 1962."), row("Runa is of 1901."), row("It is old.", Verdict.UNVERIFIED), DERIVED)


async def test_a_derived_row_is_shown_as_its_arithmetic() -> None:
    asked = model("61 years")
    generated = await Generator(asked).answer_table(QUESTION, AGES)
    assert shown(asked).split("\n")[2] == "4. difference of rows 1 and 2: 1962 - 1901 = 61"
    assert (generated.text, generated.notes, generated.citations) == ("61 years", (), (4,))


async def test_a_number_that_follows_from_no_row_is_noted_beside_derived_ones() -> None:
    generated = await Generator(model("62 years")).answer_table(QUESTION, AGES)
    assert generated.notes == ("The answer states 62, which stands in no evidence row.",)
    assert generated.citations == ()


@pytest.mark.parametrize(
    ("reply", "text", "citations", "notes"),
    [
        ("1962 [1]", "1962", (1,), ()),
        ("Runa [2], not Alma [1][2]", "Runa, not Alma", (2, 1), ()),
        ("61 years [4]", "61 years", (4,), ()),
        ("Runa", "Runa", (2,), ()),  # by rule
        ("Runa [9]", "Runa", (2,), ("The answer cites row 9, which is no row that it was given.",)),
        ("1962 [1] [3]", "1962", (1,), ("The answer cites row 3, which is no row that it was given.",)),
        ("unknown", "unknown", (), ()),
        ("[2]", "", (2,), ("The model cited rows and wrote no answer.",)),
    ],
)
async def test_citations_are_a_value_and_no_part_of_the_text(
    reply: str, text: str, citations: tuple[int, ...], notes: tuple[str, ...]
) -> None:
    generated = await Generator(model(reply)).answer_table(QUESTION, AGES)
    assert (generated.text, generated.citations, generated.notes) == (text, citations, notes)


async def test_a_model_is_asked_to_cite_only_where_that_is_wanted() -> None:
    prompts = []
    for reading in (FromTable(AGES), FromTable(AGES, "model")):
        asked = model("1962 [1]")
        generated = await Generator(asked).generate(QUESTION, reading)
        assert (generated.text, generated.citations) == ("1962", (1,))
        prompts.append(asked.asked[0].messages)
    assert "square brackets" not in prompts[0][0].content
    assert "square brackets" in prompts[1][0].content
    assert prompts[0][1] == prompts[1][1]


async def test_marks_in_an_answer_from_raw_text_are_its_own() -> None:
    generated = await Generator(model("1962 [3]")).answer_units(QUESTION, (FERRY,), 640)
    assert (generated.text, generated.citations) == ("1962 [3]", ())
