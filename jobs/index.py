"""Indexes a folder on a Ray cluster: `ray job submit ... -- python -m jobs.index FOLDER --config FILE`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import ray
import typer
from ray.data import ActorPoolStrategy, Dataset
from ray.data.expressions import col

from jobs.cap import start_cap
from jobs.compact import write_shards
from jobs.progress import reported
from jobs.rows import unpack
from jobs.served import index_served
from jobs.stages import NO_SHARD, Encode, Extract, Read, Survey, write_group
from mrag.cli import CAP_HELP, SYNC_HELP
from mrag.cli.terminal import Config, Overrides, Terminal, Wait, harmless, two_columns
from mrag.collection import SegmentInfo, check_stamp, lease, new_segment_id
from mrag.documents.loaders import list_inputs
from mrag.errors import MragError
from mrag.indexing.builder import Builder
from mrag.indexing.builders import make_builder
from mrag.indexing.diff import Input, settled
from mrag.indexing.ledger import Ledger
from mrag.indexing.plan import ANNOUNCED, Plan, counted_plan, plan_left
from mrag.indexing.report import Report, report
from mrag.indexing.run import compared, published
from mrag.indexing.stamp import collection_stamp
from mrag.models.opening import open_encoder
from mrag.models.tokens import load_tokenizer
from mrag.schema import Outcome, Status
from mrag.settings import PoolSettings, Settings, load_settings, require_absolute_root
from serve.connection import connect

BLOCKS_FOR_EACH = 4  # Of what an extractor asks at once: the last ones end together.
ENCODED_AT_ONCE = 8


def index(
    settings: Settings,
    folder: Path,
    max_llm_tokens: int | None = None,
    sync: bool = False,
    wait_s: float = 0,
) -> Report:
    """Indexes what is new or changed in `folder`, as one new generation. Raises MragError.

    What is gone from the folder stays, or is removed by the same generation (`sync`).
    `max_llm_tokens` is the cap of this run: documents that it leaves no room for end as `pending`.
    A collection that another process writes is waited for `wait_s`.
    """
    started = time.monotonic()
    require_absolute_root(settings)
    root, name = settings.collection.root, settings.collection.name
    builder = make_builder(settings, load_tokenizer(settings.encoder.model))
    on_head = open_encoder(settings.encoder.model_copy(update={"device": "cpu"}))
    stamp = collection_stamp(settings, builder, on_head)
    check_stamp(root, name, stamp)
    list_inputs(folder)  # Refuses what is no folder before anything is written.
    with lease(root, name, wait_s):
        unread, inputs = survey(settings, folder)
        say(f"{len(unread) + len(inputs)} inputs")
        plan = compared(settings, inputs, unread, sync)
        Ledger(root, name).hand_on(plan.heirs)
        asked = announce(settings, folder, plan.to_index, builder)
        outcomes: list[Outcome] = []
        segment = None
        if plan.to_index:
            cap = None if max_llm_tokens is None else start_cap(max_llm_tokens)
            with reported(asked) as counter:
                encoded = encode(settings, folder, plan.to_index, (counter, cap))
            outcomes = account(plan.to_index, encoded)
            segment = write(settings, encoded)
        plan = settled(plan, outcomes)
        done = published(settings, stamp, segment, plan, folder, on_head, write_shards)
        left = asyncio.run(plan_left(settings, folder, plan.to_index, outcomes, builder))
    ended = (*unread, *plan.outcomes, *outcomes)
    seconds = time.monotonic() - started
    return report(ended, seconds, done, plan.removed, plan.withheld, left)


def announce(settings: Settings, folder: Path, to_index: Sequence[Input], builder: Builder) -> Plan:
    """Says in the log what the job is about to ask of the language model, and returns it."""
    plan = asyncio.run(counted_plan(settings, folder, to_index, builder, ANNOUNCED))
    say(plan.sentence())
    if plan.left.calls:
        say("the first reply comes when the language model is loaded: up to a minute on two cores")
    return plan


def survey(settings: Settings, folder: Path) -> tuple[list[Outcome], list[Input]]:
    """What can't be read, and the inputs that can, in the order of their files."""
    rows = files(settings, list_inputs(folder)).flat_map(Survey(folder), num_cpus=settings.job.task_num_cpus)
    seen = [unpack(row["seen"]) for row in rows.take_all()]
    inputs = sorted((item for item in seen if isinstance(item, Input)), key=lambda item: item.origin)
    return [item for item in seen if isinstance(item, Outcome)], inputs


def encode(settings: Settings, folder: Path, to_index: Sequence[Input], told: tuple[Any, Any]) -> Dataset:
    """Reads, extracts and encodes; the rows are kept, so that each shard's writer can take its own.

    `told` are the actors that the extractors tell of their work: the counter, and the cap or None.
    """
    job, model = settings.job, settings.indexing_model
    built = documents(settings, folder, to_index).map_batches(
        Extract,
        fn_constructor_args=(settings, *told),
        batch_size=1,
        compute=pool(job.extractors, model.max_concurrency),
        **holds(job.extractors),
    )
    encoded = built.map_batches(
        Encode,
        fn_constructor_args=(settings,),
        batch_size=ENCODED_AT_ONCE,
        compute=pool(job.encoders),
        **holds(job.encoders),
    )
    return encoded.materialize()


def documents(settings: Settings, folder: Path, to_index: Sequence[Input]) -> Dataset:
    """The documents to index, in blocks for the extractors: a file is read as one, however many it has.

    They are kept first, since the cutting takes CPUs that the actors of the next stages would hold.
    """
    wanted = {item.origin: item.hash for item in to_index}
    paths = sorted({folder / item.origin.rpartition("#")[0] for item in to_index})
    job = settings.job
    read = files(settings, paths).flat_map(Read(folder, wanted), num_cpus=job.task_num_cpus)
    at_once = job.extractors.max_actors * settings.indexing_model.max_concurrency
    return read.repartition(min(len(to_index), BLOCKS_FOR_EACH * at_once)).materialize()


def account(to_index: Sequence[Input], encoded: Dataset) -> list[Outcome]:
    """One outcome for each document that was to be indexed, also for one that did not come through."""
    outcomes = [unpack(row["outcome"]) for row in encoded.select_columns(["outcome"]).iter_rows()]
    through = {outcome.id for outcome in outcomes}
    lost = "It changed or vanished while the job ran: run the job again."
    return outcomes + [Outcome(item.id, Status.FAILED, lost) for item in to_index if item.id not in through]


def write(settings: Settings, encoded: Dataset) -> SegmentInfo | None:
    """Writes every shard by a task of its own; None where no document came through."""
    shards, segment = settings.collection.shards, new_segment_id()
    empty = ray.data.from_items([{"outcome": b"", "entry": b"", "shard": n} for n in range(shards)])
    rows = encoded.filter(expr=col("shard") != NO_SHARD)
    if not rows.count():
        return None
    written = (
        rows.union(empty)
        .groupby("shard", num_partitions=shards)
        .map_groups(
            write_group,
            fn_kwargs={"settings": settings, "segment": segment},
            num_cpus=settings.job.task_num_cpus,
            batch_format="numpy",
        )
    )
    infos = {row["shard"]: unpack(row["info"]) for row in written.take_all()}
    return SegmentInfo(segment, tuple(infos[shard] for shard in range(shards)))


# --------------------------------------------------------------------------- Ray Data's words


def files(settings: Settings, paths: Iterable[Path]) -> Dataset:
    """One row a file; its name as bytes, since it may hold some that are no text."""
    return ray.data.from_items([{"path": os.fsencode(path)} for path in paths])


def pool(settings: PoolSettings, concurrent: int = 1) -> ActorPoolStrategy:
    """A pool of actors, each working on `concurrent` batches at once."""
    return ActorPoolStrategy(
        min_size=settings.min_actors,
        max_size=settings.max_actors,
        max_tasks_in_flight_per_actor=max(2, concurrent),
        max_concurrent_calls_per_actor=concurrent,
    )


def holds(settings: PoolSettings) -> dict[str, Any]:
    """What each actor of a pool holds."""
    return {"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus}


# --------------------------------------------------------------------------- the command


def say(text: str) -> None:
    """One line in the job's log."""
    print(harmless(text), flush=True)


def quietly() -> None:
    """Leaves the log to the job's own lines; Ray keeps the others in its session's folder."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # Ray's core calls it an error that Ray Data makes restartable actors; what fails is raised in any case.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.data.DataContext.get_current().enable_progress_bars = False


def show(result: Report, as_json: Path | None) -> None:
    """The final table in the log, and the same for programs."""
    table = two_columns(result.table(), "indexed")
    Terminal(width=110, soft_wrap=False).print(table)
    if as_json:
        as_json.write_text(json.dumps(result.as_dict(), ensure_ascii=False, indent=2), "utf-8")


def main(
    folder: Annotated[Path, typer.Argument(help="Absolute path of the documents, seen by every node.")],
    config: Config = None,
    overrides: Overrides = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the report there too.")] = None,
    max_llm_tokens: Annotated[int | None, typer.Option(min=0, help=CAP_HELP)] = None,
    sync: Annotated[bool, typer.Option("--sync", help=SYNC_HELP)] = False,
    wait_s: Wait = 0,
) -> None:
    """Bring a collection up to date with a folder, as a Ray Data job."""
    try:
        settings = load_settings(config, tuple(overrides or ()))
        quietly()
        connect()
        run = index_served if settings.job.served else index
        result = run(settings, folder, max_llm_tokens, sync, wait_s)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    show(result, as_json)
    raise typer.Exit(result.exit_code)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
