"""What the service costs and what it bears: its retrieval over a bare deployment, its hops over the same
stages in one process, and twice the load that fills it.

`python -m jobs.benchmark_service`: a Ray of its own on this machine, which keeps to all cores but the last;
from that one it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from jobs.bare_service import PREFIX, READY
from jobs.bounds import Bound, ratio, rows, table, tell
from jobs.ferries import QUESTIONS, Ferry, ferries, write_documents, write_replies
from jobs.load import Asked, Load, a_second, at_once
from jobs.local_cluster import Cluster, free_port, process, ray_head, wait_until
from jobs.quickstart import Chosen, place, service
from mrag.cli.terminal import Overrides, aside
from mrag.errors import MragError
from mrag.indexing.run import index_folder
from mrag.models.opening import open_encoder, open_language_model, opened_by_stage
from mrag.query.local import local_pipeline
from mrag.query.question import question_for

POOL = 20
TURNS = 4
CLIENTS = (1, 4, 16, 64)
ALONE = 5
DEADLINE_S = 60
ALL_CORES = os.sched_getaffinity(0)
# The gateway, retriever and encoder; selector, extractor and generator, and the engine behind each.
HOPS = 9
HOP_MS = 3.0


@dataclass(frozen=True)
class Bench:
    """What is measured: a service, the ferries that it is asked about, and the seconds of one load."""

    chosen: Chosen
    folder: Path
    asked: Sequence[Ferry]
    seconds: float

    @property
    def deadline_s(self) -> float:
        """That of every request."""
        return self.chosen.settings.serve.timeout_s

    def asking(self, *, checked: bool = True, **options: int) -> list[Asked]:
        """The questions in turn; a right answer has the year that was asked for."""
        return [
            Asked({"question": one.question, **options}, str(one.year) if checked else "")
            for one in self.asked
        ]


def benchmark(
    config: str, given: Sequence[str], documents: int, seconds: float, real_s: float
) -> list[Bound]:
    """The bounds of the service with a scripted model; where `real_s` is above 0 also those of its load with
    the model of the settings, that many seconds each. Raises MragError.
    """
    with tempfile.TemporaryDirectory() as folder:
        base, written = Path(folder), ferries(documents)
        asked = written[:QUESTIONS]
        write_documents(base / "documents", written)
        write_replies(base / "replies.jsonl", asked)
        script = json.dumps({"engine": "scripted", "replies": str(base / "replies.jsonl")})
        placed = place(base / "collections", "ferries", free_port(8000))
        own = ("method=sane", f"serve.timeout_s={DEADLINE_S}", *given, *placed)
        quick = (*own, f"language_model={script}", "serve.language_model.num_cpus=0.1")
        bench = Bench(Chosen(config, quick), base, asked, seconds)
        tell(f"indexing {documents:,} documents by rule")
        asyncio.run(index_folder(bench.chosen.settings, base / "documents"))
        bounds, overhead_s = scripted(bench)
        if real_s:
            bounds += real(Bench(Chosen(config, own), base, asked, real_s), overhead_s)
        return bounds


# --------------------------------------------------------------------------- with the scripted model


def scripted(bench: Bench) -> tuple[list[Bound], float]:
    """What retrieval, hops and load come to, and the seconds that the graph adds to one answer."""
    with served(bench) as (cluster, url), beside(cluster, bench), pinned(last_core()):
        tell("asking for pools")
        retrieval = retrieval_bound(bench, url)
        tell("asking one question after the other, over HTTP and in this process")
        graph = loaded(at_once(f"{url}/v1/query", bench.asking(), 1, bench.seconds)).percentile(0.5)
        alone = asyncio.run(in_process(bench))
        hop_ms = 1000 * (graph - alone) / HOPS
        detail = f"{1000 * graph:.1f} ms over {1000 * alone:.1f} ms, {HOPS} hops"
        hops = Bound("a hop of the graph over its stages in process", hop_ms, HOP_MS, "ms", detail)
        bounds = load_bounds("scripted model", bench, f"{url}/v1/query", bench.asking())
    return [retrieval, hops, *bounds], graph - alone


def retrieval_bound(bench: Bench, url: str) -> Bound:
    """The route against the bare deployment, by turns, so that what else the machine does meets both."""
    asked, taken = bench.asking(checked=False, w=POOL), dict[str, list[float]]()
    for _ in range(TURNS):
        for path in ("/v1/retrieve", PREFIX):
            load = loaded(at_once(url + path, asked, 1, bench.seconds / TURNS))
            taken.setdefault(path, []).extend(load.accepted)
    service, bare = (1000 * median(seconds) for seconds in taken.values())
    return ratio("/v1/retrieve over a bare deployment, p50", service, bare, 2.0)


async def in_process(bench: Bench) -> float:
    """The median seconds of the same questions through the same stages in this process."""
    settings = bench.chosen.settings
    questions = [question_for(settings, one.question) for one in bench.asked]
    taken: list[float] = []
    async with opened_by_stage(settings, open_language_model) as models:
        pipeline = local_pipeline(settings, models, open_encoder(settings.encoder))
        for turn in range(TURNS):
            for question in questions:
                started = time.perf_counter()
                await pipeline.answer(question)
                if turn:  # The first opens the collection and starts Java.
                    taken.append(time.perf_counter() - started)
    return median(taken)


@contextlib.contextmanager
def beside(cluster: Cluster, bench: Bench) -> Iterator[None]:
    """The bare deployment, on the cluster and at the port of the service."""
    command = [sys.executable, "-m", "jobs.bare_service", "--address", cluster.address, *bench.chosen.options]
    log = bench.folder / "bare.log"
    with pinned(other_cores()), process(command, log, cluster.environment) as child:
        wait_until(lambda: READY in log.read_text("utf-8", "replace"), "The bare deployment", child, log)
        yield


# --------------------------------------------------------------------------- with a true one


def real(bench: Bench, overhead_s: float) -> list[Bound]:
    """Its load, and what share of an answer the graph is."""
    with served(bench) as (_, url), pinned(last_core()):
        answering = f"{url}/v1/query"
        alone = loaded(at_once(answering, bench.asking(checked=False)[:ALONE], 1, bench.seconds))
        share = 100 * overhead_s / alone.percentile(0.5)
        tell(f"an answer alone takes {alone.percentile(0.5):.1f} s, of which the graph is {share:.1f} %")
        return load_bounds("model of the settings", bench, answering, bench.asking(checked=False))


# --------------------------------------------------------------------------- load


def load_bounds(name: str, bench: Bench, url: str, asked: Sequence[Asked]) -> list[Bound]:
    """What is answered at twice the rate at which more clients bring no more answers."""
    steps: list[Load] = []
    for clients in CLIENTS:
        steps.append(loaded(at_once(url, asked, clients, bench.seconds)))
        tell(f"{name}: {clients} clients, {steps[-1].per_s:.2f} answers/s")
    full = max(step.per_s for step in steps)
    twice = loaded(a_second(url, asked, 2 * full, 2 * bench.seconds))
    missing = 100 * (1 - twice.per_s / full)
    told = f"{twice.per_s:.2f} of {full:.2f}; {twice.refused} of {len(twice.replies)} told to come again"
    loads = (*steps, twice)
    lost, sent = sum(load.lost for load in loads), sum(len(load.replies) for load in loads)
    return [
        Bound(f"{name}: answers/s missing at twice the load", missing, 15.0, "%", told),
        Bound(f"{name}: requests lost or answered wrongly", lost, 0.0, "", f"of {sent}"),
        Bound(
            f"{name}: p99 of those answered", twice.percentile(0.99), bench.deadline_s, "s", "the deadline"
        ),
    ]


def loaded(load: Coroutine[Any, Any, Load]) -> Load:
    """What came of it. Raises MragError where nothing was answered."""
    done = asyncio.run(load)
    if not done.accepted:
        statuses = sorted({reply.status for reply in done.replies})
        raise MragError(f"The service answered nothing (HTTP {statuses}): raise --seconds, or see its log.")
    return done


# --------------------------------------------------------------------------- the machine


@contextlib.contextmanager
def served(bench: Bench) -> Iterator[tuple[Cluster, str]]:
    """The service on a cluster of its own, on its cores."""
    with (
        pinned(other_cores()),
        ray_head(bench.folder) as cluster,
        service(cluster, bench.chosen, bench.folder, aside) as url,
    ):
        yield cluster, url


@contextlib.contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """This process, and what it starts, keep to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def last_core() -> set[int]:
    """The one from which the service is asked."""
    return {max(ALL_CORES)}


def other_cores() -> set[int]:
    """Those of the service: all but the last, where there are two."""
    return ALL_CORES - last_core() or ALL_CORES


def main(
    config: Annotated[str, typer.Option(help="Settings file.")] = "configs/local.yaml",
    overrides: Overrides = None,
    documents: Annotated[int, typer.Option(min=QUESTIONS, max=20_000, help="How many are indexed.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1, help="Of one load, with the scripted model.")] = 20,
    real_s: Annotated[
        float, typer.Option("--real-seconds", min=0, help="Of one load with the settings' model; 0: none.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure what the service costs over its parts, and what it does at twice the load that fills it."""
    try:
        bounds = benchmark(config, overrides or (), documents, seconds, real_s)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"documents": documents, "seconds": seconds, "bounds": rows(bounds)}, indent=2))
    else:
        Console(width=140).print(table("the service", bounds))


if __name__ == "__main__":
    typer.run(main)
