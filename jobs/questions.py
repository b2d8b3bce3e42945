"""Asking a running service, and showing its answers to a person (`make ask`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.text import Text

from mrag.cli.answers import show_answer
from mrag.cli.terminal import Terminal
from mrag.errors import MragError
from mrag.evaluation.metrics import contains_answer

TIMEOUT_S = 600.0


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


def ask(url: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """The service's answer, as its JSON. Raises MragError with the service's own sentence."""
    try:
        reply = httpx.post(f"{url}/v1/query", json=body, timeout=timeout_s + 10)
        answer: dict[str, Any] = reply.json()
    except (httpx.HTTPError, ValueError) as error:
        raise MragError(f"No mrag service answers at {url} ({error}): start it with `make serve`.") from None
    if reply.is_error:
        raise MragError(f"The service refused the question: {answer['error']['message']}")
    return answer


def show_checked(console: Console, answer: dict[str, Any], item: Item) -> bool:
    """Prints one answer beside what was expected; returns whether it is right."""
    right = contains_answer(answer["text"], item.answers)
    mark = Text("right", style="green") if right else Text(f"expected: {item.answers[0]}", style="yellow")
    show_answer(console, answer, mark)
    return right


def main(
    question: Annotated[str, typer.Argument(help="The question.")],
    collection: Annotated[
        str | None, typer.Option(help="The collection to ask; the service's own by default.")
    ] = None,
    reader: Annotated[str | None, typer.Option(help="plain or sane; the service's own by default.")] = None,
    retrieval: Annotated[
        str | None, typer.Option(help="keys or keys+units; the service's own by default.")
    ] = None,
    url: Annotated[str, typer.Option(help="Where the service listens.")] = "http://127.0.0.1:8000",
) -> None:
    """Ask a running service one question."""
    body = {"question": question, "collection": collection, "reader": reader, "retrieval": retrieval}
    console = Terminal()
    try:
        show_answer(console, ask(url, body, TIMEOUT_S))
    except MragError as error:
        console.print(Text(f"error: {error}", style="red"))
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
