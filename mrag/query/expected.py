"""What a question asks for, told by its words, and whether evidence states such a thing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from mrag.documents.facts import facts
from mrag.schema import EvidenceRow

Kind = Literal["number", "date"]

_FORMS: dict[Kind, re.Pattern[str]] = {
    "date": re.compile(r"\b(?:when|(?:what|which) (?:date|day|month|year))\b", re.IGNORECASE),
    "number": re.compile(
        r"\b(?:how (?:many|much|long|far|old|high|deep|tall|wide|heavy|large|fast)"
        r"|what (?:number|amount|percentage|share) of"
        r"|what (?:is|was|are|were) (?:the|its|their|his|her) (?:\w+ ){0,2}"
        r"(?:age|budget|capacity|cost|depth|distance|fee|height|length|number|percentage|population|price"
        r"|profit|revenue|salary|speed|temperature|turnover|wage|weight|width))\b",
        re.IGNORECASE,
    ),
}


def unmet(question: str, rows: Iterable[EvidenceRow]) -> Kind | None:
    """The kind of thing that the question asks for and none of the rows states; None where there is no such.

    Only English questions that ask for a date or a number are told; of the rest nothing is expected.
    """
    kind = next((kind for kind, form in _FORMS.items() if form.search(question)), None)
    return None if kind is None or any(_states(row, kind) for row in rows) else kind


def _states(row: EvidenceRow, kind: Kind) -> bool:
    said = facts(". ".join((*row.cells.values(), row.quote)))
    return bool(said.dates or (said.numbers if kind == "number" else _years(said.numbers)))


def _years(numbers: Iterable[object]) -> bool:
    return any(re.fullmatch(r"[12]\d{3}", str(number)) for number in numbers)
