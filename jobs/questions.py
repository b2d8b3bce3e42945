"""Asking a running service the sample corpus's questions, and showing its answers to a person."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mrag.errors import MragError
from mrag.evaluation.metrics import contains_answer
from mrag.settings import Settings


@dataclass(frozen=True)
class Item:
    """One question of the sample corpus, with the spellings of its answer."""

    question: str
    answers: tuple[str, ...]


def read_questions(count: int) -> list[Item]:
    """The first questions of the sample corpus, in their fixed order."""
    lines = (files("mrag") / "data" / "sample" / "questions.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:count]]
    return [Item(row["question"], tuple(row["answers"])) for row in rows]


def ask(url: str, settings: Settings, item: Item) -> dict[str, Any]:
    """The service's answer, as its JSON. Raises MragError with the service's own sentence."""
    body = {"question": item.question, "collection": settings.collection.name}
    reply = httpx.post(f"{url}/v1/query", json=body, timeout=settings.serve.timeout_s + 10)
    answer: dict[str, Any] = reply.json()
    if reply.is_error:
        raise MragError(f"The service refused the question: {answer['error']['message']}")
    return answer


def show(console: Console, answer: dict[str, Any], item: Item) -> bool:
    """Prints one answer with its evidence and timings; returns whether it is right."""
    right = contains_answer(answer["text"], item.answers)
    console.print(Text(f"\nQ  {item.question}", style="bold"))
    mark = Text("  right", style="green") if right else Text(f"  expected: {item.answers[0]}", style="yellow")
    console.print(Text(f"A  {answer['text']}") + mark)
    if answer["evidence"]:
        console.print(evidence_table(answer["evidence"]))
    for source in answer["sources"]:
        console.print(f"   from {source['document_id']}, unit {', '.join(map(str, source['units']))}")
    for note in answer["notes"]:
        console.print(Text(f"   note: {note}", style="dim"))
    stages = "  ".join(f"{stage['stage']} {stage['seconds']:.1f} s" for stage in answer["trace"])
    console.print(Text(f"   {stages}", style="dim"))
    return right


def evidence_table(evidence: dict[str, Any]) -> Table:
    """The rows with a verdict, their quote and where it stands."""
    table = Table("verdict", "fact", "quote", "source", title=evidence["schema"], title_justify="left")
    for row in evidence["rows"]:
        source = row["source"]
        place = f"{source['document_id']} [{source['units'][0]}]" if source else "-"
        fact = "; ".join(cell for cell in row["cells"].values() if cell)
        table.add_row(row["verdict"], fact, row["quote"], place)
    return table
