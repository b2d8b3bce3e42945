"""Compacts a collection on a Ray cluster: `ray job submit ... -- python -m jobs.compact --config FILE`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import ray
import typer
from ray.exceptions import RayTaskError

from jobs.index import WITH_JAVA
from mrag.cli.terminal import Terminal, two_columns
from mrag.collection import Manifest, ShardInfo
from mrag.errors import MragError
from mrag.indexing.compact import compact, write_compacted
from mrag.settings import Settings, load_settings, require_absolute_root


def write_shards(settings: Settings, before: Manifest, segment: str) -> Sequence[ShardInfo]:
    """Every shard of the new segment by a task of its own."""
    write = ray.remote(write_compacted).options(num_cpus=settings.job.task_num_cpus)
    shards = range(settings.collection.shards)
    tasks = [write.remote(settings, before, segment, shard) for shard in shards]
    try:
        written: list[ShardInfo] = ray.get(tasks)
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, MragError) else error from None
    return written


def main(
    config: Annotated[
        Path | None, typer.Option(help="Settings file; the defaults are configs/local.yaml.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")
    ] = None,
) -> None:
    """Merge a collection's segments into one, in the shards that its settings say now."""
    try:
        settings = load_settings(config, tuple(overrides or ()))
        require_absolute_root(settings)
        ray.init(logging_level=logging.WARNING, log_to_driver=False, runtime_env=WITH_JAVA)
        done = compact(settings, write_shards)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    Terminal(width=110, soft_wrap=False).print(two_columns(done.table(), "compacted"))


if __name__ == "__main__":
    typer.run(main)
