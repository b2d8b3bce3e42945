"""An answer with its evidence, for a person, from the JSON that the service and `mrag ask --json` give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mrag.schema import Source

SAME = "the fact, word for word"


def show_answer(console: Console, answer: Mapping[str, Any], mark: Text | None = None) -> None:
    """Prints question and answer, `mark` beside it, evidence, sources, notes, and seconds by stage."""
    console.print(Text(f"\nQ  {answer['question']}", style="bold"))
    console.print(Text(f"A  {answer['text']}  ") + (mark or Text()))
    if answer["evidence"] and answer["evidence"]["rows"]:
        console.print(evidence_table(answer["evidence"]))
    if answer["citations"]:
        console.print(Text(f"   cites row {', '.join(map(str, answer['citations']))}"))
    for source in answer["sources"]:
        console.print(Text(f"   from {place(source)}"))
    for note in answer["notes"]:
        console.print(Text(f"   note: {note}", style="dim"))
    stages = "  ".join(f"{stage['stage']} {stage['seconds']:.1f} s" for stage in answer["trace"])
    console.print(Text(f"   {stages}", style="dim"))


def evidence_table(evidence: Mapping[str, Any]) -> Table:
    """The rows with a verdict, their quote and where it stands."""
    title = f"evidence ({evidence['schema'].lower()})"
    table = Table("verdict", "fact", "quote", "source", title=title, title_justify="left")
    for row in evidence["rows"]:
        fact = "; ".join(cell for cell in row["cells"].values() if cell)
        quote = SAME if fact and row["quote"] == fact else row["quote"]
        table.add_row(row["verdict"], fact, quote, place(row["source"]) if row["source"] else "-")
    return table


def place(source: Mapping[str, Any]) -> str:
    """Document, and units or pages."""
    return f"{source['document_id']}, {Source(**source).place}"
