"""The command line: index, ask, inspect and measure in one process, without a cluster."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mrag import __version__
from mrag.cli import measuring
from mrag.cli.answers import show_answer
from mrag.cli.terminal import (
    Compared,
    Config,
    Generation,
    Overrides,
    Wait,
    aside,
    console,
    fetch_model,
    fetch_models,
    print_json,
    settings_to_read,
    two_columns,
)
from mrag.cli.tokens import token
from mrag.errors import MragError
from mrag.schema import Answer
from mrag.settings import Settings, load_settings, method_names, method_tree

if TYPE_CHECKING:
    from mrag.indexing.plan import Plan

app = typer.Typer(
    help="Semantic key-value indexing (M-RAG) with select-and-extract answering (SANE).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in (
    ("inspect", measuring.inspect),
    ("eval", measuring.evaluation),
    ("compare", measuring.compare),
    ("rare-tokens", measuring.rare_tokens),
    ("cut-keys", measuring.cut_keys),
    ("token", token),
):
    app.command(name)(command)

CAP_HELP = "Tokens that this run may ask of the language model; what is left is pending, for the next run."
SYNC_HELP = "Remove documents that the folder no longer has."
FILTER_HELP = "Only documents whose metadata has it: field=value, >=, >, <=, < or ^= (prefix); repeatable."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def main() -> None:
    """The console script: every expected error is one line on standard error and exit code 2."""
    with one_sentence():
        app()


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turns an expected error into its sentence and exit code 2."""
    try:
        yield
    except MragError as error:
        aside.print(Text(f"error: {error}", style="red"))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.command()
def index(
    folder: Annotated[Path, typer.Argument(help="Folder whose documents are indexed.")],
    config: Config = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    max_llm_tokens: Annotated[int | None, typer.Option(min=0, help=CAP_HELP)] = None,
    sync: Annotated[bool, typer.Option("--sync", help=SYNC_HELP)] = False,
    wait_s: Wait = 0,
) -> None:
    """Bring a collection up to date with a folder."""
    from mrag.indexing.run import index_folder

    settings = load_settings(config, tuple(overrides or ()))
    if not as_json:
        fetch_models(settings, console)
    if as_json:
        report = asyncio.run(index_folder(settings, folder, None, max_llm_tokens, sync, wait_s))
        print_json(report.as_dict())
    else:
        with indexing_bar() as progress:
            report = asyncio.run(index_folder(settings, folder, progress, max_llm_tokens, sync, wait_s))
        console.print(two_columns(report.table()))
    raise typer.Exit(report.exit_code)


class IndexingBar:
    """What a run is about to ask, and then a bar of LLM calls, or of documents where there are none."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, visible=False, counts="")
        self._plan: Plan | None = None
        self._documents = self._records = self._calls = self._tokens = self._first_tokens = 0

    def planned(self, plan: Plan) -> None:
        """Says what is to be asked."""
        self._bar.console.print(plan.sentence())
        self._plan = plan
        self._show()

    def replied(self, calls: int, tokens: int) -> None:
        """Moves the bar by replies."""
        if not self._calls:
            self._bar.reset(self._task)  # Loading the model took time, and says nothing of what is left.
            self._first_tokens = tokens
        self._calls, self._tokens = calls, tokens
        self._show()

    def done(self, documents: int, records: int) -> None:
        """Moves the bar by documents."""
        self._documents, self._records = documents, records
        self._show()

    def _show(self) -> None:
        assert self._plan
        calls, documents = self._plan.left.calls, self._plan.documents
        counts = f"{self._documents}/{documents} documents  {self._records} records"
        if calls:
            left = self._plan.tokens_left(self._calls)
            counts += (
                f"  {self._calls} of about {calls} LLM calls  {self._tokens:,} tokens ({self._rate():.0f}/s)"
            )
            counts += f", about {left:,} left" if left else ""
        self._bar.update(
            self._task,
            total=max(calls, self._calls) or documents,
            completed=self._calls if calls else self._documents,
            counts=counts,
            visible=True,
        )

    def _rate(self) -> float:
        """Tokens per second since the first reply."""
        seconds = self._bar.tasks[self._bar.task_ids.index(self._task)].elapsed
        return (self._tokens - self._first_tokens) / seconds if seconds else 0.0


@contextmanager
def indexing_bar() -> Iterator[IndexingBar]:
    """The bar of a run in this terminal."""
    columns = (BarColumn(), "{task.fields[counts]}", TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        yield IndexingBar(bar)


@app.command()
def delete(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of documents, as answers name them.")] = None,
    config: Config = None,
    overrides: Overrides = None,
    filters: Annotated[list[str] | None, typer.Option("--filter", "-f", help=FILTER_HELP)] = None,
    listed: Annotated[
        Path | None, typer.Option("--from", help="A file with an id a line; - is standard input.")
    ] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Compact then, so that no file holds them any more.")
    ] = False,
    as_json: AsJson = False,
    wait_s: Wait = 0,
) -> None:
    """Take documents out of a collection, as one new generation: the next question finds nothing of them."""
    from mrag.collection.filter_forms import short_filter
    from mrag.indexing.delete import delete_documents, read_ids

    named = [*(ids or ()), *(read_ids(listed) if listed else ())]
    settings = load_settings(config, tuple(overrides or ()))
    deletion = delete_documents(settings, named, short_filter(filters or ()), purge, wait_s)
    print_json(deletion.as_dict()) if as_json else console.print(two_columns(deletion.table()))
    raise typer.Exit(deletion.exit_code)


@app.command()
def compact(
    config: Config = None, overrides: Overrides = None, as_json: AsJson = False, wait_s: Wait = 0
) -> None:
    """Merge a collection's segments into one: what was deleted or replaced is on no disk any more."""
    from mrag.indexing.compact import compact as compacted

    done = compacted(load_settings(config, tuple(overrides or ())), wait_s=wait_s)
    print_json(asdict(done)) if as_json else console.print(two_columns(done.table()))


@app.command()
def rollback(
    generation: Annotated[int, typer.Argument(min=1, help="The generation whose content is wanted back.")],
    config: Config = None,
    overrides: Overrides = None,
    wait_s: Wait = 0,
) -> None:
    """Put what an earlier generation held in force again; those since the last compaction are there."""
    from mrag.collection import restore

    place = load_settings(config, tuple(overrides or ())).collection
    restored = restore(place.root, place.name, generation, wait_s)
    counts = restored.counts
    console.print(f"generation {restored.generation}: {counts.documents} documents, {counts.records} records")


@app.command()
def plan(
    folder: Annotated[Path, typer.Argument(help="Folder whose documents would be indexed.")],
    config: Config = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """What indexing a folder would ask of the language model: calls, tokens, money and hours by `rates`."""
    from mrag.indexing.plan import plan_folder

    settings = load_settings(config, tuple(overrides or ()))
    if not as_json:
        fetch_models(settings, console)
    found = asyncio.run(plan_folder(settings, folder))
    print_json(found.as_dict(settings.rates)) if as_json else console.print(
        two_columns(found.table(settings.rates))
    )


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    config: Config = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    filters: Annotated[list[str] | None, typer.Option("--filter", "-f", help=FILTER_HELP)] = None,
    generation: Generation = None,
    verify: Compared = None,
) -> None:
    """Answer one question from a collection, with its evidence."""
    settings = settings_to_read(config, overrides, generation, verify)
    if not as_json:
        fetch_models(settings, console)
    answer = asyncio.run(answer_locally(settings, question, filters or ()))
    print_json(asdict(answer)) if as_json else show_answer(console, asdict(answer))


async def answer_locally(settings: Settings, text: str, filters: Iterable[str] = ()) -> Answer:
    """One question through a pipeline of this process; the engine is given back at the end."""
    from mrag.collection.filter_forms import short_filter
    from mrag.models.opening import open_encoder, open_language_model, opened_by_stage
    from mrag.query.local import local_pipeline
    from mrag.query.question import question_for

    question = question_for(settings, text, filter=short_filter(filters))
    encoder = open_encoder(settings.encoder)
    async with opened_by_stage(settings, open_language_model) as models:
        return await local_pipeline(settings, models, encoder).answer(question)


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="One method, to see its YAML.")] = None) -> None:
    """The shipped methods: builder x retrieval x reader."""
    for known in [name] if name else method_names():
        try:
            console.print(Text(f"{known}: {json.dumps(method_tree(known))}"))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None


@app.command()
def models(
    fetch: Annotated[list[str] | None, typer.Argument(help="Models to fetch; without any, a list.")] = None,
) -> None:
    """The local models that can be fetched, and which of them are here."""
    from mrag.models.catalogue import CATALOGUE
    from mrag.models.weights import fetched

    for name in fetch or ():
        fetch_model(name, console)
    if not fetch:
        table = Table("name", "here", "model hub id")
        for name, model in CATALOGUE.items():
            table.add_row(name, "yes" if fetched(name) else "no", model.hub)
        console.print(table)


@app.command()
def version() -> None:
    """The version of mrag."""
    console.print(__version__)
