"""Commands that measure: what an index looks like, how good answers are, and what a variant changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from mrag.cli.terminal import (
    STDOUT,
    Compared,
    Config,
    Generation,
    Overrides,
    ToJson,
    as_text,
    aside,
    check_folders,
    console,
    fetch_model,
    fetch_weights,
    harmless,
    put,
    settings_to_read,
    show,
    two_columns,
)
from mrag.settings import Settings, load_settings

if TYPE_CHECKING:
    from mrag.evaluation.experiment import Case
    from mrag.indexing.report import Report

RetrievalOnly = Annotated[
    bool, typer.Option("--retrieval-only", help="Measure recall alone, without a language model.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Ask so many of them, drawn by the seed.")]
Replies = Annotated[
    Path | None, typer.Option("--replies", help="Folder where replies are kept, and taken from, by request.")
]
KEPT_REPLIES = ".replies"


def inspect(
    config: Config = None,
    overrides: Overrides = None,
    generation: Generation = None,
    verify: Compared = None,
    to_json: ToJson = None,
    to_html: Annotated[Path | None, typer.Option("--html", help="Write one page with the plots.")] = None,
) -> None:
    """What a collection's index looks like: coverage, pointers, lengths, cost (M-RAG IV-C)."""
    from mrag.evaluation.index_report import inspected
    from mrag.evaluation.page import page

    check_folders(to_json, to_html)
    report = inspected(settings_to_read(config, overrides, generation, verify))
    sections = report.sections()
    put(to_html, lambda: page(f"Collection {report.manifest.name}", sections))
    show(sections, report.as_dict(), to_json)


def evaluation(
    questions: Annotated[Path, typer.Argument(help="JSONL of questions with their answers and gold.")],
    config: Config = None,
    overrides: Overrides = None,
    cutoffs: Annotated[
        list[int] | None, typer.Option("--k", min=1, help="Recall over the first k; repeatable.")
    ] = None,
    retrieval_only: RetrievalOnly = False,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Of the subset and of the intervals.")] = 0,
    replies: Replies = None,
    generation: Generation = None,
    verify: Compared = None,
    to_json: ToJson = None,
) -> None:
    """Measure a collection on questions with known answers: recall, EM, F1, calls and tokens."""
    from mrag.evaluation.eval_report import EvalReport
    from mrag.evaluation.evaluate import CUTOFFS, evaluate
    from mrag.evaluation.questions import read_questions, subset

    check_folders(to_json)
    settings = settings_to_read(config, overrides, generation, verify)
    asked = subset(read_questions(questions), limit, seed)
    fetch_all([settings], retrieval_only)
    with counting_bar("questions", len(asked)) as advance:
        run = evaluate(settings, asked, cutoffs or CUTOFFS, retrieval_only, advance, replies)
        report = EvalReport(settings, str(questions), asyncio.run(run), seed)
    show(report.sections(), report.as_dict(), to_json)
    raise typer.Exit(report.exit_code)


def compare(
    experiment: Annotated[Path, typer.Argument(help="YAML of question sets and variants.")],
    data: Annotated[Path, typer.Option(help="Folder that the experiment's files are below.")] = Path(),
    config: Config = None,
    overrides: Overrides = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="Only this one beside the first; repeatable.")
    ] = None,
    retrieval_only: RetrievalOnly = False,
    limit: Limit = None,
    index: Annotated[bool, typer.Option("--index", help="Index collections that are not there yet.")] = False,
    replies: Replies = None,
    to_markdown: Annotated[Path | None, typer.Option("--markdown", help="Write the tables.")] = None,
    to_json: ToJson = None,
) -> None:
    """Ask several variants the same questions: one table, and what each changes against the first."""
    from mrag.collection.mirror import local_root
    from mrag.evaluation import compare as running
    from mrag.evaluation.comparison import Comparison
    from mrag.evaluation.experiment import cases, load_experiment
    from mrag.evaluation.markdown import markdown

    check_folders(to_json, to_markdown)
    loaded = load_experiment(experiment)
    planned = cases(loaded, data, config, tuple(overrides or ()), limit, variant or ())
    fetch_all([case.settings for case in planned], retrieval_only)
    if index:
        asyncio.run(running.index_missing(planned, tell_indexed))
    folder = replies or local_root(planned[0].settings.collection.root) / KEPT_REPLIES
    with counting_bar("questions", sum(len(case.questions) for case in planned)) as advance:
        run = running.compare(
            planned, loaded.cutoffs, folder, retrieval_only, advance, loaded.questions_at_once
        )
        report = Comparison(experiment.stem, planned, asyncio.run(run), loaded.seed)
    tables = harmless(markdown(report.sections()))
    put(to_json, lambda: as_text(report.as_dict()))
    put(to_markdown, lambda: tables)
    if STDOUT not in (to_json, to_markdown):
        typer.echo(tables)
    raise typer.Exit(report.exit_code)


@contextmanager
def counting_bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar of so many; what it gives is called after each."""
    with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), console=aside) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def fetch_all(settings: Sequence[Settings], retrieval_only: bool) -> None:
    """Fetches what asking questions needs of weights and is not here."""
    engines = [engine for one in settings for engine in one.answering_models if not retrieval_only]
    fetch_weights([one.encoder for one in settings], engines, aside)


def tell_indexed(case: Case, report: Report) -> None:
    """What came of indexing a collection that was not there."""
    aside.print(two_columns(report.table(), f"{case.settings.collection.name}, of {case.documents}"))


def cut_keys(
    keys: Annotated[int, typer.Argument(min=1, help="The most keys that a record keeps, its first ones.")],
    name: Annotated[
        str | None, typer.Option(help="Of the new collection; by default the old one's and -keysN.")
    ] = None,
    config: Config = None,
    overrides: Overrides = None,
) -> None:
    """Copy a collection with fewer keys a record, to measure what they are worth; no model is asked."""
    from mrag.evaluation import cut_keys as cutting

    settings = load_settings(config, tuple(overrides or ()))
    fetch_model(settings.encoder.model, aside)
    place = settings.collection
    with counting_bar("documents", cutting.documents(place)) as advance:
        run = cutting.cut_keys(settings, keys, name or f"{place.name}-keys{keys}", advance)
        made = asyncio.run(run)
    console.print(f"{made.name}: {made.counts.records} records, {made.counts.keys} keys")


def rare_tokens(
    questions: Annotated[Path, typer.Argument(help="JSONL file to write; - is standard output.")],
    count: Annotated[int, typer.Option(min=1, help="The most questions.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    config: Config = None,
    overrides: Overrides = None,
) -> None:
    """Make questions about tokens that stand in one source unit of a collection and in no key."""
    from mrag.evaluation.rare_tokens import rare_token_questions

    check_folders(questions)
    settings = load_settings(config, tuple(overrides or ()))
    found = rare_token_questions(settings.collection, count, seed)
    put(questions, lambda: "\n".join(json.dumps(question, ensure_ascii=False) for question in found))
    aside.print(f"{len(found)} questions, of {count} wanted.")
