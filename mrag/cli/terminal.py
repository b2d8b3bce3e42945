"""What commands share: the terminal, the options that all of them take, files of reports, weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mrag.errors import InputError
from mrag.settings import EncoderSettings, LanguageModelSettings, Settings, VllmSettings, load_settings
from mrag.settings.storage import Verify

if TYPE_CHECKING:
    from mrag.evaluation.sections import Section


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
Wait = Annotated[
    float,
    typer.Option("--wait", min=0, help="Seconds to wait for another process that writes the collection."),
]
Generation = Annotated[
    int | None, typer.Option(min=1, help="An earlier generation, in place of the one in force.")
]
Compared = Annotated[
    Verify | None,
    typer.Option(
        "--verify",
        help="Compare the files' sizes or all their bytes with what was written; by default all bytes of "
        "what is small or new to this machine.",
    ),
]
ToJson = Annotated[Path | None, typer.Option("--json", help="Write JSON for programs; - is standard output.")]
STDOUT = Path("-")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def settings_to_read(
    config: Path | None, overrides: list[str] | None, generation: int | None, verify: Verify | None
) -> Settings:
    """The settings of a command that reads a collection, with its options over them. Raises SettingsError."""
    given = {"generation": generation, "verify": verify}
    options = [f"collection.{name}={value}" for name, value in given.items() if value is not None]
    return load_settings(config, (*(overrides or ()), *options))


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


def fetch_models(settings: Settings, to: Console) -> None:
    """Fetches what the settings need of weights, each with a bar; nothing for what is here already."""
    fetch_weights([settings.encoder], [settings.indexing_model, *settings.answering_models], to)


def fetch_weights(
    encoders: Iterable[EncoderSettings], engines: Iterable[LanguageModelSettings], to: Console
) -> None:
    """The weights of these encoders and of the engines that have any, each once."""
    models = [engine.model for engine in engines if isinstance(engine, VllmSettings)]
    for name in dict.fromkeys((*(encoder.model for encoder in encoders), *models)):
        fetch_model(name, to)


def fetch_model(name: str, to: Console) -> None:
    """Fetches the weights of one model, with a bar."""
    from mrag.models.catalogue import CATALOGUE
    from mrag.models.weights import ensure_weights, fetched

    if name in CATALOGUE and not fetched(name) and not to.is_terminal:  # Where no bar is shown.
        to.print(Text(f"{name}: {CATALOGUE[name].bytes / 1e6:.0f} MB, being fetched", style="dim"))
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=to) as bar:
        task = bar.add_task(name, total=None)

        def show(name: str, done_bytes: int, total_bytes: int) -> None:
            told = f"{name}, being converted" if done_bytes == total_bytes else name
            bar.update(task, description=told, completed=done_bytes, total=total_bytes)

        folder = ensure_weights(name, show)
        bar.update(task, visible=False)
    to.print(Text(f"{name}: {folder}", style="dim"))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(as_text(value))


def as_text(value: Any) -> str:
    """JSON for people to read, too."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
