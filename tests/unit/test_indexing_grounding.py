"""A value says nothing that its source does not: what is invented is refused, what is reworded is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.documents.sentences import sentence_spans
from mrag.indexing.grounding import ungrounded
from mrag.indexing.tagging import Window
from mrag.schema import RecordKind, SourceUnit
from tests.marker_replies import build, document, numbers_of, record, reply

SOURCE = (
    "Harbour notes\nFerries\nThe ferry “Alma” was built in Gdansk on 3 May 1962 for 2.5 million crowns. She "
    'carries ninety passengers, and Captain Antrell calls her "the old lady of Holm". The workshop '
    "constructs Alma-class boats, a 12 m one among them, and VP-09."
)

GROUNDED = [
    "The ferry Alma was built in Gdansk on 3 May 1962.",
    "The Alma, a ferry, was built at Gdansk in 1962, on May 3rd.",
    "The Alma cost 2,500,000 crowns and carries 90 passengers.",
    "Construction of Alma-class boats goes on in the workshop.",
    "Captain Antrell calls the ferry “the old lady of Holm”.",
    "In the Harbour notes, the ferries of Captain Antrell are named.",
    "ALMA carries 90 passengers.",
    "The boat vp-09 is one of the Alma class, as Antrell's are.",
]

NUMBER, NAME, QUOTED, OWN = "a number or a date", "a name", "quotes", "says what"

UNGROUNDED = {
    "The ferry Alma was built in Gdansk on 4 May 1962.": NUMBER,
    "The ferry Alma was built in Gdansk in June 1962.": NUMBER,
    "The ferry Alma carries 900 passengers.": NUMBER,
    "The ferry Alma cost 2.5 billion crowns.": NUMBER,
    "The ferry Alma was built in Danzig.": NAME,
    "Danzig built the ferry Alma on 3 May 1962.": NAME,
    "The workshop constructs Runa-class boats.": NAME,
    "The workshop constructs the boat VP-08.": NAME,
    "Captain Antrell calls her “the lady of Holm”.": QUOTED,
    "She carries «passengers of old».": QUOTED,
    "She says that sheep graze on meadows while farmers sleep.": OWN,
    "她是一只猫，喜欢吃鱼。": OWN,
}


@pytest.mark.parametrize("value", GROUNDED)
def test_a_value_in_other_words_and_notations_is_grounded(value: str) -> None:
    assert ungrounded(value, SOURCE) is None


@pytest.mark.parametrize("value", UNGROUNDED)
def test_what_the_source_does_not_say_is_named(value: str) -> None:
    reason = ungrounded(value, SOURCE)
    assert reason is not None
    assert UNGROUNDED[value] in reason


# --------------------------------------------------------------------------- quotations

CREW = "The captain said: she won't sail before noon, and the crew's old boat isn't hers."


@pytest.mark.parametrize("marks", ["''", "‘’", "‚‘", "«»", "‹›", "“”", "„“", "「」", "『』", '""'])
def test_a_quotation_in_whatever_marks_is_word_for_word(marks: str) -> None:
    opening, closing = marks
    for said in ("she won't sail before noon", "boat isn't hers", "old"):
        assert ungrounded(f"The captain said {opening}{said}{closing}.", CREW) is None
    for said in ("she won't sail before the crew", "captain won't sail", "old crew"):
        assert QUOTED in (ungrounded(f"The captain said {opening}{said}{closing}.", CREW) or "")


@pytest.mark.parametrize(
    "value",
    [
        "The boys' boat was older than the girls' boat.",
        "The girls’ boat was built before the boys’ boat.",
        "In the '90s the girls' best boat was built.",
        "The boys didn't sail and the girls' boat was old.",
    ],
)
def test_an_apostrophe_opens_no_quotation(value: str) -> None:
    source = "In the '90s the girls' best boat was built; the boys' old boat didn't sail before."
    assert ungrounded(value, source) is None


# --------------------------------------------------------------------------- without capitals

FERRY_ZH = "渡船由李明建造，于1962年在上海下水，可载九十名乘客。"
SU_SHI = "苏轼，字子瞻，号东坡居士，四川眉山人，北宋文学家，1037年生。"
LU_XUN = "鲁迅原名周树人，浙江绍兴人，1918年发表《狂人日记》，是中国现代文学的奠基人。"
ASPIRIN = "阿司匹林可缓解轻度疼痛，但胃溃疡患者禁用，儿童须遵医嘱。"
FERRY_JA = "フェリー「アルマ」は1962年にグダニスクの小さな工場で建造され、90人の乗客を運ぶ。"
SOSEKI = "夏目漱石は1867年に江戸で生まれ、1905年に『吾輩は猫である』を発表した小説家である。"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (FERRY_ZH, "这艘渡船是李明于1962年建造的。"),
        (FERRY_ZH, "1962年，渡船在上海首次下水。"),
        (FERRY_ZH, "渡船由李明修建，可以容纳九十名乘客。"),
        (SU_SHI, "北宋文学家苏轼出生在四川眉山。"),
        (SU_SHI, "苏轼来自四川眉山，是北宋时期的文学家。"),
        (LU_XUN, "鲁迅的原名叫做周树人，出生于浙江绍兴。"),
        (LU_XUN, "《狂人日记》是鲁迅在1918年发表的作品。"),
        (ASPIRIN, "胃溃疡患者禁止使用阿司匹林。"),
        (FERRY_JA, "アルマはグダニスクで建造されたフェリーで、90人の乗客を運ぶ。"),
        (SOSEKI, "『吾輩は猫である』は1905年に夏目漱石が発表した小説である。"),
        (SOSEKI, "夏目漱石は江戸で生まれた小説家である。"),
    ],
)
def test_a_rewrite_without_capitals_is_grounded(source: str, value: str) -> None:
    assert ungrounded(value, source) is None


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (FERRY_ZH, "渡船由王伟建造。"),
        (FERRY_ZH, "渡船由李伟建造。"),
        (FERRY_ZH, "渡船由李明建造，于1962年在北京下水。"),
        (FERRY_ZH, "《渡江》由李明建造，于1962年下水。"),
        (SU_SHI, "苏辙，字子瞻，四川眉山人。"),
        (LU_XUN, "胡适发表《狂人日记》，是中国现代文学的奠基人。"),
        (ASPIRIN, "布洛芬可缓解轻度疼痛。"),
        (FERRY_JA, "フェリー「アルマ」は1962年にハンブルクの小さな工場で建造された。"),
        (FERRY_JA, "アルマは1962年に田中の小さな工場で建造された。"),
    ],
)
def test_a_name_without_capitals_must_stand_in_the_source(source: str, value: str) -> None:
    assert NAME in (ungrounded(value, source) or "")


TEXTS = st.text(alphabet=st.sampled_from("abAB19 .,-\"“”»«‘’'「」\n五月李伟アルMay£½"), max_size=80)


@given(TEXTS, TEXTS, TEXTS)
def test_what_is_copied_is_grounded(before: str, value: str, after: str) -> None:
    assert ungrounded(value, f"{before}\n{value}\n{after}") is None


@given(st.integers(0, len(sentence_spans(SOURCE)) - 1), st.integers(1000, 9999))
def test_a_number_that_was_put_in_is_found(at: int, number: int) -> None:
    start, end = sentence_spans(SOURCE)[at]
    value = SOURCE[start:end].rstrip(".") + f", {number} of them."
    assert (ungrounded(value, SOURCE) is None) == (number == 1962)


# --------------------------------------------------------------------------- where a value may stand

UNITS = (
    "The ferry was built in 1962.",
    "It was repaired in Holm.",
    "It was sold in 1988.",
    "It sank in 1990.",
)


@pytest.mark.parametrize(
    ("value", "pointers", "kept"),
    [
        ("The ferry was built in 1962.", [2], True),
        ("The ferry was repaired in Holm.", [3], True),
        ("The ferry was built in 1988.", [2], False),
        ("The ferry was built in 1988.", [3], True),
        ("The ferry was built in 1988.", [2, 3], True),
        ("The Alma was built.", [2], True),
        ("In the Repairs, the ferry was built.", [2], True),
        ("In the Repairs, the ferry was sold.", [4], False),
        ("It came after the Runa.", [2], True),
        ("It came after the Runa.", [4], False),
        ("It sank before the Karen.", [5], True),
    ],
)
def test_the_source_is_what_was_shown_beside_the_units(value: str, pointers: list[int], kept: bool) -> None:
    sections = [("Repairs",), ("Repairs",), (), ()]
    units = tuple(
        SourceUnit("d", at + 2, 0, len(text), text, section)
        for at, (text, section) in enumerate(zip(UNITS, sections, strict=True))
    )
    window = Window("The Alma", units, before="It came after the Runa, and sank.", after="So did the Karen.")
    assert (ungrounded(value, window.around(pointers)) is None) == kept


# --------------------------------------------------------------------------- a model that invents

INVENTIONS = [
    "Queen Maud opened the harbour of Bergen.",
    "The boat was built in 1871.",
    "The mayor said: “never again”.",
    "Cows eat grass every morning beside big trees.",
]


@pytest.mark.parametrize("invention", INVENTIONS)
async def test_of_a_model_that_invents_only_the_document_remains(invention: str) -> None:
    given_document = document("The ferry Alma was built in Gdansk.", "It carries 90 passengers.", "It sails.")
    built, asked = await build(
        given_document,
        lambda request: reply(*(record(number, value=invention) for number in numbers_of(request))),
        window_units=None,
        retries=2,
    )
    assert [(r.keys, r.value, r.pointers, r.kind) for r in built.records] == [
        ((unit.text,), unit.text, (unit.number,), RecordKind.FALLBACK) for unit in built.units
    ]
    assert [numbers_of(request) for request in asked] == [[1, 2, 3]] * 3
    assert sum(built.rejected.values()) == 9
    assert built.coverage.before_repair == 0.0


async def test_one_invention_costs_its_unit_one_more_call() -> None:
    def answer(request: object) -> str:
        invented = [] if request.seed else [2]  # type: ignore[attr-defined]
        return reply(
            *(record(n, value=INVENTIONS[0] if n in invented else "") for n in numbers_of(request))  # type: ignore[arg-type]
        )

    built, asked = await build(document("It sails.", "It rests.", "It sank."), answer, window_units=3)
    assert [numbers_of(request) for request in asked] == [[1, 2, 3], [2]]
    assert {r.kind for r in built.records} == {RecordKind.MARKER}
    assert sum(built.rejected.values()) == 1
