"""Evidence: what is asked, what is saved of a reply, and a blueprint that needs no code."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mrag.errors import InputError, ModelError
from mrag.models.language_model import Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor, Extraction
from mrag.query.verify import Cited, Draft, verify
from mrag.schema import Candidate, Derivation, EvidenceRow, Source, Verdict
from mrag.settings import SaneReader
from tests.query_pool import candidate, info, unit

FERRY = candidate("The ferry Alma was built in 1962. It carries 90 passengers.", "ferry", title="Ferries")
BARGE = candidate("The barge Runa was built in 1901.", "barge", title="Barges")
BUILT = "The ferry Alma was built in 1962."
ROW = {"source": "S1", "fact": BUILT}
VERIFIED = EvidenceRow({"fact": BUILT}, BUILT, Verdict.VERIFIED, Source("ferry", "Ferries", (1,)))


def table(*rows: object, schema: str = "ATOMIC") -> dict[str, Any]:
    return {"table": {"schema": schema, "rows": list(rows)}}


async def extracted(reply: object, quoting: str = "pointed", **options: Any) -> Extraction:
    extractor = EvidenceExtractor(ScriptedModel([Rule(reply)]), load_blueprints())
    reader = SaneReader(quoting=quoting, **options)  # type: ignore[arg-type]
    return await extractor.extract("When was the ferry Alma built?", [FERRY, BARGE], reader)


WHOLE = json.dumps(table(ROW))


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE,
        f"<think>{json.dumps(table({'source': 'S3', 'fact': 'x'}))}</think>```json\n{WHOLE}\n```",
        f"Here is the table:\n{WHOLE}\nI hope it helps.",
        WHOLE[:-3],  # cut
        json.dumps({"schema": "ATOMIC", "rows": [ROW]}),
        f'{{"schema": "ATOMIC"}} {json.dumps(ROW)}',
        json.dumps(table(ROW, ROW)),  # said twice
        json.dumps(table({**ROW, "source": "[S1]"})),
        json.dumps(table({**ROW, "extra": None, "nested": {"a": 1}, "list": [1]})),
        json.dumps(table("no row", 5, None, [], {}, ROW)),
    ],
)
async def test_a_row_is_saved_whatever_surrounds_it(reply: str) -> None:
    extraction = await extracted(reply)
    assert extraction.table.rows == (VERIFIED,)
    assert (extraction.table.schema, extraction.table.columns) == ("ATOMIC", ("fact",))
    assert (extraction.notes, extraction.usage.calls) == ((), 1)


@pytest.mark.parametrize(
    "reply",
    [
        *("There is no evidence.", "{", "[]", '{"table": null}', '{"table": {"rows": "S1"}}', "{}" * 50),
        f"{WHOLE}</think>There is none.",
    ],
)
async def test_a_reply_without_rows_is_noted(reply: str) -> None:
    extraction = await extracted(reply)
    assert extraction.table.rows == ()
    assert extraction.notes == ("No evidence was extracted.",)


@pytest.mark.parametrize("source", ["S0", "S4", "S99", "", "Ferries", None, -1, ["S1"]])
async def test_a_row_of_no_sentence_is_unverified(source: object) -> None:
    extraction = await extracted(table({**ROW, "fact": "The Alma is of 1962.", "source": source}))
    assert [row.verdict for row in extraction.table.rows] == [Verdict.UNVERIFIED]
    assert extraction.table.facts == ()
    assert extraction.notes == ("1 of 1 evidence rows could not be verified.",)


@pytest.mark.parametrize(
    ("source", "holds"),
    [("S2", True), ("S3", False), ("S0", False), ("", False), ("Ferries", False), (None, False)],
)
async def test_a_sentence_written_down_is_found_in_the_document_that_is_named(
    source: object, holds: bool
) -> None:
    (row,) = (await extracted(table({**ROW, "source": source}))).table.rows
    found = (Verdict.VERIFIED, VERIFIED.source) if holds else (Verdict.UNVERIFIED, None)
    assert (row.verdict, row.source) == found


async def test_the_quote_of_a_pointed_row_is_the_sentence_and_never_the_models_words() -> None:
    row = {**ROW, "quote": "It was built of gold.", "evidence quote": "It was built of gold."}
    assert (await extracted(table(row))).table.rows == (VERIFIED,)


async def test_a_copied_quote_is_checked() -> None:
    rows = (
        {**ROW, "quote": "ferry  Alma was built in 1962"},
        {**ROW, "quote": "ferry Alma was built in 1963", "fact": "It is so."},
        {"quote": "was built in 1901", "source": "S1", "fact": "It is old."},  # of another document
    )
    found = (await extracted(table(*rows), "copied")).table
    assert [row.verdict for row in found.rows] == [Verdict.VERIFIED, *[Verdict.UNVERIFIED] * 2]
    assert found.rows[0].quote == "ferry Alma was built in 1962"


async def test_half_characters_and_numbers_beyond_all_bounds_never_leave_a_reply() -> None:
    reply = (
        r'{"table": {"schema": "OTHER: x\ud83d", "rows": [{"source": "S1", "fact\udc00": "so \ud83d it is", '
        r'"quote": "\ud83d", "much": 1e400, "little": -1e400, "none": NaN}]}}'
    )
    for quoting in ("pointed", "copied"):
        found = (await extracted(reply, quoting)).table
        assert found.rows[0].cells == {"fact\ufffd": "so \ufffd it is"}
        assert found.schema == "OTHER"
        str(found).encode()


async def asked(**options: Any) -> Request:
    model = ScriptedModel([Rule(table())])
    reader = SaneReader(**options)
    await EvidenceExtractor(model, load_blueprints()).extract("When?", [FERRY], reader)
    [request] = model.asked
    return request


async def test_rows_are_bounded_and_what_is_left_out_is_told() -> None:
    rows = [{"source": "S1", "fact": f"Fact {n} is so."} for n in range(15)]
    for options, most in (({}, 12), ({"max_rows": 2}, 2)):
        found = await extracted(table(*rows), **options)
        assert len(found.table.rows) == most
        assert f"{15 - most} evidence rows beyond max_rows were left out." in found.notes
    request = await asked(max_rows=2)
    assert (request.max_tokens, request.schema is not None) == (256, True)
    assert '"maxItems": 12' not in json.dumps(request.schema)


async def test_the_forms_of_quoting_show_the_same_example() -> None:
    examples = {}
    for quoting in ("pointed", "copied"):
        request = await asked(quoting=quoting)
        assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
        examples[quoting] = json.loads(request.messages[2].content)["table"]["rows"]
        assert request.schema is not None
        atomic = request.schema["properties"]["table"]["anyOf"][0]["properties"]["rows"]["items"]
        assert all(list(row) == list(atomic["properties"]) for row in examples[quoting])
    shown = request.messages[1].content
    assert all(row.pop("quote") in shown for row in examples["copied"])
    assert [row["fact"] for row in examples["copied"]] == [row["fact"] for row in examples["pointed"]]


async def test_a_table_has_the_columns_of_its_blueprint() -> None:
    row = {"source": "S2", "entity": "Alma", "dimension": "passengers", "value": 90, "unit": None}
    found = (await extracted(table(row, schema="COMPARATIVE"))).table
    assert found.schema == "COMPARATIVE"
    assert found.columns == ("entity", "dimension", "value", "unit")
    assert [row.verdict for row in found.rows] == [Verdict.VERIFIED]
    assert found.rows[0].cells["value"] == "90"


async def test_a_schema_of_the_models_own_is_kept() -> None:
    own = {"source": "S1", "ship": "Alma", "year": "1962"}
    found = (await extracted(table(own, schema="OTHER: ships"))).table
    assert (found.schema, found.columns) == ("OTHER: ships", ("ship", "year"))
    assert [row.verdict for row in found.rows] == [Verdict.VERIFIED]


@pytest.mark.parametrize(
    "column",
    [
        "built in 1901",
        "built in nineteen",
        "sold to Runa",
        "ship that was never built in the docks",
        "of (5)",
    ],
)
async def test_a_column_of_the_models_own_states_nothing(column: str) -> None:
    own = {"source": "S1", "Ship": "Alma", column: "1962"}
    found = (await extracted(table(own, schema="OTHER: ships"))).table
    assert [row.cells for row in found.rows] == [{"Ship": "Alma"}]


async def test_rows_are_ordered_only_in_the_blueprint_that_orders_them() -> None:
    event = {"source": "S1", "event": BUILT, "position": 7}
    assert len((await extracted(table(event, schema="TEMPORAL"))).table.facts) == 1
    own = {"source": "S1", "ship": "Alma", "position": 7}
    assert (await extracted(table(own, schema="OTHER: ships"))).table.facts == ()


async def test_a_model_that_fails_and_a_question_beyond_the_window_are_raised() -> None:
    down = EvidenceExtractor(ScriptedModel([Rule(error="dead")]), load_blueprints())
    with pytest.raises(ModelError):
        await down.extract("Which ferry?", [FERRY])
    small = EvidenceExtractor(ScriptedModel([], window_tokens=900), load_blueprints())
    with pytest.raises(InputError, match="too long") as error:
        await small.extract("why " * 900, [FERRY])
    assert error.value.field == "question"


@pytest.mark.parametrize("quoting", ["pointed", "copied"])
@pytest.mark.parametrize(
    ("text", "letter"), [("It is old.", "S"), ("The valve S1 is shut.", "A"), ("Valves S1, A7 and B2.", "C")]
)
async def test_the_worked_example_has_the_letter_of_the_sheet(quoting: str, text: str, letter: str) -> None:
    model = ScriptedModel([Rule(table())])
    reader = SaneReader(quoting=quoting)  # type: ignore[arg-type]
    await EvidenceExtractor(model, load_blueprints()).extract(
        "Which valve?", [candidate(text), FERRY], reader
    )
    (request,) = model.asked
    *before, last = (message.content for message in request.messages)
    assert set(re.findall(r"^\[([A-Z]+)\d+\]", last, re.MULTILINE)) == {letter}
    example = "\n".join(before)
    assert set(re.findall(r"\b([A-Z]+)\d+\b", example)) == {letter}
    assert "${" not in example


async def test_the_worked_example_points_to_the_sentences_that_say_so() -> None:
    model = ScriptedModel([Rule(table())])
    await EvidenceExtractor(model, load_blueprints()).extract("Which ferry?", [FERRY])
    _, asked, answered, _ = (message.content for message in model.asked[0].messages)
    sentences = dict(re.findall(r"^\[(S\d)\] (.*)$", asked, re.MULTILINE))
    example = json.loads(answered)["table"]
    assert example["schema"] == "ATOMIC"
    assert len(example["rows"]) == 2
    for row in example["rows"]:
        place = Cited(unit(sentences[row["source"]]), info())
        draft = Draft({"fact": row["fact"]}, place.unit.text, place)
        assert verify(draft, [place]).verdict is Verdict.VERIFIED


async def test_units_beyond_the_window_are_left_out_from_the_end() -> None:
    many = [candidate(f"Pier {n} " + "is long and old " * 20, f"d{n}") for n in range(20)]
    model = ScriptedModel([Rule(table())], window_tokens=1600)
    extraction = await EvidenceExtractor(model, load_blueprints()).extract("Which pier?", many)
    (request,) = model.asked
    shown = [n for n in range(20) if f"Pier {n} " in request.messages[-1].content]
    assert 0 < len(shown) < 20
    assert shown == list(range(len(shown)))
    assert f"{20 - len(shown)} source units did not fit the model's window." in extraction.notes


@pytest.mark.parametrize("words", ["long " * 15000, "<x" * 36000, "9" * 72000])
async def test_a_document_with_long_metadata_blocks_no_question(words: str) -> None:
    metadata = {"keywords": words, words: "x", "list": [words], "of": {"it": words}} | {
        f"field {n}": words for n in range(500)
    }
    long = candidate(BUILT, "ferry", title=words, section=(words,) * 50, metadata=metadata)
    model = ScriptedModel([Rule(table(ROW))])
    extraction = await EvidenceExtractor(model, load_blueprints()).extract("When was it built?", [long])
    assert [row.verdict for row in extraction.table.rows] == [Verdict.VERIFIED]
    assert len(model.asked[0].messages[-1].content) < 1000


# --------------------------------------------------------------------------- derived rows

SHIPS = (
    {"source": "S2", "entity": "Alma", "dimension": "passengers", "value": "90"},
    {"source": "S1", "entity": "Alma", "dimension": "built", "value": "1962"},
    {"source": "S3", "entity": "Runa", "dimension": "built", "value": "1901"},
)
AGE = {"operation": "difference", "from": [2, 3], "value": "61"}


def comparative(*claimed: object, rows: tuple[object, ...] = SHIPS) -> dict[str, Any]:
    return {"table": {"schema": "COMPARATIVE", "rows": list(rows), "derived": list(claimed)}}


async def test_a_derived_row_stands_after_those_it_is_computed_from() -> None:
    found = (await extracted(comparative(AGE))).table
    assert [row.verdict for row in found.rows] == [*[Verdict.VERIFIED] * 3, Verdict.DERIVED]
    assert found.rows[3] == EvidenceRow(
        {"derived": "difference of rows 2 and 3: 1962 - 1901 = 61"},
        "",
        Verdict.DERIVED,
        derivation=Derivation("difference", (2, 3)),
    )
    assert (found.schema, found.columns) == ("COMPARATIVE", ("entity", "dimension", "value", "unit"))
    assert list(found.numbered_facts) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "claimed",
    [
        {**AGE, "value": "62"},
        {**AGE, "from": [1, 9]},
        {**AGE, "from": ["2", "3"]},
        {**AGE, "from": [2.0, 3.0]},
        {**AGE, "from": [True, 3]},
        {**AGE, "from": []},
        {**AGE, "operation": None},
        {**AGE, "operation": ["sum"]},
        {**AGE, "value": {"is": 61}},
        {**AGE, "value": None},
    ],
)
async def test_a_derived_row_that_does_not_follow_is_dropped_with_a_note(claimed: object) -> None:
    extraction = await extracted(comparative(claimed))
    assert [row.verdict for row in extraction.table.rows] == [Verdict.VERIFIED] * 3
    assert extraction.notes == ("1 of 1 derived rows did not follow from verified rows and were dropped.",)


@pytest.mark.parametrize("claimed", ["61", None, [], {}, {"value": "61"}, {"from": [2, 3], "value": "61"}])
async def test_what_is_no_derived_row_costs_nothing(claimed: object) -> None:
    extraction = await extracted(comparative(claimed))
    assert (len(extraction.table.rows), extraction.notes) == (3, ())


async def test_nothing_follows_from_a_row_that_is_not_verified() -> None:
    rows = (*SHIPS[:2], {**SHIPS[2], "value": "1911"})
    extraction = await extracted(comparative({**AGE, "value": "51"}, rows=rows))
    assert extraction.table.rows[2].verdict is Verdict.UNVERIFIED
    assert len(extraction.table.rows) == 3


@pytest.mark.parametrize("text", ["{}{}", "{} and {}", '{{"rows": [{}]}} {}', "[{}, {}"])
async def test_a_derived_row_of_a_broken_table_is_read(text: str) -> None:
    rows = ", ".join(map(json.dumps, SHIPS))
    found = (await extracted(text.format(rows, json.dumps(AGE)))).table
    assert [row.verdict for row in found.rows] == [*[Verdict.VERIFIED] * 3, Verdict.DERIVED]


async def test_derived_rows_can_be_switched_off() -> None:
    assert len((await extracted(comparative(AGE), derive=False)).table.rows) == 3
    for derive in (True, False):
        (request,) = await asked_by(SaneReader(derive=derive))
        assert ('"derived"' in request.messages[0].content) == derive
        assert ('"derived"' in json.dumps(request.schema)) == derive


async def test_only_a_blueprint_of_figures_offers_derived_rows() -> None:
    (request,) = await asked_by(SaneReader())
    assert request.schema is not None
    tables = request.schema["properties"]["table"]["anyOf"]
    offering = [t["properties"]["schema"].get("const") for t in tables if "derived" in t["properties"]]
    assert offering == ["COMPARATIVE"]
    assert all(t["required"] == ["schema", "rows"] for t in tables)


# --------------------------------------------------------------------------- what is shown


async def asked_by(reader: SaneReader, *candidates: Candidate, **options: Any) -> list[Request]:
    model = ScriptedModel([Rule(table())], **options)
    extractor = EvidenceExtractor(model, load_blueprints())
    await extractor.extract("When was it built?", candidates or (FERRY, BARGE), reader)
    return model.asked


def lines(request: Request) -> list[str]:
    return request.messages[-1].content.split("\n</sources>")[0].split("\n")[1:]


@pytest.mark.parametrize("quoting", ["pointed", "copied"])
async def test_without_blueprints_the_columns_are_the_models_own(quoting: str) -> None:
    reader = SaneReader(blueprints=False, quoting=quoting)  # type: ignore[arg-type]
    (request,) = await asked_by(reader)
    prompt = "".join(message.content for message in request.messages)
    assert not any(name in prompt for name in ("ATOMIC", "COMPARATIVE", "TEMPORAL", "$", "${"))
    assert "Design the columns that suit the question" in prompt
    assert request.schema is not None
    (own,) = request.schema["properties"]["table"]["anyOf"]
    assert own["properties"]["rows"]["items"]["additionalProperties"] == {"type": "string", "maxLength": 400}
    found = (
        await extracted(table({"source": "S1", "ship": "Alma", "built": "1962"}), blueprints=False)
    ).table
    assert len(found.facts) == 1


async def test_the_worked_example_without_blueprints_is_one_that_holds() -> None:
    (request,) = await asked_by(SaneReader(blueprints=False))
    _, asked, answered, _ = (message.content for message in request.messages)
    sentences = dict(re.findall(r"^\[(S\d)\] (.*)$", asked, re.MULTILINE))
    for row in json.loads(answered)["table"]["rows"]:
        place = Cited(unit(sentences[row.pop("source")]), info())
        assert verify(Draft(row, place.unit.text, place), [place]).verdict is Verdict.VERIFIED


VALUED = candidate(
    "The ferry Alma was built in 1962. It carries 90 passengers.",
    "ferry",
    title="Ferries",
    values=("Alma has 90 seats. The ferry Alma was built in 1962.", "Alma has 90 seats."),
)


async def test_values_are_shown_in_place_of_units() -> None:
    (request,) = await asked_by(SaneReader(read="values"), VALUED, BARGE)
    assert lines(request) == [
        "From: Ferries",
        "[S1] Alma has 90 seats.",
        "[S2] The ferry Alma was built in 1962.",
        "[S3] Alma has 90 seats.",
        "From: Barges",
        "[S4] The barge Runa was built in 1901.",
    ]
    (request,) = await asked_by(SaneReader(read="values", quoting="copied"), VALUED)
    assert lines(request)[1:] == [
        "[S1] Alma has 90 seats. The ferry Alma was built in 1962.",
        "[S2] Alma has 90 seats.",
    ]


async def test_a_row_of_a_value_is_verified_only_where_its_words_stand_in_the_unit() -> None:
    rows = [{"source": "S1", "fact": "It has 90 seats."}, {"source": "S2", "fact": "It is of 1962."}]
    model = ScriptedModel([Rule(table(*rows))])
    extractor = EvidenceExtractor(model, load_blueprints())
    found = (await extractor.extract("What of Alma?", [VALUED], SaneReader(read="values"))).table
    assert [row.verdict for row in found.rows] == [Verdict.UNVERIFIED, Verdict.VERIFIED]
    assert found.rows[1].quote == BUILT
    assert found.rows[1].source == Source("ferry", "Ferries", (1,))


async def test_neighbours_are_shown_in_their_order_as_far_as_the_window_has_room() -> None:
    two = candidate("The second pier is new.", "piers", 2)
    around = [candidate(f"Pier {n} is " + "very old " * 30, "piers", n) for n in (1, 3, 4)]
    model = ScriptedModel([Rule(table({"source": "S1", "fact": "Pier 1 is very old"}))] * 2)
    extractor = EvidenceExtractor(model, load_blueprints())
    extraction = await extractor.extract("Which pier?", [two], SaneReader(), around)
    assert [line[:11] for line in lines(model.asked[0])] == [
        *("From: piers", "[S1] Pier 1", "[S2] The se", "[S3] Pier 3", "[S4] Pier 4"),
    ]
    assert (extraction.table.rows[0].verdict, extraction.notes) == (Verdict.VERIFIED, ())
    whole = model.count_prompt_tokens(model.asked[0].messages)
    for missing, shown in ((0, 4), (1, 3), (65, 2), (129, 1)):  # 64 words a pier, its label included
        window = next(n for n in range(512, 8192) if n - n // 4 >= whole - missing)
        model = ScriptedModel([Rule(table())], window_tokens=window)
        extraction = await EvidenceExtractor(model, load_blueprints()).extract(
            "Which pier?", [two], SaneReader(), around
        )
        assert len(lines(model.asked[0])) == 1 + shown
        assert "The second pier" in model.asked[0].messages[-1].content
        assert extraction.notes == ("No evidence was extracted.",)
