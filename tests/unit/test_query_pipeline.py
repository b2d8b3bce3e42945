"""A question end to end: what holds when a stage is missing, down or late, and what is told of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, get_args

import pytest

from mrag.errors import CollectionError, EmptyReplyError, InputError, ModelError, ModelTimeoutError
from mrag.models.language_model import Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.generate import FromTable, FromUnits, FromValues, Generated, Generator, Reading
from mrag.query.neighbours import Around
from mrag.query.pipeline import Pipeline, pool_size
from mrag.query.question import Question
from mrag.query.select import Selection, Selector
from mrag.schema import EvidenceTable, Pool, Source, Usage
from mrag.settings import PlainReader, SaneReader
from tests.query_pool import candidate, pool, ranked

FERRY = candidate("The ferry Alma was built in 1962.", "ferry", title="Ferries", values=("Alma: 1962.",))
BARGE = candidate("The barge Runa was built in 1901.", "barge", title="Barges", values=("Runa: 1901.",))
PIER = candidate("The pier is old.", "pier", values=("An old pier.",))
FOUND = pool(FERRY, BARGE, PIER)
SANE = Question("When was the ferry Alma built?", "harbour", reader=SaneReader(w=3, k=2))
PLAIN = Question("When was the ferry Alma built?", "harbour", reader=PlainReader(budget_tokens=4))
ROW = {"source": "S1", "fact": "The ferry Alma was built in 1962."}
RULES = [
    Rule({"selected": [1, 3]}, purpose="select"),
    Rule({"table": {"schema": "ATOMIC", "rows": [ROW]}}, purpose="evidence"),
    Rule("1962", purpose="answer"),
]


class Stages:
    """The true stages over a scripted model; those in `missing` are None, `down` raise, `late` hang."""

    def __init__(
        self,
        rules: list[Rule] = RULES,
        found: Pool = FOUND,
        missing: tuple[str, ...] = (),
        down: tuple[str, ...] = (),
        late: tuple[str, ...] = (),
        error: Exception | None = None,
    ) -> None:
        self.model = ScriptedModel(rules)
        self.sizes: list[int] = []
        self.left: list[float | None] = []
        self.readings: list[Reading] = []
        self._found, self._missing, self._down, self._late = found, missing, down, late
        self._error = error or ModelError("It is down.")

    def pipeline(self, beside: Any = None) -> Pipeline:
        generator = Generator(self.model)

        async def retrieve(question: Question, w: int) -> Pool:
            self.sizes.append(w)
            return self._found

        async def generate(question: str, reading: Reading, timeout_s: float | None) -> Generated:
            self.readings.append(reading)
            return await generator.generate(question, reading, timeout_s)

        return Pipeline(
            self._stage("retrieve", retrieve),
            self._stage("select", Selector(self.model).select),
            self._stage("extract", EvidenceExtractor(self.model, load_blueprints()).extract),
            self._stage("generate", generate),
            beside,
        )

    def _stage(self, name: str, work: Any) -> Any:
        async def stage(*arguments: Any) -> Any:
            if name != "retrieve":
                self.left.append(arguments[-1])
            if name in self._down:
                raise self._error
            if name in self._late:
                await asyncio.sleep(60)
            return await work(*arguments)

        return None if name in self._missing else stage


async def test_sane_makes_three_calls_and_answers_from_the_table() -> None:
    stages = Stages()
    answer = await stages.pipeline().answer(SANE)
    assert [request.purpose for request in stages.model.asked] == ["select", "evidence", "answer"]
    assert {request.temperature for request in stages.model.asked} == {0.0}
    assert (answer.text, answer.generation, answer.notes) == ("1962", 3, ())
    assert answer.sources == (Source("ferry", "Ferries", (1,)),)
    assert answer.evidence is not None
    assert stages.readings == [FromTable(answer.evidence)]
    assert [trace.stage for trace in answer.trace] == ["retrieve", "select", "extract", "generate"]
    assert [trace.usage.calls for trace in answer.trace] == [0, 1, 1, 1]
    assert sum((trace.usage for trace in answer.trace), Usage()).calls == 3


async def test_the_tokens_of_every_call_are_in_the_trace() -> None:
    stages = Stages()
    answer = await stages.pipeline().answer(SANE)
    counted = [stages.model.count_prompt_tokens(request.messages) for request in stages.model.asked]
    assert [trace.usage.prompt_tokens for trace in answer.trace] == [0, *counted]
    assert all(trace.usage.completion_tokens > 0 for trace in answer.trace[1:])


def read_as_a_form(request: Request) -> object:
    """A reply that suits whatever is asked."""
    if request.purpose == "evidence":
        return {"table": {"schema": "ATOMIC", "rows": [ROW]}}
    if request.schema:
        return {"selected": [2]}
    prompt = request.messages[-1].content
    return "A" if "[A]" in prompt else "-7" if "Write a question" in prompt else "Yes"


@pytest.mark.parametrize(
    "reader",
    [
        PlainReader(),
        PlainReader(k=2),
        *(
            SaneReader(w=3, k=2, select=form)
            for form in get_args(SaneReader.model_fields["select"].annotation)
        ),
        SaneReader(w=3, k=2, read="values", extract=True),
        SaneReader(w=3, k=2, extract=False),
    ],
)
async def test_no_prompt_shows_a_key(reader: PlainReader | SaneReader) -> None:
    texts = ("The ferry Alma was built in 1962.", "The barge is new.", "The pier is old.")
    keyed = pool(*(candidate(text, f"d{n}", key="SECRET KEY") for n, text in enumerate(texts)))
    stages = Stages(found=keyed)
    stages.model = ScriptedModel(read_as_a_form)
    await stages.pipeline().answer(replace(SANE, reader=reader))
    shown = [message.content for request in stages.model.asked for message in request.messages]
    assert any("Alma" in text for text in shown)
    assert not any("SECRET" in text for text in shown)


async def test_selected_candidates_of_a_document_are_read_in_its_order() -> None:
    found = pool(*(candidate(f"Part {n}.", "log", n) for n in (3, 1, 2)), FERRY)
    rules = [Rule({"selected": [1, 4, 2]}, purpose="select"), *RULES[1:]]
    stages = Stages(rules, found=found)
    await stages.pipeline().answer(Question("Which part?", "harbour", reader=SaneReader(w=4, k=3)))
    shown = stages.model.asked[1].messages[-1].content
    assert "Part 2." not in shown
    assert shown.index("Part 1.") < shown.index("Part 3.") < shown.index("Alma")


async def test_plain_makes_one_call_and_reads_the_values() -> None:
    stages = Stages()
    answer = await stages.pipeline().answer(PLAIN)
    assert [request.purpose for request in stages.model.asked] == ["answer"]
    assert stages.readings == [FromValues(FOUND, PLAIN.reader)]  # type: ignore[arg-type]
    assert answer.context is not None
    assert answer.context.text == "Alma: 1962.\n\nRuna: 1901."
    assert answer.sources == (Source("ferry", "Ferries", (1,)), Source("barge", "Barges", (1,)))
    assert (answer.evidence, stages.sizes) == (None, [pool_size(PLAIN.reader)])


@pytest.mark.parametrize("how", ["missing", "down"])
async def test_without_selection_the_retrieval_order_holds(how: str) -> None:
    stages = Stages(**{how: ("select",)})  # type: ignore[arg-type]
    answer = await stages.pipeline().answer(SANE)
    assert answer.text == "1962"
    assert len(answer.notes) == 1
    assert "the retrieval order is kept" in answer.notes[0]
    (evidence, _) = stages.model.asked
    assert "Alma" in evidence.messages[-1].content
    assert "Runa" in evidence.messages[-1].content
    assert "pier" not in evidence.messages[-1].content


@pytest.mark.parametrize("how", ["missing", "down"])
async def test_without_extraction_the_units_are_read(how: str) -> None:
    stages = Stages(**{how: ("extract",)})  # type: ignore[arg-type]
    answer = await stages.pipeline().answer(SANE)
    assert (answer.text, answer.evidence) == ("1962", None)
    assert stages.readings == [FromUnits((FERRY, PIER), SANE.reader.budget_tokens)]
    assert answer.context is not None
    assert answer.context.text == "The ferry Alma was built in 1962.\n\nThe pier is old."
    assert "there is no evidence table" in answer.notes[0]
    assert "reads the source units" in answer.notes[1]


@pytest.mark.parametrize("how", ["missing", "down"])
async def test_without_generation_there_is_evidence_and_no_text(how: str) -> None:
    answer = await Stages(**{how: ("generate",)}).pipeline().answer(SANE)  # type: ignore[arg-type]
    assert (answer.text, answer.context) == ("", None)
    assert answer.sources == (Source("ferry", "Ferries", (1,)),)
    assert "the answer has no text" in answer.notes[0]


async def test_a_reply_of_no_use_is_in_the_trace_at_its_cost() -> None:
    empty = EmptyReplyError("It answered with nothing but white space.")
    empty.tokens = (9, 2)
    answer = await Stages(down=("extract",), error=empty).pipeline().answer(SANE)
    assert [trace.usage for trace in answer.trace if trace.stage == "extract"] == [Usage(1, 9, 2)]


async def test_rows_that_are_not_verified_are_not_read() -> None:
    wrong = {"source": "S1", "fact": "The ferry Alma was built in 1963."}
    rules = [RULES[0], Rule({"table": {"schema": "ATOMIC", "rows": [wrong]}}, purpose="evidence"), RULES[2]]
    stages = Stages(rules)
    answer = await stages.pipeline().answer(SANE)
    assert isinstance(stages.readings[0], FromUnits)
    assert all("1963" not in message.content for message in stages.model.asked[-1].messages)
    assert isinstance(answer.evidence, EvidenceTable)
    assert answer.evidence.facts == ()
    assert "1 of 1 evidence rows could not be verified." in answer.notes


async def test_an_empty_pool_asks_nothing_and_says_so() -> None:
    stages = Stages(found=Pool((), 3, ("The sparse search found nothing and was left out.",)))
    answer = await stages.pipeline().answer(SANE)
    assert (answer.text, answer.sources, answer.evidence, stages.model.asked) == ("", (), None, [])
    assert len(answer.notes) == 2
    assert "holds nothing that matches" in answer.notes[1]


@pytest.mark.parametrize(
    "error", [CollectionError("It is damaged."), ModelError("No encoder."), InputError("question", "Empty.")]
)
async def test_without_retrieval_there_is_no_answer(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await Stages(down=("retrieve",), error=error).pipeline().answer(SANE)
    assert raised.value is error


async def test_what_is_no_failure_of_a_stage_is_not_swallowed() -> None:
    for error in (InputError("question", "Too long."), ZeroDivisionError()):
        with pytest.raises(type(error)):
            await Stages(down=("select",), error=error).pipeline().answer(SANE)


@pytest.mark.parametrize("late", ["select", "extract", "generate"])
async def test_a_late_stage_ends_at_the_deadline_and_costs_what_comes_after(late: str) -> None:
    question = Question(SANE.text, "harbour", reader=SANE.reader, timeout_s=1.0)
    answer = await Stages(late=(late,)).pipeline().answer(question)
    assert answer.text == ""
    assert [trace.stage for trace in answer.trace] == ["retrieve", "select", "extract", "generate"]
    assert f"over at stage {late}: raise timeout_s" in " ".join(answer.notes)
    assert (answer.evidence is not None) == (late == "generate")


async def test_a_late_retrieval_is_a_time_out() -> None:
    question = Question(SANE.text, "harbour", timeout_s=0.05)
    with pytest.raises(ModelTimeoutError, match=r"0\.05 s .* stage retrieve"):
        await Stages(late=("retrieve",)).pipeline().answer(question)


async def test_stages_are_told_what_is_left_of_the_time() -> None:
    stages = Stages()
    await stages.pipeline().answer(SANE)
    assert stages.left == [None, None, None]
    stages = Stages()
    await stages.pipeline().answer(Question(SANE.text, "harbour", reader=SANE.reader, timeout_s=50))
    left = [seconds for seconds in stages.left if seconds is not None]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] <= left[0] <= 50


async def test_a_time_out_inside_a_stage_is_not_blamed_on_the_deadline() -> None:
    answer = await Stages(down=("extract",), error=TimeoutError()).pipeline().answer(SANE)
    assert answer.text == "1962"
    assert answer.notes[0] == "Stage extract failed (Stage extract timed out): there is no evidence table."


@pytest.mark.parametrize("stage", ["retrieve", "select", "extract", "generate"])
async def test_a_cancellation_goes_through(stage: str) -> None:
    task = asyncio.create_task(Stages(late=(stage,)).pipeline().answer(SANE))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_pool_outlasts_what_its_reader_takes() -> None:
    assert pool_size(SaneReader(w=7, k=2)) == 7
    assert pool_size(PlainReader(k=3)) == pool_size(SaneReader(k=3))
    assert pool_size(PlainReader(k=30)) == 30
    assert pool_size(PlainReader(budget_tokens=8)) == 20
    assert pool_size(PlainReader(budget_tokens=800)) == 100


@pytest.mark.parametrize(
    ("value", "reader", "held", "sizes"),
    [
        ("Built: {n}", PlainReader(budget_tokens=60), 1000, [20, 40]),  # 8 of at least 6 * 60 / 9 characters
        ("Built: {n}", PlainReader(budget_tokens=60), 30, [20, 40]),  # there are no more
        ("Built: {n}", PlainReader(budget_tokens=60), 19, [20]),
        ("Built: 1962", PlainReader(budget_tokens=60), 1000, [20, 40, 80]),  # said once
        ("The ferry was built in {n}.", PlainReader(budget_tokens=60), 1000, [20]),
        ("Built: {n}", PlainReader(k=5), 1000, [20]),
        ("Built: {n}", SaneReader(w=7, k=2, select="off"), 1000, [7]),
    ],
)
async def test_a_pool_that_its_budget_outlasts_is_made_again(
    value: str, reader: PlainReader | SaneReader, held: int, sizes: list[int]
) -> None:
    stages = Stages()

    async def retrieve(question: Question, w: int) -> Pool:
        stages.sizes.append(w)
        texts = [value.format(n=1900 + n) for n in range(min(held, w))]
        return pool(*ranked(*(candidate(text, f"d{n}") for n, text in enumerate(texts))))

    pipeline = Pipeline(retrieve, None, None, None)
    answer = await pipeline.answer(replace(PLAIN, reader=reader))
    assert stages.sizes == sizes
    assert [stage.stage for stage in answer.trace] == ["retrieve"]
    assert len((await pipeline.retrieve(PLAIN, 3)).candidates) == 3


async def test_a_pool_of_at_most_k_needs_two_calls() -> None:
    stages = Stages(found=pool(FERRY, PIER))
    answer = await stages.pipeline().answer(SANE)
    assert [request.purpose for request in stages.model.asked] == ["evidence", "answer"]
    assert answer.trace[1].usage == Selection(()).usage


# --------------------------------------------------------------------------- what a reader may choose


def sane(**options: Any) -> Question:
    return Question(SANE.text, "harbour", reader=SaneReader(w=3, k=2, **options))


WRONG = Rule(
    {"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": "It was in 1963."}]}}, purpose="evidence"
)


async def test_without_extraction_two_calls_are_made_and_units_are_read() -> None:
    stages = Stages()
    answer = await stages.pipeline().answer(sane(extract=False, budget_tokens=7))
    assert [request.purpose for request in stages.model.asked] == ["select", "answer"]
    assert stages.readings == [FromUnits((FERRY, PIER), 7)]
    assert answer.notes == ("Evidence is not extracted; the answer reads the source units.",)
    assert (answer.evidence, answer.citations) == (None, ())
    assert [trace.stage for trace in answer.trace] == ["retrieve", "select", "generate"]


async def test_a_reader_may_abstain_for_want_of_evidence() -> None:
    stages = Stages([RULES[0], WRONG, RULES[2]])
    answer = await stages.pipeline().answer(sane(no_evidence="abstain"))
    assert [request.purpose for request in stages.model.asked] == ["select", "evidence"]
    assert (answer.text, answer.sources, answer.context, answer.citations) == ("unknown", (), None, ())
    assert answer.evidence is not None
    assert answer.notes[-1] == "No evidence row is verified: the documents do not answer."
    assert (await Stages().pipeline().answer(sane(no_evidence="abstain"))).text == "1962"


async def test_facts_without_what_is_asked_for_are_as_good_as_none() -> None:
    beside = {"table": {"schema": "ATOMIC", "rows": [{"source": "S2", "fact": "The pier is old."}]}}
    rules = [RULES[0], Rule(beside, purpose="evidence"), RULES[2]]
    stages = Stages(rules)
    answer = await stages.pipeline().answer(sane(budget_tokens=7))
    assert stages.readings == [FromUnits((FERRY, PIER), 7)]
    assert answer.evidence is not None
    assert len(answer.evidence.facts) == 1
    assert answer.notes[-1].startswith("No verified evidence row states a date, which the question asks for;")
    stages = Stages(rules)
    answer = await stages.pipeline().answer(sane(no_evidence="abstain"))
    assert stages.readings == [FromTable(answer.evidence)]  # type: ignore[arg-type]


async def test_a_stage_that_is_down_is_no_silence_of_the_documents() -> None:
    answer = await Stages(down=("extract",)).pipeline().answer(sane(no_evidence="abstain"))
    assert (answer.text, answer.evidence) == ("", None)
    assert answer.notes[-1] == "No evidence row is verified: nothing is answered."


async def test_an_answer_carries_the_rows_that_it_cites() -> None:
    answer = await Stages().pipeline().answer(SANE)
    assert answer.citations == (1,)
    plain = await Stages().pipeline().answer(PLAIN)
    assert plain.citations == ()


async def test_citations_may_be_asked_of_the_model() -> None:
    stages = Stages([*RULES[:2], Rule("1962 [1]", purpose="answer", contains=("square brackets",))])
    answer = await stages.pipeline().answer(sane(citations="model"))
    assert (answer.text, answer.citations) == ("1962", (1,))


BESIDE = candidate("The ferry Alma was sold in 1990.", "ferry", 2, title="Ferries")


async def test_neighbours_are_fetched_for_those_who_want_them() -> None:
    asked: list[Any] = []

    async def beside(*arguments: Any) -> Around:
        asked.append(arguments)
        return Around((BESIDE,))

    question = sane(neighbours=3)
    stages = Stages()
    answer = await stages.pipeline(beside).answer(question)
    assert asked == [(question, (FERRY, PIER), 3, 3)]
    assert "The ferry Alma was sold in 1990." in stages.model.asked[1].messages[-1].content
    assert [trace.stage for trace in answer.trace][1:4] == ["select", "neighbours", "extract"]
    await Stages().pipeline(beside).answer(SANE)
    assert len(asked) == 1


async def test_without_neighbours_the_selected_units_are_read() -> None:
    async def down(*arguments: Any) -> Around:
        raise ModelError("It is down.")

    for beside, note in ((None, "There is no neighbours stage"), (down, "Stage neighbours failed")):
        answer = await Stages().pipeline(beside).answer(sane(neighbours=1))
        assert answer.text == "1962"
        assert answer.notes[0].startswith(note)
        assert answer.notes[0].endswith("no neighbours are shown.")


# --------------------------------------------------------------------------- evidence alone


async def test_evidence_is_the_table_of_the_answer_and_nothing_is_generated() -> None:
    stages = Stages()
    found = await stages.pipeline().evidence(SANE)
    answer = await Stages().pipeline().answer(SANE)
    assert [request.purpose for request in stages.model.asked] == ["select", "evidence"]
    assert (found.evidence, found.sources, found.selected) == (
        answer.evidence,
        answer.sources,
        answer.selected,
    )
    assert [trace.stage for trace in found.trace] == ["retrieve", "select", "extract"]
    assert (found.question, found.generation, found.notes) == (SANE.text, 3, ())


@pytest.mark.parametrize("how", ["missing", "down"])
async def test_evidence_that_can_not_be_had_is_an_error_and_a_lost_selection_none(how: str) -> None:
    with pytest.raises(ModelError):
        await Stages(**{how: ("extract",)}).pipeline().evidence(SANE)  # type: ignore[arg-type]
    found = await Stages(**{how: ("select",)}).pipeline().evidence(SANE)  # type: ignore[arg-type]
    assert any("retrieval order is kept" in note for note in found.notes)


async def test_evidence_of_nothing_is_none() -> None:
    found = await Stages(found=pool()).pipeline().evidence(SANE)
    assert found.evidence is None
    assert "nothing that matches" in found.notes[0]


@pytest.mark.parametrize("question", [PLAIN, replace(SANE, reader=SaneReader(extract=False))])
async def test_evidence_needs_a_reader_that_extracts(question: Question) -> None:
    with pytest.raises(InputError) as caught:
        await Stages().pipeline().evidence(question)
    assert caught.value.field == "reader"
