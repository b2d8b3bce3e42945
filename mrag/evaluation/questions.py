"""Questions whose answers, documents and passages are known: one JSON object a line.

Only `id` and `question` are needed. `answers` are accepted spellings, `gold_doc_ids` the documents that
hold the evidence; `gold_paragraphs` (`doc_id`, `para_idx` from 0) and `gold_sentences` (`doc_id`, `text`)
are its passages. `unanswerable` says that no document answers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mrag.errors import InputError


class _Line(BaseModel):
    """Fields that no measure here needs are passed over."""

    model_config = ConfigDict(frozen=True)


class GoldParagraph(_Line):
    """A paragraph of a document: its number from 0 among the blocks between blank lines."""

    doc_id: str
    para_idx: int


class GoldSentence(_Line):
    """A sentence, as it stands in a document, white space apart."""

    doc_id: str
    text: str


class GoldQuestion(_Line):
    """One line of a questions file."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    gold_doc_ids: tuple[str, ...] = ()
    gold_paragraphs: tuple[GoldParagraph, ...] = ()
    gold_sentences: tuple[GoldSentence, ...] = ()
    unanswerable: bool = False

    @property
    def passages(self) -> tuple[GoldParagraph | GoldSentence, ...]:
        """The labelled places, paragraphs first."""
        return (*self.gold_paragraphs, *self.gold_sentences)


def read_questions(file: Path) -> list[GoldQuestion]:
    """All questions in the order of their lines, blank lines passed over.

    Raises InputError (field `questions`) that names the line at fault: a set that lost questions would
    be measured as another one.
    """
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("questions", f"Can't read the questions {file}: {error}.") from None
    questions = [_question(f"{file}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise InputError("questions", f"{file} holds no question.")
    return questions


def _question(place: str, line: str) -> GoldQuestion:
    try:
        return GoldQuestion.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(map(str, fault["loc"]))
        raise InputError("questions", f"{place} is no question: {path} {fault['msg']}.") from None


def of_strangers(questions: Sequence[GoldQuestion]) -> list[GoldQuestion]:
    """The questions for documents that they are not about: unanswerable, without answers and gold."""
    return [GoldQuestion(id=one.id, question=one.question, unanswerable=True) for one in questions]


def subset(questions: Sequence[GoldQuestion], limit: int | None, seed: int) -> list[GoldQuestion]:
    """`limit` of the questions, the same ones for the same seed, in their old order; all without a limit."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[place] for place in sorted(random.Random(seed).sample(range(len(questions)), limit))]
