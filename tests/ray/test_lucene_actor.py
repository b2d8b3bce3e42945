"""Lucene inside Ray: shards written by tasks at once, and searches in an actor of several threads.

Ray's handler of failure signals and the Java machine both want SIGSEGV, which Java uses in normal work: the
processes of Ray's workers are started with RAY_DISABLE_FAILURE_SIGNAL_HANDLER=1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import (
    Collection,
    SegmentInfo,
    ShardEntry,
    new_segment_id,
    publish,
    shard_folder,
    shard_of,
    write_shard,
)
from mrag.settings import DenseSettings, SparseSettings
from tests.collection_corpus import STAMP, ask, make_entry

ray = pytest.importorskip("ray")

SHARDS = 2
QUIET = {"env_vars": {"RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init("local", num_cpus=1, include_dashboard=False, runtime_env=QUIET, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def root(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, segment = tmp_path_factory.mktemp("collections"), new_segment_id()
    entries = [make_entry(f"d{number}", [[f"river {number % 7}", "bridge"]]) for number in range(200)]
    spread: list[list[ShardEntry]] = [
        [entry for entry in entries if shard_of(entry.built.document.id, SHARDS) == shard]
        for shard in range(SHARDS)
    ]
    write = ray.remote(num_cpus=0.5)(write_shard)
    infos = ray.get(
        [
            write.remote(shard_folder(root, "c", segment, shard), part, DenseSettings(), SparseSettings())
            for shard, part in enumerate(spread)
        ]
    )
    publish(root, "c", STAMP, SegmentInfo(segment, tuple(infos)))
    return root


def search_in_an_actor(root: Path, times: int, threads: int = 4) -> tuple[list[Any], int]:
    """What each thread found last, and the number of searches."""

    class Searcher:
        def __init__(self, root: Path) -> None:
            self._collection = Collection.open(root, "c")

        def search(self, times: int) -> Any:
            for number in range(times):
                self._collection.search(ask(f"river {number % 7}"))
            return self._collection.search(ask("bridge river 3"))

    actor = ray.remote(num_cpus=1, max_concurrency=threads)(Searcher).remote(root)
    found = ray.get([actor.search.remote(times // threads) for _ in range(threads)])
    ray.kill(actor)
    return found, times


def test_an_actor_finds_what_this_process_finds(root: Path) -> None:
    found, _ = search_in_an_actor(root, 2000)
    assert found == [Collection.open(root, "c").search(ask("bridge river 3"))] * 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_actor_survives_a_hundred_thousand_searches(root: Path) -> None:
    found, times = search_in_an_actor(root, 100_000)
    assert times == 100_000
    assert len({str(hits) for hits in found}) == 1
