"""What a question asks for, told by its words, and whether evidence states such a thing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from mrag.documents.facts import facts
from mrag.documents.quantities import placed_numbers
from mrag.query.citing import said
from mrag.schema import EvidenceRow

Kind = Literal["number", "date"]

_FORMS: dict[Kind, re.Pattern[str]] = {
    "date": re.compile(
        # A `when` that asks stands before its verb, or last; "the captain when it sank" asks for no date.
        r"\bwhen(?: exactly)? (?:did|do|does|was|were|is|are|will|has|have|had|can|could|would|should|must)\b"
        r"|\bwhen\W*$|\b(?:what|which) (?:date|day|month|year)\b",
        re.IGNORECASE,
    ),
    "number": re.compile(
        r"\b(?:how (?:many|much|long|far|old|high|deep|tall|wide|heavy|large|fast)"
        r"|what (?:number|amount|percentage|share) of"
        r"|what (?:is|was|are|were) (?:the|its|their|his|her) (?:\w+ ){0,2}"
        r"(?:age|budget|capacity|cost|depth|distance|fee|height|length|number|percentage|population|price"
        r"|profit|revenue|salary|speed|temperature|turnover|wage|weight|width))\b",
        re.IGNORECASE,
    ),
}

_COUNTED = re.compile(r"\bhow many (?:times )?(?:of )?(?:the )?(\w+)", re.IGNORECASE)
# Counts in words that `facts` does not read; `no` counts only what is asked for.
_COUNTS = re.compile(
    r"\b(?:none|no one|nobody|neither|never|both|once|twice|half|dozens?|one|single)\b", re.IGNORECASE
)
_SPAN = r"(?:seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|decades?|centur(?:y|ies))"
_ONE_SPAN = re.compile(rf"\bone (?:\w+ )?{_SPAN}\b", re.IGNORECASE)
_DISTANCE = re.compile(
    rf"[ -](?:\w+ )?{_SPAN}\b(\s(?:after|afterwards|ago|before|earlier|following|from|later|prior)\b)?",
    re.IGNORECASE,
)
_FROM = re.compile(r"\b(?:after|every|within) $", re.IGNORECASE)
# What tells a time, and is no date that `facts` reads.
_TIME = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
    r"|(?i:\b(?:mon|tues|wednes|thurs|fri|satur|sun|week|every|mid|birth|to|yester)days?\b"
    r"|\b(?:daily|weekly|monthly|annually|weekends?|tomorrow|noon|midnight|mornings?|afternoons?|evenings?)\b"
    r"|\b(?:spring|summer|autumn|winter|easter|christmas|centur(?:y|ies))\b"
    r"|\b(?:every|each|next|last|same|per) (?:\w+ )?(?:day|night|week|month|quarter|year|decade)\b"
    r"|\b\d{1,2}:\d{2}\b|\b\d{1,2} ?[ap]\.?m\b|\b\d{3}0s\b"
    r"|\b\d+ (?:bce?|ad|ce)\b|\b(?:ad|ce) \d+\b)"
)


def unmet(question: str, rows: Iterable[EvidenceRow]) -> Kind | None:
    """The kind of thing that the question asks for and none of the rows states; None where there is no such.

    Only English questions that ask for a date or a number are told; of the rest nothing is expected.
    """
    kind = next((kind for kind, form in _FORMS.items() if form.search(question)), None)
    counted = _COUNTED.search(question)
    asked = counted[1] if counted else None
    return None if kind is None or any(_states(row, kind, asked) for row in rows) else kind


def _states(row: EvidenceRow, kind: Kind, counted: str | None) -> bool:
    text = said(row)
    stated = facts(text)
    if kind == "date":
        return bool(stated.dates or _years(stated.numbers) or _TIME.search(text) or _counts_from(text))
    if stated.dates or stated.numbers or re.search(r"\d", text) or _ONE_SPAN.search(text):
        return True  # a number may be a code
    return counted is not None and _counts(text, counted)


def _counts_from(text: str) -> bool:
    """Whether a time is told by its distance: `thirty days after it is signed`. A duration tells none."""
    return any(
        (span := _DISTANCE.match(text, end)) and (span[1] or _FROM.search(text[:start]))
        for start, end, _ in placed_numbers(text)
    )


def _counts(text: str, counted: str) -> bool:
    none_of_them = re.search(rf"\bno {re.escape(counted)}\b", text, re.IGNORECASE)
    return bool(none_of_them or _COUNTS.search(text))


def _years(numbers: Iterable[object]) -> bool:
    return any(re.fullmatch(r"[12]\d{3}", str(number)) for number in numbers)
