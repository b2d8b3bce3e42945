"""Questions files, and where in a collection their gold stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import InputError, NotFoundError
from mrag.evaluation.gold import Gold, locate
from mrag.evaluation.questions import GoldQuestion, read_questions, subset
from mrag.schema import Candidate, Document, DocumentInfo, SourceUnit

TEXT = "First one.\n\n \t\nSecond paragraph\nof two lines, which is\nlong.\n\nThird."
SPANS = [(0, 10), (15, 45), (46, 60), (62, 68)]


class Collected:
    """One document of three paragraphs, the second of which is two units."""

    def document(self, document_id: str) -> Document:
        if document_id != "d":
            raise NotFoundError("document", "no")
        return Document("d", TEXT)

    def units(self, document_id: str) -> tuple[SourceUnit, ...]:
        return tuple(
            SourceUnit("d", number, start, end, TEXT[start:end])
            for number, (start, end) in enumerate(SPANS, 1)
        )


def question(**fields: Any) -> GoldQuestion:
    return GoldQuestion.model_validate({"id": "q", "question": "What?", **fields})


def paragraph(number: int, document: str = "d") -> dict[str, Any]:
    return {"doc_id": document, "para_idx": number}


def candidate(document: str, *units: int) -> Candidate:
    made = tuple(SourceUnit(document, number, 0, 1, "x") for number in units)
    return Candidate(DocumentInfo(document), made, (), "key", 1.0)


def at(gold: Gold) -> list[set[int]]:
    return [{number for _, number in passage} for passage in gold.passages]


def test_paragraphs_are_the_blocks_between_blank_lines() -> None:
    gold = locate(question(gold_paragraphs=[paragraph(0), paragraph(1), paragraph(2)]), Collected(), {})
    assert (at(gold), gold.missing) == ([{1}, {2, 3}, {4}], ())


def test_sentences_are_found_whatever_their_white_space() -> None:
    texts = ["Second  paragraph of", "lines,  which\nis long.", "First one. Second"]
    gold = locate(question(gold_sentences=[{"doc_id": "d", "text": text} for text in texts]), Collected(), {})
    assert (at(gold), gold.missing) == ([{2}, {2, 3}, {1, 2}], ())


def test_a_duplicate_stands_for_the_document_that_holds_its_text() -> None:
    asked = question(gold_doc_ids=["copy"], gold_paragraphs=[paragraph(2, "copy")])
    gold = locate(asked, Collected(), {"copy": "d"})
    assert (gold.documents, at(gold), gold.missing) == ({"d"}, [{4}], ())


def test_what_is_not_there_is_named_and_never_found() -> None:
    gold = locate(
        question(
            gold_doc_ids=["d", "gone"],
            gold_paragraphs=[paragraph(1), paragraph(3), paragraph(-1), paragraph(0, "gone")],
            gold_sentences=[{"doc_id": "d", "text": "never said"}, {"doc_id": "d", "text": " "}],
        ),
        Collected(),
        {},
    )
    assert gold.missing == (
        "gone",
        "d, paragraph 3",
        "d, paragraph -1",
        "gone, paragraph 0",
        "d, 'never said'",
        "d, ' '",
    )
    found = gold.recall([candidate("d", 1, 2, 3, 4)], [1])
    assert found == {"documents": {1: 1 / 2}, "passages": {1: 1 / 6}}


def test_recall_counts_what_the_first_candidates_hold() -> None:
    asked = question(gold_doc_ids=["d", "e"], gold_paragraphs=[paragraph(1), paragraph(2)])
    gold = locate(asked, Collected(), {})
    pool = [candidate("x", 3), candidate("d", 3), candidate("e", 1), candidate("d", 4)]
    assert gold.recall(pool, [1, 2, 3, 9]) == {
        "documents": {1: 0.0, 2: 0.5, 3: 1.0, 9: 1.0},
        "passages": {1: 0.0, 2: 0.5, 3: 0.5, 9: 1.0},
    }
    assert gold.recall([], [1]) == {"documents": {1: 0.0}, "passages": {1: 0.0}}
    assert locate(question(), Collected(), {}).recall(pool, [1]) == {}


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_recall_grows_with_k_and_ends_at_what_the_pool_holds(pool: list[str], wanted: set[str]) -> None:
    gold = Gold(frozenset(wanted), ())
    found = gold.recall([candidate(name, 1) for name in pool], range(1, 14))["documents"]
    assert list(found.values()) == sorted(found.values())
    assert found[13] == len(wanted & set(pool)) / len(wanted)


# --------------------------------------------------------------------------- files


def write(tmp_path: Path, *lines: Any) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return file


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    full = {
        "id": "q1",
        "question": "A line\u2028separator?",
        "answers": ["yes"],
        "gold_doc_ids": ["d"],
        "gold_paragraphs": [paragraph(0)],
        "gold_sentences": [{"doc_id": "d", "sent_idx": 3, "text": "x"}],
        "type": "what no measure needs",
    }
    raw = json.dumps(full, ensure_ascii=False)
    read = read_questions(write(tmp_path, raw, " ", {"id": "q2", "question": "Bare?"}, ""))
    assert read == [GoldQuestion.model_validate(full), question(id="q2", question="Bare?")]
    assert len(read[0].passages) == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "Invalid JSON"),
        ({"id": "q"}, "question Field required"),
        ({"id": 7, "question": "What?"}, "id Input should be a valid string"),
        (
            {"id": "q", "question": "What?", "gold_paragraphs": [{"doc_id": "d"}]},
            "gold_paragraphs.0.para_idx",
        ),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: Any, says: str) -> None:
    file = write(tmp_path, {"id": "q", "question": "What?"}, line)
    with pytest.raises(InputError, match=rf"questions\.jsonl:2 is no question: .*{says}"):
        read_questions(file)


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no question"):
        read_questions(write(tmp_path, "", ""))
    with pytest.raises(InputError, match="Can't read"):
        read_questions(tmp_path / "missing.jsonl")


@given(st.integers(1, 30), st.none() | st.integers(1, 40), st.integers(0, 3))
def test_a_subset_keeps_the_order_and_is_the_same_for_a_seed(
    count: int, limit: int | None, seed: int
) -> None:
    everything = [question(id=str(number)) for number in range(count)]
    drawn = subset(everything, limit, seed)
    assert drawn == subset(everything, limit, seed)
    assert len(drawn) == min(count, limit or count)
    assert [int(one.id) for one in drawn] == sorted({int(one.id) for one in drawn})
