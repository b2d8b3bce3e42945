"""The command line: index, ask, inspect and measure in one process, without a cluster."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mrag import __version__
from mrag.errors import InputError, MragError
from mrag.schema import Answer
from mrag.settings import Settings, VllmSettings, load_settings, method_names, method_tree

if TYPE_CHECKING:
    from mrag.evaluation.sections import Section
    from mrag.indexing.plan import Plan

app = typer.Typer(
    help="Semantic key-value indexing (M-RAG) with select-and-extract answering (SANE).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Terminal(Console):
    """A console for what documents and models wrote: no control character of theirs reaches the terminal."""

    def __init__(self, *, soft_wrap: bool = True, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(
            highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False, width=width, stderr=stderr
        )

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        """The segments of a renderable; those that control the terminal are rich's own."""
        for segment in super().render(*args, **options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """`text` without control characters but tabs and line breaks."""
    return _CONTROL.sub("", text)


console = Terminal()
aside = Terminal(stderr=True)

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings file (default: one machine, no GPU).")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="section.key=value over the file; repeatable.")
]
CAP_HELP = "Tokens that this run may ask of the language model; what is left is pending, for the next run."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ToJson = Annotated[Path | None, typer.Option("--json", help="Write JSON for programs; - is standard output.")]
STDOUT = Path("-")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
) -> None:
    """Bring a collection up to date with a folder."""
    from mrag.indexing.run import index_folder

    settings = load_settings(config, tuple(overrides or ()))
    if not as_json:
        fetch_models(settings, console)
    if as_json:
        report = asyncio.run(index_folder(settings, folder, max_llm_tokens=max_llm_tokens))
        print_json(report.as_dict())
    else:
        with indexing_bar() as progress:
            report = asyncio.run(index_folder(settings, folder, progress, max_llm_tokens))
        console.print(two_columns(report.table()))
    raise typer.Exit(report.exit_code)


class IndexingBar:
    """What a run is about to ask, and then a bar of documents with what came of them."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, visible=False, records=0, tokens=0, planned=0, rate=0)

    def planned(self, plan: Plan) -> None:
        """Says what is to be asked."""
        self._bar.console.print(plan.sentence())
        self._bar.update(self._task, total=plan.documents, planned=plan.left.tokens, visible=True)

    def done(self, documents: int, records: int, tokens: int) -> None:
        """Moves the bar."""
        rate = tokens / (self._bar.tasks[self._task].elapsed or 1)
        self._bar.update(self._task, completed=documents, records=records, tokens=tokens, rate=rate)


@contextmanager
def indexing_bar() -> Iterator[IndexingBar]:
    """The bar of a run in this terminal."""
    counts = (
        "{task.completed}/{task.total} documents",
        "{task.fields[records]} records",
        "{task.fields[tokens]} of about {task.fields[planned]} LLM tokens ({task.fields[rate]:.0f}/s)",
    )
    with Progress(BarColumn(), *counts, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        yield IndexingBar(bar)


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
) -> None:
    """Answer one question from a collection, with its evidence."""
    settings = load_settings(config, tuple(overrides or ()))
    if not as_json:
        fetch_models(settings, console)
    answer = asyncio.run(answer_locally(settings, question))
    print_json(asdict(answer)) if as_json else show_answer(answer)


async def answer_locally(settings: Settings, text: str) -> Answer:
    """One question through a pipeline of this process; the engine is given back at the end."""
    from mrag.models.opening import open_encoder, open_language_model
    from mrag.query.local import local_pipeline
    from mrag.query.question import question_for

    question = question_for(settings, text)
    encoder = open_encoder(settings.encoder)
    model = await open_language_model(settings.language_model)
    try:
        return await local_pipeline(settings, model, encoder).answer(question)
    finally:
        await model.close()


def show_answer(answer: Answer) -> None:
    """The answer, its evidence and its sources, for a person."""
    console.print(Text(answer.text, style="bold"))
    if answer.evidence:
        table = Table("verdict", "fact", "quote", "source")
        for row in answer.evidence.rows:
            place = f"{row.source.document_id}, {row.source.place}" if row.source else "-"
            fact = "; ".join(filter(None, row.cells.values()))
            table.add_row(row.verdict, fact, row.quote, place)
        console.print(table)
    if answer.citations:
        console.print(Text(f"cites row {', '.join(map(str, answer.citations))}"))
    for source in answer.sources:
        console.print(Text(f"from {source.document_id}, {source.place}"))
    for note in answer.notes:
        console.print(Text(f"note: {note}", style="dim"))


@app.command()
def inspect(
    config: Config = None,
    overrides: Overrides = None,
    to_json: ToJson = None,
    to_html: Annotated[Path | None, typer.Option("--html", help="Write one page with the plots.")] = None,
) -> None:
    """What a collection's index looks like: coverage, pointers, lengths, cost (M-RAG IV-C)."""
    from mrag.evaluation.index_report import inspected
    from mrag.evaluation.page import page

    check_folders(to_json, to_html)
    report = inspected(load_settings(config, tuple(overrides or ())))
    sections = report.sections()
    put(to_html, lambda: page(f"Collection {report.manifest.name}", sections))
    show(sections, report.as_dict(), to_json)


@app.command("eval")
def evaluation(
    questions: Annotated[Path, typer.Argument(help="JSONL of questions with their answers and gold.")],
    config: Config = None,
    overrides: Overrides = None,
    cutoffs: Annotated[
        list[int] | None, typer.Option("--k", min=1, help="Recall over the first k; repeatable.")
    ] = None,
    retrieval_only: Annotated[
        bool, typer.Option("--retrieval-only", help="Measure recall alone, without a language model.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask so many of them, drawn by the seed.")] = None,
    seed: Annotated[int, typer.Option(help="Of the subset and of the intervals.")] = 0,
    to_json: ToJson = None,
) -> None:
    """Measure a collection on questions with known answers: recall, EM, F1, calls and tokens."""
    from mrag.evaluation.eval_report import EvalReport
    from mrag.evaluation.evaluate import CUTOFFS, evaluate
    from mrag.evaluation.questions import read_questions, subset

    check_folders(to_json)
    settings = load_settings(config, tuple(overrides or ()))
    asked = subset(read_questions(questions), limit, seed)
    fetch_model(settings.encoder.model, aside) if retrieval_only else fetch_models(settings, aside)
    with Progress(TextColumn("questions"), BarColumn(), MofNCompleteColumn(), console=aside) as bar:
        task = bar.add_task("", total=len(asked))
        run = evaluate(settings, asked, cutoffs or CUTOFFS, retrieval_only, lambda: bar.advance(task))
        report = EvalReport(settings, str(questions), asyncio.run(run), seed)
    show(report.sections(), report.as_dict(), to_json)
    raise typer.Exit(report.exit_code)


def show(sections: Iterable[Section], tree: Any, to_json: Path | None) -> None:
    """Tables for a person, and JSON for a program; on standard output only one of the two."""
    put(to_json, lambda: as_text(tree))
    for section in () if to_json == STDOUT else sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        console.print(Text(section.about, style="dim"), soft_wrap=False)
        console.print(section_table(section), soft_wrap=False)


def section_table(section: Section) -> Table:
    """The rows of a section; columns of numbers end at one line."""
    table = Table(box=SIMPLE_HEAD, show_header=any(section.head))
    for name, is_number in zip(section.head, section.numeric, strict=True):
        table.add_column(name, justify="right" if is_number else "left")
    for row in section.rows:
        table.add_row(*row)
    return table


def check_folders(*files: Path | None) -> None:
    """Raises InputError (field `file`) before any work for a file that could not be written after it."""
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise InputError("file", f"Can't write {file}: there is no folder {file.parent}.")


def put(file: Path | None, text: Callable[[], str]) -> None:
    """Writes the text where it was asked for. Raises InputError (field `file`)."""
    if file == STDOUT:
        typer.echo(text())
    elif file is not None:
        try:
            file.write_text(text() + "\n", "utf-8")
        except OSError as error:
            raise InputError("file", f"Can't write {file}: {error.strerror}.") from None


def two_columns(rows: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Labels and values."""
    table = Table(show_header=False, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


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


def fetch_models(settings: Settings, to: Console) -> None:
    """Fetches what the settings need of weights, each with a bar; nothing for what is here already."""
    asked = (settings.indexing_model, settings.language_model)
    models = [model.model for model in asked if isinstance(model, VllmSettings)]
    for name in dict.fromkeys([settings.encoder.model, *models]):
        fetch_model(name, to)


def fetch_model(name: str, to: Console) -> None:
    """Fetches the weights of one model, with a bar."""
    from mrag.models.weights import ensure_weights

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=to) as bar:
        task = bar.add_task(name, total=None)

        def show(name: str, done_bytes: int, total_bytes: int) -> None:
            bar.update(task, description=name, completed=done_bytes, total=total_bytes)

        folder = ensure_weights(name, show)
        bar.update(task, visible=False)
    to.print(Text(f"{name}: {folder}", style="dim"))


@app.command()
def version() -> None:
    """The version of mrag."""
    console.print(__version__)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(as_text(value))


def as_text(value: Any) -> str:
    """JSON for people to read, too."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
