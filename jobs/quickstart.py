"""`make quickstart`: a folder goes in by `ray job submit`, answers with quotes come out over HTTP."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from jobs.local_cluster import Cluster, free_port, process, ray_head, tool, wait_until
from jobs.questions import Item, ask, read_questions, show_checked
from mrag.cli.terminal import Terminal, fetch_models
from mrag.errors import MragError
from mrag.settings import Settings, load_settings

ASKED = 3
SAMPLE = "sample"
PORT = 8000
SERVING = "Serving on"  # what serve.run says when every stage is up
# Ray leaves these folders out in any case, and warns of it where they go by their bare names.
NO_ADVICE = {"RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES": "/.git,/.venv"}
console = Terminal()


@dataclass(frozen=True)
class Chosen:
    """The settings that the job and the service share, and how their command lines are told of them."""

    config: str
    overrides: tuple[str, ...]

    @property
    def settings(self) -> Settings:
        """The tree. Raises SettingsError."""
        return load_settings(Path(self.config), self.overrides)

    @property
    def options(self) -> list[str]:
        """The command-line form."""
        return ["--config", self.config, *(part for item in self.overrides for part in ("--set", item))]


def place(root: Path, name: str, port: int) -> tuple[str, ...]:
    """The overrides for where things are; a path is quoted, since values are read as YAML."""
    quoted = json.dumps(str(root.resolve()), ensure_ascii=False)
    return (f"collection.root={quoted}", f"collection.name={name}", f"serve.port={port}")


def collection_name(folder: Path) -> str:
    """The folder's own name, as far as a collection may be called so."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.name).strip("-_.")[:64] or "documents"


def run(chosen: Chosen, folder: Path, questions: int, keep: bool) -> int:
    """The whole walk; the exit code is 1 where more than one of the asked questions came out wrong."""
    settings = chosen.settings
    logs = Path(tempfile.mkdtemp(prefix="mrag-quickstart-"))
    console.rule("1  models")
    fetch_models(settings, console)
    console.rule("2  index")
    console.print(Text("starting Ray on this machine", style="dim"))
    with ray_head(logs) as cluster:
        submit(cluster, chosen, folder, logs / "report.json")
        console.rule("3  ask")
        with service(cluster, chosen, logs) as url:
            right = [checked(url, settings, item) for item in read_questions(questions)]
            if keep:
                console.print(f"Serving on {url} - stop with Ctrl-C.")
                console.print(f"ask, in another terminal:  {ask_command(settings)}")
                threading.Event().wait()
    shutil.rmtree(logs, ignore_errors=True)  # An error has named one of them, and kept them.
    return 0 if sum(right) >= len(right) - 1 else 1


def checked(url: str, settings: Settings, item: Item) -> bool:
    """Asks and shows one question of the sample corpus; returns whether the answer is right."""
    body = {"question": item.question, "collection": settings.collection.name}
    return show_checked(console, ask(url, body, settings.serve.timeout_s), item)


def submit(cluster: Cluster, chosen: Chosen, folder: Path, report: Path) -> None:
    """Indexes the folder through the Ray Jobs API, with the job's own log on this terminal.

    A job that wrote its `report` has published what it could, even if documents failed.
    """
    entry = [sys.executable, "-m", "jobs.index", str(folder), "--json", str(report), *chosen.options]
    ray_job = ["ray", "--logging-level=warning", "job", "submit", "--address", cluster.dashboard]
    style = ["--log-style=pretty", f"--log-color={'auto' if console.is_terminal else 'false'}"]
    command = [*ray_job, "--working-dir", ".", *style, "--", *entry]
    console.print(Text("$ " + shlex.join(command), style="dim"))
    command[0] = tool("ray")
    environment = {**cluster.environment, **NO_ADVICE}
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode:
        if not report.exists():
            raise MragError("The indexing job did not end well, or was not taken: the lines above say why.")
        console.print(Text("Not every document was indexed: the table names them. The others are served."))


@contextlib.contextmanager
def service(cluster: Cluster, chosen: Chosen, logs: Path, shown: Terminal = console) -> Iterator[str]:
    """Starts the Ray Serve application; yields its URL when every stage is ready."""
    command = [sys.executable, "-m", "serve.run", "--address", cluster.address, *chosen.options]
    shown.print(Text("$ " + shlex.join(command), style="dim"))
    serve = chosen.settings.serve
    with process(command, logs / "serve.log", cluster.environment) as child:
        url, log = f"http://{serve.host}:{serve.port}", logs / "serve.log"
        shown.print(Text("loading the models again, for the service: about a minute and a half", style="dim"))
        # Its /healthz answers before the stages behind it do: what counts is that all are up.
        wait_until(lambda: SERVING in log.read_text("utf-8", "replace"), url, child, log)
        yield url


def end_by_signal(number: int, _: object) -> None:
    """Leaves every block in order, so that no process stays behind."""
    raise SystemExit(128 + number)


def ask_command(settings: Settings) -> str:
    """How this service is asked."""
    serve = settings.serve
    url = f" URL=http://{serve.host}:{serve.port}" if serve.port != PORT else ""
    return f'make ask Q="..." COLLECTION={settings.collection.name}{url}'


def farewell(docs: Path | None, name: str) -> None:
    """What to type next."""
    again = f' DOCS="{docs}"' if docs else ""
    console.rule("next")
    console.print(f"keep it running:     make serve{again}")
    console.print(f'ask, while it runs:  make ask Q="..." COLLECTION={name}')
    console.print(f'ask without it:      .venv/bin/mrag ask "..." --set collection.name={name}')
    console.print('your own documents:  make quickstart DOCS="folder"')


def main(
    docs: Annotated[
        Path | None, typer.Option(help="A folder to index in place of the sample corpus.")
    ] = None,
    config: Annotated[str, typer.Option(help="Settings file.")] = "configs/local.yaml",
    root: Annotated[Path, typer.Option(help="Where collections are kept.")] = Path("collections"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")
    ] = None,
    questions: Annotated[int, typer.Option(help="How many of the sample's questions are asked.")] = ASKED,
    keep: Annotated[bool, typer.Option("--keep", help="Serve until Ctrl-C.")] = False,
) -> None:
    """Index a folder and answer questions about it, on a Ray of its own on this machine."""
    signal.signal(signal.SIGTERM, end_by_signal)
    name = collection_name(docs.resolve()) if docs else SAMPLE
    chosen = Chosen(config, (*place(root, name, free_port(PORT)), *(overrides or ())))
    try:
        with as_file(files("mrag") / "data" / "sample" / "documents") as sample:
            code = run(chosen, docs.resolve() if docs else sample, 0 if docs else questions, keep)
    except MragError as error:
        console.print(Text(f"error: {error}", style="red"))
        raise typer.Exit(2) from None
    farewell(docs, name)
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
