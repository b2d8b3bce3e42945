"""Selection by labels and by one question a candidate: their order, their cost, and what a failure costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import InputError, ModelError, NoLogprobsError
from mrag.models.language_model import Likelihood, Request
from mrag.models.scripted import UNLIKELY, Rule, ScriptedModel, prompt_of
from mrag.query.select import Selection, Selector
from mrag.schema import Pool, Usage
from mrag.settings import SaneReader, SynopsisSettings
from tests.query_pool import candidate, pool

NUMBERS = ("one", "two", "three", "four", "five", "six")
SIX = pool(*(candidate(f"The {word} pier.", f"doc-{n}") for n, word in enumerate(NUMBERS, 1)))
LABELS = SaneReader(k=3, select="labels")
EACH = SaneReader(k=3, select="each")
LIKELIHOOD = SaneReader(k=3, select="likelihood")


def ranks(selection: Selection) -> list[int]:
    return [int(c.document.id.removeprefix("doc-")) for c in selection.candidates]


def many(n: int) -> Pool:
    return pool(*(candidate(f"Pier {i}.", f"doc-{i}") for i in range(1, n + 1)))


def asked_about(request: Request) -> int:
    """The rank of the one candidate that a request of `each` shows."""
    (number,) = re.findall(r"doc-(\d+)", prompt_of(request))
    return int(number)


def judge(scores: Mapping[int, Any]) -> ScriptedModel:
    """Says yes to candidates with these log-probabilities, no to the others; raises what is an error."""

    def reply(request: Request) -> Any:
        score = scores.get(asked_about(request))
        if isinstance(score, ModelError):
            raise score
        return "No" if score is None else {"Yes": score, "No": math.log1p(-math.exp(score))}

    return ScriptedModel(reply)


# --------------------------------------------------------------------------- labels


async def test_labels_are_one_request_of_one_token_fused_with_the_retrieval() -> None:
    model = ScriptedModel([Rule({"F": -0.1, "E": -3.0})])
    selection = await Selector(model).select("Which\npier?", SIX, LABELS, timeout_s=7)
    # the model: F, E, then A to D. 1 has 1/13 + 1/11, 6 has 1/11 + 1/16, 2 has 1/14 + 1/12, 5 has 1/12 + 1/15
    assert ranks(selection) == [1, 2, 6]
    (request,) = model.asked
    prompt = request.messages[-1].content
    assert all(f"[{letter}] doc-{n}\n" in prompt for n, letter in enumerate("ABCDEF", 1))
    assert "Question: Which pier?" in prompt
    assert (request.purpose, request.max_tokens, request.schema) == ("select", 1, None)
    assert 0 < (request.timeout_s or 0) <= 7
    assert selection.usage == Usage(1, model.count_prompt_tokens(request.messages), 1)
    assert selection.notes == ()


async def test_without_a_weight_of_the_retrieval_the_likeliest_letters_are_taken() -> None:
    model = ScriptedModel([Rule({"F": -0.1, "B": -2.0, "E": -3.0})])
    selection = await Selector(model).select("Which pier?", SIX, LABELS.model_copy(update={"rank_weight": 0}))
    assert ranks(selection) == [6, 2, 5]


async def test_beyond_the_alphabet_the_retrieval_order_holds() -> None:
    model = ScriptedModel([Rule({"Z": -0.1, "Y": -1.0})])
    reader = LABELS.model_copy(update={"rank_weight": 0, "k": 28})
    selection = await Selector(model).select("Which pier?", many(30), reader)
    assert ranks(selection) == [26, 25, *range(1, 25), 27, 28]
    assert "[Z] doc-26" in model.asked[0].messages[-1].content
    assert "doc-27" not in model.asked[0].messages[-1].content
    assert selection.notes == ("Selection has letters for 26 candidates; the 4 others kept their rank.",)


async def test_labels_that_fail_leave_the_retrieval_order() -> None:
    error = ModelError("None of the labels is among the 20 likeliest tokens.")
    error.tokens = (50, 1)

    def reply(_: Request) -> Any:
        raise error

    selection = await Selector(ScriptedModel(reply)).select("Which pier?", SIX, LABELS)
    assert (ranks(selection), selection.usage) == ([1, 2, 3], Usage(1, 50, 1))
    assert "the retrieval order was kept" in selection.notes[0]


# --------------------------------------------------------------------------- each


async def test_every_candidate_is_asked_about_alone_and_it_is_said() -> None:
    model = judge({6: -0.1, 5: -0.5})
    selection = await Selector(model).select("Which pier?", SIX, EACH, timeout_s=50)
    # the same: 6, 5, then 1 to 4, which say no
    assert ranks(selection) == [1, 2, 6]
    assert sorted(map(asked_about, model.asked)) == [1, 2, 3, 4, 5, 6]
    assert all((request.purpose, request.max_tokens) == ("select", 1) for request in model.asked)
    assert all(0 < (request.timeout_s or 0) <= 50 for request in model.asked)
    assert selection.notes == ("Selection made 6 requests, one a candidate.",)
    prompts = sum(model.count_prompt_tokens(request.messages) for request in model.asked)
    assert selection.usage == Usage(6, prompts, 6)


async def test_the_most_likely_yes_is_first_without_a_weight_of_the_retrieval() -> None:
    model = judge({6: -0.1, 2: -0.5, 5: -0.2})
    selection = await Selector(model).select("Which pier?", SIX, EACH.model_copy(update={"rank_weight": 0}))
    assert ranks(selection) == [6, 5, 2]


async def test_the_requests_of_a_question_are_the_same_up_to_the_candidate() -> None:
    model = judge({})
    await Selector(model).select("Which pier of the harbour?", SIX, EACH)
    prompts = [prompt_of(request) for request in model.asked]
    shared = "".join(
        same[0] for same in takewhile(lambda some: len(set(some)) == 1, zip(*prompts, strict=False))
    )
    assert "Question: Which pier of the harbour?" in shared
    assert shared.endswith("<candidate>\ndoc-")
    for prompt in prompts:
        _, own = prompt.split("<candidate>")
        assert len(own.split()) < len(shared.split()) / 3


async def test_a_request_that_fails_costs_one_opinion_and_is_named() -> None:
    model = judge({1: ModelError("Too busy."), 6: -0.1, 5: -0.2})
    selection = await Selector(model).select("Which pier?", SIX, EACH)
    # the first counts as first of both orders
    assert ranks(selection)[0] == 1
    assert selection.usage.calls == 5
    assert (
        selection.notes[1] == "Selection has no score of candidate 1 (doc-1) (Too busy): their rank was kept."
    )


async def test_where_no_request_succeeds_the_retrieval_order_holds() -> None:
    model = ScriptedModel([Rule(error="dead")])
    selection = await Selector(model).select("Which pier?", SIX, EACH)
    assert (ranks(selection), selection.usage) == ([1, 2, 3], Usage())
    assert "1 (doc-1), 2 (doc-2), 3 (doc-3), 3 more (scripted was told to fail" in selection.notes[1]


async def test_a_pool_beyond_the_alphabet_is_asked_about_whole() -> None:
    model = judge({30: -0.1, 29: -0.1})
    selection = await Selector(model).select(
        "Which pier?", many(30), EACH.model_copy(update={"rank_weight": 0})
    )
    assert ranks(selection) == [29, 30, 1]
    assert len(model.asked) == 30


# --------------------------------------------------------------------------- likelihood


def likely(scores: Mapping[int, float]) -> ScriptedModel:
    """Finds the question so likely after these candidates, and most unlikely after the others."""
    return ScriptedModel(lambda request: str(scores.get(asked_about(request), -90.0)))


async def test_the_likelier_the_question_the_better_the_candidate() -> None:
    model = likely({6: -20.5, 4: -31.0, 2: -30.9})
    alone = LIKELIHOOD.model_copy(update={"rank_weight": 0})
    selection = await Selector(model).select("Which pier is it?", SIX, alone)
    assert ranks(selection) == [6, 2, 4]
    assert (selection.usage.calls, selection.notes) == (6, ("Selection made 6 requests, one a candidate.",))
    fused = await Selector(model).select("Which pier is it?", SIX, LIKELIHOOD)
    assert ranks(fused) == [2, 1, 6]
    assert all("Which pier" not in prompt_of(request) for request in model.asked)


async def test_the_likelihood_is_that_of_the_question_on_one_line() -> None:
    told: list[str] = []

    class Telling(ScriptedModel):
        async def likelihood(self, request: Request, reply: str) -> Likelihood:
            told.append(reply)
            return Likelihood(-1.0, Usage(1, 9, 1))

    await Selector(Telling(())).select("Which pier\nis it?", SIX, LIKELIHOOD)
    assert set(told) == {"Which pier is it?"}


# --------------------------------------------------------------------------- what they share


@pytest.mark.parametrize("reader", [LABELS, EACH, LIKELIHOOD], ids=lambda reader: reader.select)
async def test_an_engine_without_log_probabilities_lists(reader: SaneReader) -> None:
    error = NoLogprobsError("It gives no log-probabilities: use a selection that needs none.")
    error.tokens = (40, 1)

    def reply(request: Request) -> Any:
        if request.schema is None:
            raise error
        return {"selected": [4, 2]}

    model = ScriptedModel(reply)
    selection = await Selector(model).select("Which pier?", SIX, reader, timeout_s=50)
    assert ranks(selection) == [4, 2, 1]
    weighed, listed = model.asked
    assert (weighed.schema, listed.schema is None) == (None, False)
    assert 0 < (listed.timeout_s or 0) <= 50
    assert selection.usage == Usage(1, 40, 1) + Usage(1, model.count_prompt_tokens(listed.messages), 3)
    (note,) = selection.notes
    assert f"Selection by {reader.select} failed" in note
    assert "candidates were listed instead" in note


async def test_an_engine_that_can_not_list_either_leaves_the_retrieval_order() -> None:
    def reply(request: Request) -> Any:
        raise NoLogprobsError("None.") if request.schema is None else ModelError("Gone.")

    selection = await Selector(ScriptedModel(reply)).select("Which pier?", SIX, EACH)
    assert ranks(selection) == [1, 2, 3]
    assert [note[:19] for note in selection.notes] == ["Selection by each f", "Selection by listed"]


@pytest.mark.parametrize("form", ["listed", "labels", "each", "likelihood"])
async def test_what_is_shown_is_what_the_settings_say(form: str) -> None:
    titled = [candidate(f"Pier {n} is long. It is old.", f"doc-{n}", title="Piers") for n in (1, 2)]
    reader = SaneReader(k=1, select=form, synopsis=SynopsisSettings(metadata_tokens=0, excerpt_tokens=0))  # type: ignore[arg-type]
    model = ScriptedModel(lambda request: "" if request.schema else labels_of(request)[0])
    await Selector(model).select("How long?", pool(*titled), reader)
    prompt = prompt_of(model.asked[0])
    assert "keywords: " in prompt
    assert "described by its keywords." in prompt
    assert not re.search("Piers|excerpt|metadata", prompt)
    text = reader.model_copy(update={"synopsis": SynopsisSettings(full_text_tokens=100)})
    await Selector(model).select("How long?", pool(*titled), text)
    prompt = prompt_of(model.asked[-1])
    assert "Pier 2 is long. It is old.\n" in prompt
    assert "described by its text." in prompt
    assert not re.search("Piers|excerpt|metadata|keywords", prompt)


def labels_of(request: Request) -> str:
    prompt = prompt_of(request)
    return "A" if "<candidates>" in prompt else "-1" if "Write a question" in prompt else "Yes"


def wide(n: int) -> Pool:
    text = " ".join(f"word{i}" for i in range(60))
    return pool(*(candidate(f"{text} {i}.", f"doc-{i}", title="long title " * 9) for i in range(1, n + 1)))


@pytest.mark.parametrize(
    ("form", "window", "note"),
    [
        ("labels", 1100, "shortened to 50%"),
        ("labels", 250, "Only the first"),
        ("each", 150, "shortened to 50%"),
        ("likelihood", 130, "shortened to 50%"),
    ],
)
async def test_a_small_window_shows_less_and_says_so(form: str, window: int, note: str) -> None:
    def reply(request: Request) -> str:
        prompt = prompt_of(request)
        return "A" if "[A]" in prompt else "-7" if "Write a question" in prompt else "No"

    model = ScriptedModel(reply, window_tokens=window)
    selection = await Selector(model).select("Which pier?", wide(12), SaneReader(k=3, select=form))  # type: ignore[arg-type]
    assert ranks(selection) == [1, 2, 3]
    assert any(note in sentence for sentence in selection.notes)
    assert all(model.count_prompt_tokens(request.messages) < window for request in model.asked)


@pytest.mark.parametrize("reader", [LABELS, EACH, LIKELIHOOD], ids=lambda reader: reader.select)
async def test_a_question_beyond_the_window_is_refused_by_name(reader: SaneReader) -> None:
    with pytest.raises(InputError, match="too long") as error:
        await Selector(ScriptedModel([], window_tokens=500)).select("why " * 500, SIX, reader)
    assert error.value.field == "question"


async def test_off_asks_nothing() -> None:
    model = ScriptedModel([])
    selection = await Selector(model).select("Which pier?", SIX, SaneReader(k=3, select="off"))
    assert (ranks(selection), model.asked, selection.usage, selection.notes) == ([1, 2, 3], [], Usage(), ())


# --------------------------------------------------------------------------- a retrieval that is sure

SURE = pool(
    *(
        replace(one, scores={"dense": dense, "sparse": sparse})
        for one, dense, sparse in zip(
            SIX.candidates, [0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [9, 10, 8, 5, 4, 2], strict=True
        )
    )
)  # dense (0.7 - 0.3) / 0.8 = 0.5; sparse (8 - 5) / 8 = 0.375


@pytest.mark.parametrize(("skip_margin", "asked"), [(None, 1), (0.0, 0), (0.3, 0), (0.375, 0), (0.4, 1)])
async def test_a_retrieval_that_is_sure_needs_no_selection(skip_margin: float | None, asked: int) -> None:
    model = ScriptedModel([Rule({"selected": [6, 5, 4]})])
    selection = await Selector(model).select("Which pier?", SURE, SaneReader(k=3, skip_margin=skip_margin))
    assert (len(model.asked), selection.usage.calls) == (asked, asked)
    skipped = "Selection was skipped: all searches put the same 3 candidates first, by 38%."
    assert (ranks(selection), selection.notes) == (([6, 5, 4], ()) if asked else ([1, 2, 3], (skipped,)))


async def test_a_retrieval_that_disagrees_is_never_sure() -> None:
    model = ScriptedModel([Rule({"selected": [6]})])
    selection = await Selector(model).select("Which pier?", SURE, SaneReader(k=2, skip_margin=0.0))
    assert (len(model.asked), ranks(selection)) == (0, [1, 2])
    selection = await Selector(model).select("Which pier?", SURE, SaneReader(k=1, skip_margin=0.0))
    assert (len(model.asked), ranks(selection)) == (1, [6])
    await Selector(model).select("Which pier?", SIX, SaneReader(k=3, skip_margin=0.0))
    assert len(model.asked) == 2


# --------------------------------------------------------------------------- properties (scenarios 30, 31)

SCORE = st.floats(UNLIKELY, 0)
REPLY = st.one_of(
    st.sampled_from(["timeout", "dead", "empty"]).map(lambda error: Rule(error=error)),  # type: ignore[arg-type]
    st.sampled_from([NoLogprobsError("None."), ModelError("Gone.")]),
    st.text(st.sampled_from('0123456789-,[]{}":. selctd\n'), max_size=30),
    st.lists(st.integers(-3, 9), max_size=8).map(lambda listed: {"selected": listed}),
    st.dictionaries(st.sampled_from("ABCDEF"), SCORE),
    st.fixed_dictionaries({"Yes": SCORE, "No": SCORE}),
    st.sampled_from(["Yes", "No", "A", "F", "G", " "]),
)


@given(
    st.lists(REPLY, min_size=1, max_size=8),
    st.sampled_from(["listed", "labels", "each", "likelihood", "off"]),
    st.integers(1, 8),
    st.integers(0, 6),
    st.sampled_from([0.0, 1.0]),
)
async def test_min_of_k_and_w_distinct_candidates_of_the_pool_whatever_is_replied(
    replies: list[Any], form: Any, k: int, w: int, rank_weight: float
) -> None:
    def reply(_: Request) -> Any:
        given = replies[len(model.asked) % len(replies)]
        if isinstance(given, ModelError):
            raise given
        return given

    model = ScriptedModel(reply)
    reader = SaneReader(k=k, select=form, rank_weight=rank_weight)
    selection = await Selector(model).select("Which pier?", Pool(SIX.candidates[:w]), reader)
    chosen = ranks(selection)
    assert len(chosen) == len(set(chosen)) == min(k, w)
    assert set(chosen) <= set(range(1, w + 1))
    assert selection.usage.calls <= len(model.asked)
