"""Documents, questions and replies that fit each other: what a service costs needs no model that reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

SYLLABLES = ("ba", "do", "fe", "gi", "ku", "la", "mo", "ne", "pi", "ru", "sa", "te")
QUESTIONS = 50


@dataclass(frozen=True)
class Ferry:
    """One document, which answers one question."""

    name: str
    year: int

    @property
    def question(self) -> str:
        """The one that its document answers."""
        return f"In which year was the ferry {self.name} built?"

    @property
    def fact(self) -> str:
        """What the document says of it."""
        return f"The ferry {self.name} was built in {self.year}."

    @property
    def document(self) -> dict[str, str]:
        """A line of a JSONL file."""
        rest = "It carries 90 passengers and sails to Holm twice a day, from May to September."
        return {"id": self.name, "title": f"The ferry {self.name}", "text": f"{self.fact} {rest}"}


def ferries(count: int) -> list[Ferry]:
    """So many, at most 20,736; the same ones each time."""
    names = ("".join(parts).capitalize() for parts in product(SYLLABLES, repeat=4))
    return [Ferry(name, 1850 + number % 150) for number, name in enumerate(islice(names, count))]


def write_documents(folder: Path, written: Sequence[Ferry]) -> None:
    """A folder that can be indexed."""
    folder.mkdir()
    lines = (json.dumps(ferry.document) for ferry in written)
    (folder / "ferries.jsonl").write_text("\n".join(lines), "utf-8")


def write_replies(path: Path, asked: Sequence[Ferry]) -> None:
    """The scripted model that selects the first five, and finds and says what is asked."""
    path.write_text("\n".join(map(json.dumps, _rules(asked))), "utf-8")


def _rules(asked: Sequence[Ferry]) -> Iterator[dict[str, Any]]:
    yield {"purpose": "select", "reply": {"selected": [1, 2, 3, 4, 5]}}
    for ferry in asked:
        table = {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": ferry.fact}]}
        yield {"purpose": "evidence", "contains": [ferry.question], "reply": {"table": table}}
        yield {"purpose": "answer", "contains": [ferry.question], "reply": ferry.fact}
