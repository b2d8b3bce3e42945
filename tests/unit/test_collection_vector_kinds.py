"""Graphs and lists over vectors: never short, scored by the vectors, and what they find is measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from mrag.collection import Collection, dense, read_manifest
from mrag.collection.dense import KEYS, DenseIndex, DensePart, DenseWriter
from mrag.collection.manifest import _checksum
from mrag.collection.vector_kinds import kind_for
from mrag.collection.vector_recall import vector_search
from mrag.errors import CollectionError, SettingsError
from mrag.schema import Vectors
from mrag.settings import DenseSettings, load_settings
from tests.collection_corpus import STAMP_WITH_UNITS, add, ask, make_pointed

COUNT, DIMENSION, DEPTH = 10_500, 16, 20
KINDS = {
    "hnsw": DenseSettings(index="hnsw", hnsw={"m": 8, "ef_construction": 60, "ef_search": 48}),
    "ivf-pq": DenseSettings(index="ivf-pq", ivf_pq={"nlist": 64, "nprobe": 12, "code_bytes": 8}),
}


def clustered(count: int, seed: int = 0) -> Vectors:
    """Unit rows around 200 centres: what a graph or lists can make something of."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(200, DIMENSION))
    rows = centres[chance.integers(0, 200, count)] + 0.6 * chance.normal(size=(count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


VECTORS = clustered(COUNT)
QUERIES = clustered(40, seed=1)


@pytest.fixture(scope="module", params=KINDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return write(tmp_path_factory.mktemp(request.param), KINDS[request.param]), request.param


def write(folder: Path, settings: DenseSettings) -> Path:
    writer = DenseWriter(settings=settings)
    writer.add(VECTORS)
    writer.write(folder)
    return folder


def opened(built: tuple[Path, str], live: NDArray[np.bool_] | None = None, **changes: Any) -> DenseIndex:
    folder, kind = built
    part = DensePart(folder, np.ones(COUNT, np.bool_) if live is None else live, KEYS, kind)
    return DenseIndex([part], DIMENSION, KINDS[kind].model_copy(update=changes))


# --------------------------------------------------------------------------- which kind


def test_a_kind_is_taken_by_number_and_flat_where_training_has_too_few() -> None:
    auto = DenseSettings(index="auto", auto={"hnsw_from": 1000, "ivf_pq_from": 50_000})
    names = [kind_for(auto, number, 384).name for number in (1, 999, 1000, 49_999, 50_000)]
    assert names == ["flat", "flat", "hnsw", "hnsw", "ivf-pq"]
    assert kind_for(DenseSettings(), 10**7, 384) == kind_for(DenseSettings(), 1, 384)
    few = kind_for(DenseSettings(index="ivf-pq"), 9_983, 384)
    assert (few.name, few.note) == ("flat", "ivf-pq: training needs 9,984 vectors, and there are 9,983")
    assert kind_for(DenseSettings(index="ivf-pq"), 9_984, 384).parameters == {
        "nlist": 256,
        "nprobe": 32,
        "code_bytes": 48,
        "refine": 10,
    }
    asked = DenseSettings(index="ivf-pq", ivf_pq={"nlist": 1000})
    assert kind_for(asked, 38_999, 384).name == "flat"
    odd = kind_for(asked, 39_000, 100)
    note = "codes of a size that divides 100 and that GPUs take"
    assert (odd.parameters["code_bytes"], odd.note) == (20, note)
    assert kind_for(asked, 39_000, 300).parameters["code_bytes"] == 20
    assert kind_for(asked, 39_000, 37).parameters["code_bytes"] == 1


def test_thresholds_that_descend_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"dense\.auto.*ivf_pq_from \(5\) is less than hnsw_from"):
        load_settings(None, ("dense.auto.hnsw_from=10", "dense.auto.ivf_pq_from=5"))


# --------------------------------------------------------------------------- what is found


def products(query: Vectors) -> Any:
    return (VECTORS.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)


def test_most_of_the_best_are_found_with_their_own_scores(built: tuple[Path, str]) -> None:
    index = opened(built)
    assert not index.exact
    shares = []
    for query in QUERIES:
        scores, rows = index.search(query, DEPTH)
        assert (len(set(rows.tolist())), scores.tolist()) == (DEPTH, sorted(scores.tolist(), reverse=True))
        assert scores == pytest.approx(products(query)[rows], abs=1e-6)
        assert index.scores_of(query, rows).tolist() == scores.tolist() == index.scores(query)[rows].tolist()
        shares.append(np.mean(scores >= np.sort(products(query))[-DEPTH] - 1e-6))
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("filtered", [False, True])
def test_what_is_dead_or_filtered_makes_no_result_short(
    built: tuple[Path, str], share: float, filtered: bool
) -> None:
    wanted = np.random.default_rng(3).random(COUNT) < share
    index = opened(built) if filtered else opened(built, wanted)
    shares = []
    for query in QUERIES[:10]:
        scores, rows = index.search(query, DEPTH, wanted if filtered else None)
        best = np.sort(products(query)[wanted])[::-1][:DEPTH]
        assert len(rows) == len(best)
        assert wanted[rows].all()
        shares.append(np.mean(scores >= best[-1] - 1e-6) if len(best) else 1.0)
    assert np.mean(shares) > 0.85
    if share <= 0.01:
        assert np.mean(shares) == 1.0  # So few are scored one by one.


@pytest.mark.parametrize("count", [1, 500, 5000, COUNT, 10**6])
def test_as_many_are_found_as_are_asked_for(built: tuple[Path, str], count: int) -> None:
    scores, rows = opened(built).search(QUERIES[0], count)
    assert len(set(rows.tolist())) == min(count, COUNT)
    if count >= COUNT:
        assert scores == pytest.approx(np.sort(products(QUERIES[0]))[::-1], abs=1e-6)


def test_whoever_opens_it_as_flat_finds_the_best(built: tuple[Path, str]) -> None:
    index = opened(built, index="flat")
    assert index.exact
    for query in QUERIES[:5]:
        assert index.search(query, DEPTH)[0] == pytest.approx(
            np.sort(products(query))[::-1][:DEPTH], abs=1e-6
        )


def test_recall_is_measured_and_alike_each_time(built: tuple[Path, str]) -> None:
    folder, name = built
    kind = kind_for(KINDS[name], COUNT, DIMENSION)
    measured = [vector_search(folder, KEYS, KINDS[name], kind, (COUNT, DIMENSION)) for _ in range(2)]
    assert measured[0] == measured[1]
    assert measured[0] is not None
    assert (measured[0].kind, measured[0].parameters) == (name, dict(kind.parameters))
    assert measured[0].recall is not None
    assert 0.85 < measured[0].recall <= 1


def test_a_bad_index_has_a_bad_recall(tmp_path: Path) -> None:
    bad = DenseSettings(index="ivf-pq", ivf_pq={"nlist": 64, "nprobe": 1, "code_bytes": 1, "refine": 1})
    write(tmp_path, bad)
    found = vector_search(tmp_path, KEYS, bad, kind_for(bad, COUNT, DIMENSION), (COUNT, DIMENSION))
    assert found is not None
    assert found.recall is not None
    assert found.recall < 0.4


# --------------------------------------------------------------------------- a GPU


def test_a_gpu_searches_lists_and_instead_of_a_graph_all_vectors(
    built: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = built[1]
    moved: list[Any] = []

    class Ignoring:
        """Lists on a GPU: selectors are ignored without a word, and no more than some hits are given."""

        def __init__(self, index: Any) -> None:
            moved.append(index)
            self._index = index

        def search(self, query: Vectors, count: int, params: Any = None) -> tuple[Any, Any]:
            assert count <= dense.GPU_MAX_HITS
            plain = faiss.SearchParametersIVF(nprobe=params.nprobe) if params else None
            return self._index.search(query, count, params=plain)  # type: ignore[no-any-return]

    monkeypatch.setattr(dense, "OnGpu", Ignoring)
    wanted = np.random.default_rng(3).random(COUNT) < 0.3
    index = opened(built, wanted, device="gpu")
    assert [type(one).__name__ for one in moved] == ["IndexFlatIP" if name == "hnsw" else "IndexIVFPQ"]
    for query in QUERIES[:5]:
        rows = index.search(query, DEPTH)[1]
        assert len(rows) == DEPTH
        assert name == "hnsw" or wanted[rows].all()


# --------------------------------------------------------------------------- files


def finder(built: tuple[Path, str]) -> Path:
    return built[0] / f"keys.{built[1]}"


def test_a_file_that_was_cut_is_refused(built: tuple[Path, str]) -> None:
    path = finder(built)
    whole = path.read_bytes()
    try:
        for length in [*range(0, 200, 7), *range(200, len(whole), len(whole) // 40), len(whole) - 1]:
            path.write_bytes(whole[:length])
            with pytest.raises(CollectionError, match="restore it from a copy"):
                opened(built)
    finally:
        path.write_bytes(whole)


# --------------------------------------------------------------------------- a collection


def many(documents: int) -> list[Any]:
    return [
        make_pointed(
            f"d{number:04d}",
            [f"unit {number} {unit}" for unit in range(3)],
            [([f"key {number} {record}", f"other {number} {record}"], (record + 1,)) for record in range(3)],
        )
        for number in range(documents)
    ]


def test_a_collection_over_a_graph_answers_and_says_by_what(tmp_path: Path) -> None:
    settings = DenseSettings(index="hnsw", hnsw={"m": 8, "ef_search": 32})
    entries = many(700)
    manifest = add(tmp_path, "c", entries, 2, stamp=STAMP_WITH_UNITS, dense=settings)
    assert [(search.file, search.kind) for search in manifest.segments[0].shards[1].searches] == [
        ("keys.faiss", "hnsw"),
        ("units.faiss", "hnsw"),
    ]
    assert read_manifest(tmp_path, "c") == manifest
    add(tmp_path, "c", [], 2, replaced=[f"d{n:04d}" for n in range(0, 700, 2)], stamp=STAMP_WITH_UNITS)
    for finder in (tmp_path / "c").rglob(
        "keys.hnsw"
    ):  # FAISS would take any size and link that stands there.
        whole = finder.read_bytes()
        finder.write_bytes(bytes([whole[0], whole[1] ^ 1, *whole[2:]]))
        with pytest.raises(CollectionError, match=r"keys\.hnsw has another checksum.*restore it"):
            Collection.open(tmp_path, "c", verify="fast")
        finder.write_bytes(whole)
    found, exact = (Collection.open(tmp_path, "c", dense=dense) for dense in (settings, None))
    shares = []
    for text in ("key 5 1", "unit 77 2", "other 501 0", "nothing of all"):
        for weight in (None, 0.5, 2.0):
            hits, best = (one.search(ask(text, 5, weight))["dense"] for one in (found, exact))
            assert len(hits) == 5
            assert all(int(hit.record_id[1:5]) % 2 for hit in hits)
            shares.append(len({hit.record_id for hit in hits} & {hit.record_id for hit in best}) / 5)
            known = {hit.record_id: (hit.score, hit.key) for hit in best}
            for hit in hits:
                assert known.get(hit.record_id, (hit.score, hit.key)) == (hit.score, hit.key)
    assert np.mean(shares) > 0.8


def test_a_manifest_from_before_there_were_kinds_is_read(tmp_path: Path) -> None:
    manifest = add(tmp_path, "c", many(3), stamp=STAMP_WITH_UNITS)
    path = tmp_path / "c" / "manifests" / "000001.json"
    tree = json.loads(path.read_bytes())
    for shard in tree["segments"][0]["shards"]:
        assert shard.pop("searches") == []
    del tree["checksum"]
    checksum = _checksum(tree)
    path.write_text(json.dumps({**tree, "checksum": checksum}))
    (tmp_path / "c" / "CURRENT").write_text(f"000001\n{checksum}\n")
    assert read_manifest(tmp_path, "c") == manifest
    assert dataclasses.replace(manifest.segments[0].shards[0], searches=()).kind(KEYS) == "flat"
