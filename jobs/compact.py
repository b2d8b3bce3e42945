"""Compacts a collection on a Ray cluster: `ray job submit ... -- python -m jobs.compact --config FILE`."""

from __future__ import annotations

from collections.abc import Sequence

import ray
import typer
from ray.exceptions import RayError, RayTaskError

from jobs.causes import cause
from mrag.cli.terminal import Config, Overrides, Terminal, Wait, two_columns
from mrag.collection import Manifest, ShardInfo
from mrag.errors import CollectionError, MragError
from mrag.indexing.compact import compact, write_compacted
from mrag.settings import Settings, load_settings, require_absolute_root
from serve.connection import connect


def write_shards(settings: Settings, before: Manifest, segment: str) -> Sequence[ShardInfo]:
    """Every shard of the new segment by a task of its own."""
    write = ray.remote(write_compacted).options(num_cpus=settings.job.task_num_cpus)
    shards = range(settings.collection.shards)
    tasks = [write.remote(settings, before, segment, shard) for shard in shards]
    try:
        written: list[ShardInfo] = ray.get(tasks)
    except RayTaskError as error:
        raise cause(error) from None
    except RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise CollectionError(f"A worker of the compaction was lost ({reason}): run it again.") from None
    return written


def main(
    config: Config = None,
    overrides: Overrides = None,
    wait_s: Wait = 0,
) -> None:
    """Merge a collection's segments into one, in the shards that its settings say now."""
    try:
        settings = load_settings(config, tuple(overrides or ()))
        require_absolute_root(settings)
        connect()
        done = compact(settings, write_shards, wait_s)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    Terminal(width=110, soft_wrap=False).print(two_columns(done.table(), "compacted"))


if __name__ == "__main__":
    typer.run(main)
