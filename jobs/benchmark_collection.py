"""What a collection costs over the bare engines, with each bound next to what was measured.

`python -m jobs.benchmark_collection --records 1000000`: one process, vectors and texts of chance, no model.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from jobs.bare_search import bare_faiss, bare_lucene
from jobs.bounds import Bound, ratio, rows, table, tell
from jobs.synthetic import RECORDS_PER_DOCUMENT, entries, queries
from mrag.collection import (
    Collection,
    SegmentInfo,
    ShardEntry,
    Stamp,
    new_segment_id,
    publish,
    shard_folder,
    write_shard,
)
from mrag.indexing.compact import compact
from mrag.schema import Leg, Query, Vectors
from mrag.settings import DenseSettings, SparseSettings, parse_settings

DEPTH = 20
SEGMENTS = 16
APPENDED_DOCUMENTS = 1000
APPENDS = 3
WARMING = 20
SMALL_RECORDS = 10_000
SPARSE = SparseSettings()
MB = 1e6


def benchmark(root: Path, records: int, dimension: int, asked: int) -> list[Bound]:
    """Writes four collections below `root` and measures them; `asked` is the number of queries."""
    tell(f"writing {records:,} records of {dimension} dimensions, once as one segment, once as {SEGMENTS}")
    add(root, "one", entries(0, records, dimension), dimension)
    share = -(-records // SEGMENTS // RECORDS_PER_DOCUMENT) * RECORDS_PER_DOCUMENT
    for first in range(0, records, share):
        part = entries(first // RECORDS_PER_DOCUMENT, min(share, records - first), dimension)
        add(root, "many", part, dimension)
    add(root, "small", entries(0, SMALL_RECORDS, dimension), dimension)
    tell("opening")
    bounds = opening(root, records, dimension)
    tell("searching")
    given = queries(asked, dimension, DEPTH)
    bounds += searching(root, given)
    bounds += segments(root, given)
    tell("appending")
    return [*bounds, appending(root, records, dimension)]


def add(root: Path, name: str, written: Iterable[ShardEntry], dimension: int) -> None:
    """One segment of one shard, published."""
    stamp = Stamp("synthetic", "chance", dimension, SPARSE.language, SPARSE.k1, SPARSE.b, "key")
    segment = new_segment_id()
    info = write_shard(shard_folder(root, name, segment, 0), written, DenseSettings(), SPARSE)
    publish(root, name, stamp, SegmentInfo(segment, (info,)))


# --------------------------------------------------------------------------- opening


def opening(root: Path, records: int, dimension: int) -> list[Bound]:
    """Opened and searched once by a process that does nothing else."""
    command = [sys.executable, "-c", "from jobs.benchmark_collection import open_once; open_once()"]
    done = subprocess.run([*command, str(root), str(dimension)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    allowed = (1.3 * records * dimension * 4 + 300 * MB) / MB
    return [
        Bound("opening, sizes compared", found["seconds"], 5.0, "s", "the first search not among it"),
        Bound("memory of a process that searches", found["mb"], allowed, "MB", "1.3 x vectors + 300 MB"),
    ]


def open_once() -> None:
    """The program of that process: prints its seconds and what memory it has then."""
    root, dimension = Path(sys.argv[1]), int(sys.argv[2])
    started = time.perf_counter()
    collection = Collection.open(root, "one", verify="fast")
    seconds = time.perf_counter() - started
    collection.search(queries(1, dimension, DEPTH)[0])
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    print(json.dumps({"seconds": seconds, "mb": int(resident.split()[1]) * 1024 / MB}))


# --------------------------------------------------------------------------- searching


def searching(root: Path, given: Sequence[Query]) -> list[Bound]:
    """One segment, against FAISS and Lucene themselves, over the same files."""
    collection = Collection.open(root, "one", verify="fast")
    by_faiss, by_lucene = bare_faiss(root, "one"), bare_lucene(root, "one", SPARSE)
    dense, bare_dense = compared(
        given, by(collection, "dense"), lambda query: by_faiss(vector_of(query), query.depth)
    )
    sparse, raw_sparse = compared(
        given, by(collection, "sparse"), lambda query: by_lucene(query.text, query.depth)
    )
    both, _ = compared(given, collection.search, lambda query: None)
    slower = max(dense, sparse)
    return [
        ratio("dense search over FAISS", dense, bare_dense, 1.1),
        ratio("sparse search over Lucene", sparse, raw_sparse, 1.15),
        ratio("both legs over the slower one", both, slower, 1.2),
    ]


def by(collection: Collection, leg: Leg) -> Callable[[Query], Any]:
    """A search by one leg."""
    return lambda query: collection.search(replace(query, legs=(leg,)))


def vector_of(query: Query) -> Vectors:
    """The vector, which every query of the benchmark has."""
    assert query.vector is not None
    return query.vector


def compared(
    given: Sequence[Query], one: Callable[[Query], Any], other: Callable[[Query], Any]
) -> tuple[float, float]:
    """Median milliseconds of each, asked by turns, and first by turns.

    So what else the machine does meets both, and neither finds the other's pages in the processor's caches
    more often.
    """
    times: tuple[list[float], list[float]] = ([], [])
    turns = list(zip((one, other), times, strict=True))
    for query in given[:WARMING]:
        for search, _ in turns:
            search(query)
    for query in given:
        for search, taken in turns:
            started = time.perf_counter()
            search(query)
            taken.append(1000 * (time.perf_counter() - started))
        turns.reverse()
    return median(times[0]), median(times[1])


# --------------------------------------------------------------------------- segments, appends


def segments(root: Path, given: Sequence[Query]) -> list[Bound]:
    """Many segments against one, before and after they are compacted."""
    one = Collection.open(root, "one", verify="fast")
    many = Collection.open(root, "many", verify="fast")
    count = len(many.manifest.segments)
    parted, whole = compared(given, many.search, one.search)
    many.close()
    settings = parse_settings({"collection": {"root": root, "name": "many"}})
    started = time.perf_counter()
    compact(settings)
    seconds = time.perf_counter() - started
    merged, again = compared(given, Collection.open(root, "many", verify="fast").search, one.search)
    return [
        ratio(f"{count} segments over one", parted, whole, 2.0),
        ratio(f"the same after a compaction of {seconds:.0f} s", merged, again, 1.1),
    ]


def appending(root: Path, records: int, dimension: int) -> Bound:
    """A thousand documents to many records and to few, by turns."""
    taken: dict[str, list[float]] = {"one": [], "small": []}
    for turn in range(APPENDS):
        for name, seconds in taken.items():
            first = max(records, SMALL_RECORDS) + turn * APPENDED_DOCUMENTS
            new = list(entries(first, APPENDED_DOCUMENTS * RECORDS_PER_DOCUMENT, dimension))
            started = time.perf_counter()
            add(root, name, new, dimension)
            seconds.append(time.perf_counter() - started)
    large, small = (1000 * median(seconds) for seconds in taken.values())
    return ratio(f"appending {APPENDED_DOCUMENTS:,} documents, over to {SMALL_RECORDS:,}", large, small, 1.1)


# --------------------------------------------------------------------------- the command


def main(
    records: Annotated[int, typer.Option(min=1000, help="How many, of a key each.")] = 100_000,
    dimension: Annotated[int, typer.Option(min=1, help="Of the vectors.")] = 384,
    asked: Annotated[int, typer.Option("--queries", min=1, help="How many are searched for.")] = 100,
    root: Annotated[
        Path | None, typer.Option(help="An empty folder for them (by default a temporary one).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure what a collection costs over FAISS and Lucene themselves. About 5 kB of disk a record."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        bounds = benchmark(Path(folder), records, dimension, asked)
    if as_json:
        found = {"records": records, "dimension": dimension, "bounds": rows(bounds)}
        typer.echo(json.dumps(found, indent=2))
    else:
        Console(width=120).print(table("a collection", bounds))


if __name__ == "__main__":
    typer.run(main)
