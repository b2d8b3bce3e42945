"""The dense leg alone: exact whatever is dead, on a GPU as well, and from whole files of its own only."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrag.collection import dense
from mrag.collection.dense import KEYS, DenseIndex, DensePart, DenseWriter
from mrag.collection.ids import Rows
from mrag.collection.merging import Scores, fill
from mrag.errors import CollectionError, SettingsError
from mrag.schema import Vectors
from mrag.settings import DenseSettings

Live = NDArray[np.bool_]
Part = tuple[Vectors, Live]  # the keys of one shard, and which of them live


def exact_rows(count: int, dimension: int, seed: int = 0) -> Vectors:
    """Rows whose inner products float32 holds exactly; many of them are equal."""
    return np.random.default_rng(seed).integers(-4, 5, (count, dimension)).astype(np.float32) / np.float32(2)


def write(folder: Path, *batches: Vectors) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    writer = DenseWriter()
    for batch in batches:
        writer.add(batch)
    writer.write(folder)
    return folder


def opened(root: Path, parts: Sequence[Part], **settings: Any) -> DenseIndex:
    shards = [
        DensePart(write(root / str(number), vectors), live) for number, (vectors, live) in enumerate(parts)
    ]
    return DenseIndex(shards, parts[0][0].shape[1], DenseSettings(**settings))


# --------------------------------------------------------------------------- the reference


def brute_force(parts: Sequence[Part], query: Vectors) -> tuple[Any, Live]:
    """The inner product of every row, and which rows live."""
    vectors = np.concatenate([vectors for vectors, _ in parts]).astype(np.float64)
    return vectors @ query.astype(np.float64), np.concatenate([live for _, live in parts])


def assert_best(found: tuple[Scores, Rows], products: Any, live: Live, count: int) -> None:
    """The `count` best living rows, best first; which of equal ones are cut off is not promised."""
    scores, rows = found
    assert scores.tolist() == sorted(products[live], reverse=True)[:count]
    assert products[rows].tolist() == scores.tolist()
    assert len(set(rows.tolist())) == len(rows)
    assert live[rows].all()


def ranking(products: Any, live: Live, depth: int) -> list[int]:
    """The living rows that are no worse than the `depth`-th best, best first, equal ones by their place."""
    rows = sorted(np.flatnonzero(live).tolist(), key=lambda row: (-products[row], row))
    return [row for row in rows if len(rows) <= depth or products[row] >= products[rows[depth - 1]]]


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[Part], Vectors]:
    """One to three shards of up to 30 keys, none to all of which live, and a query."""
    dimension, seed = draw(st.integers(1, 40)), draw(st.integers(0, 1 << 20))
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    shares = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=len(sizes), max_size=len(sizes)))
    chance = np.random.default_rng(seed)
    parts = [
        (exact_rows(size, dimension, seed + number), chance.random(size) < share)
        for number, (size, share) in enumerate(zip(sizes, shares, strict=True))
    ]
    return parts, exact_rows(1, dimension, seed + 3)[0]


# --------------------------------------------------------------------------- exactness


@budget(max_examples=100, deadline=None)
@given(searches(), st.integers(1, 100))
def test_a_search_is_all_inner_products_of_the_living_sorted(
    given_search: tuple[list[Part], Vectors], count: int
) -> None:
    parts, query = given_search
    with TemporaryDirectory() as folder:
        found = opened(Path(folder), parts).search(query, count)
    assert_best(found, *brute_force(parts, query), count)


@budget(max_examples=60, deadline=None)
@given(searches())
def test_the_scores_of_all_rows_are_all_inner_products_the_dead_included(
    given_search: tuple[list[Part], Vectors],
) -> None:
    parts, query = given_search
    with TemporaryDirectory() as folder:
        scores = opened(Path(folder), parts).scores(query)
    assert scores.tolist() == brute_force(parts, query)[0].tolist()


QUERY = exact_rows(1, 8, seed=1)[0]
MANY = exact_rows(3000, 8)
ORDER = np.argsort(-(MANY @ QUERY), kind="stable")
LIVING = {
    "none": ORDER[:0],
    "the worst": ORDER[-1:],
    "the worst ten": ORDER[-10:],
    "the last in the file": np.array([2999]),
    "all but the best": ORDER[1:],
    "every second": np.arange(0, 3000, 2),
    "all": ORDER,
}


@pytest.mark.parametrize("count", [1, 7, 2500, 10**6])
@pytest.mark.parametrize("name", LIVING)
def test_dead_keys_make_no_result_shorter(tmp_path: Path, name: str, count: int) -> None:
    live = np.zeros(3000, np.bool_)
    live[LIVING[name]] = True
    scores, rows = opened(tmp_path, [(MANY, live)]).search(QUERY, count)
    assert len(rows) == min(count, len(LIVING[name]))
    assert_best((scores, rows), MANY @ QUERY, live, count)


@budget(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(0, 1 << 20))
def test_equal_keys_score_equally_wherever_they_stand(dimension: int, sizes: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    key, query = chance.normal(size=(2, dimension)).astype(np.float32)
    parts: list[Part] = []
    for size in (*sizes, 1):
        vectors = chance.normal(size=(size, dimension)).astype(np.float32)
        same, live = chance.random((2, size)) < 0.5
        vectors[same | (size == 1)] = key
        parts.append((vectors, live | same | (size == 1)))
    everything = np.concatenate([vectors for vectors, _ in parts])
    with TemporaryDirectory() as folder:
        scores, rows = opened(Path(folder), parts).search(query, len(everything))
    assert len(set(scores[(everything[rows] == key).all(axis=1)].tolist())) == 1


# --------------------------------------------------------------------------- a GPU


class FakeGpu:
    """As FAISS indexes on a GPU: they ignore selectors, refuse too many hits, and a second thread at any."""

    _turn = threading.Lock()

    def __init__(self, index: Any, pause_s: float) -> None:
        self._index, self._pause_s = index, pause_s
        self.asked: list[int] = []

    def search(self, query: Vectors, count: int, params: Any = None) -> tuple[Any, Any]:
        if count > dense.GPU_MAX_HITS:
            raise RuntimeError(f"no more than {dense.GPU_MAX_HITS} hits, not {count}")
        if not self._turn.acquire(blocking=False):
            raise RuntimeError("another thread is searching")
        time.sleep(self._pause_s)
        self.asked.append(count)
        self._turn.release()
        return self._index.search(query, count)  # type: ignore[no-any-return]


@contextmanager
def gpu(max_hits: int, pause_s: float = 0) -> Iterator[list[FakeGpu]]:
    """A faiss that moves indexes to a GPU; gives those it moved."""
    moved: list[FakeGpu] = []

    def move(resources: object, device: int, index: Any) -> FakeGpu:
        moved.append(FakeGpu(index, pause_s))
        return moved[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faiss, "StandardGpuResources", object, raising=False)
        patch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
        patch.setattr(faiss, "index_cpu_to_gpu", move, raising=False)
        patch.setattr(dense, "GPU_MAX_HITS", max_hits)
        yield moved


def filled(index: DenseIndex, query: Vectors, live: Live, depth: int) -> list[int]:
    """The rows that a collection takes from the index, which tests each for life."""

    def owners(rows: Rows) -> tuple[Rows, Rows]:
        places = np.flatnonzero(live[rows])
        return places, rows[places]

    _, rows, _ = fill(lambda count: index.search(query, count), owners, depth, len(live))
    return rows.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@budget(max_examples=60, deadline=None)
@given(given_search=searches(), depth=st.integers(1, 20), max_hits=st.integers(1, 40))
def test_a_collection_is_filled_with_the_best_living_keys_and_all_their_equals(
    device: str, given_search: tuple[list[Part], Vectors], depth: int, max_hits: int
) -> None:
    parts, query = given_search
    products, live = brute_force(parts, query)
    with TemporaryDirectory() as folder, gpu(max_hits) as moved:
        index = opened(Path(folder), parts, device=device)
        assert filled(index, query, live, depth) == ranking(products, live, depth)
        assert len(moved) == (len(parts) if device == "gpu" else 0)


@pytest.mark.parametrize(
    ("max_hits", "asked"),
    [(11, []), (12, [12]), (191, [12, 48]), (192, [12, 48, 192]), (3000, [12, 48, 192, 768, 3000])],
)
def test_a_gpu_is_asked_for_more_until_the_dead_are_passed_but_never_for_too_much(
    tmp_path: Path, max_hits: int, asked: list[int]
) -> None:
    live = np.zeros(3000, np.bool_)
    live[ORDER[-5:]] = True
    with gpu(max_hits) as moved:
        index = opened(tmp_path, [(MANY, live)], device="gpu")
        assert filled(index, QUERY, live, 3) == ranking(MANY @ QUERY, live, 3)
    assert moved[0].asked == asked


def test_a_gpu_is_asked_for_no_more_than_a_shard_has(tmp_path: Path) -> None:
    parts = [(rows, np.ones(len(rows), np.bool_)) for rows in (MANY[:5], MANY[5:105])]
    with gpu(40) as moved:
        found = opened(tmp_path, parts, device="gpu").search(QUERY, 50)
    assert_best(found, *brute_force(parts, QUERY), 50)
    assert [index.asked for index in moved] == [[5], []]


def test_threads_take_turns_on_a_gpu(tmp_path: Path) -> None:
    """Whichever of the indexes they search: all share its resources."""
    live = np.ones(3000, np.bool_)
    found: list[Any] = []
    with gpu(2048, pause_s=0.002) as moved:
        parts = [(rows, np.ones(len(rows), np.bool_)) for rows in (MANY[:1000], MANY[1000:])]
        index = opened(tmp_path, parts, device="gpu")
        threads = [
            threading.Thread(target=lambda: found.append(filled(index, QUERY, live, 5))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [ranking(MANY @ QUERY, live, 5)] * 8
    assert len(moved[0].asked) >= 8


def test_a_faiss_for_gpus_without_one_is_refused(tmp_path: Path) -> None:
    with gpu(2048), pytest.MonkeyPatch.context() as patch:
        patch.setattr(faiss, "get_num_gpus", lambda: 0)
        with pytest.raises(SettingsError, match=r"^dense\.device is gpu, but .*: install faiss-gpu"):
            opened(tmp_path, [(MANY, np.ones(3000, np.bool_))], device="gpu")


def test_an_index_that_a_gpu_does_not_take_is_refused(tmp_path: Path) -> None:
    def move(*_: object) -> None:
        raise RuntimeError("Error in GpuIndexIVFPQ: Number of bytes per encoded vector 25 is not supported")

    with gpu(2048), pytest.MonkeyPatch.context() as patch:
        patch.setattr(faiss, "index_cpu_to_gpu", move)
        with pytest.raises(SettingsError, match=r"vectors \(.*25 is not supported\): set dense\.device"):
            opened(tmp_path, [(MANY, np.ones(3000, np.bool_))], device="gpu")


# --------------------------------------------------------------------------- files


ROWS = exact_rows(9, 6)
ALL = np.ones(9, np.bool_)


def hits(folder: Path) -> list[tuple[float, int]]:
    """All of them, best first, of what should be `ROWS`."""
    scores, rows = DenseIndex([DensePart(folder, ALL)], 6, DenseSettings()).search(ROWS[0], 9)
    return list(zip(scores.tolist(), rows.tolist(), strict=True))


def test_the_first_vectors_give_the_dimension_and_without_any_there_is_no_file(tmp_path: Path) -> None:
    writer = DenseWriter()
    writer.write(tmp_path)
    assert (writer.dimension, list(tmp_path.iterdir())) == (0, [])
    writer.add(ROWS)
    assert writer.dimension == 6


def test_a_file_does_not_tell_how_its_vectors_came(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", ROWS)
    batches = write(tmp_path / "batches", ROWS[:1], ROWS[1:4], ROWS[4:])
    doubles: Any = np.asfortranarray(ROWS.astype(np.float64))
    others = write(tmp_path / "others", doubles)
    assert {(folder / KEYS).read_bytes() for folder in (batches, others)} == {(whole / KEYS).read_bytes()}


def test_a_file_gives_the_same_hits_each_time_and_everywhere(tmp_path: Path) -> None:
    written = write(tmp_path / "written", ROWS)
    found = hits(written)
    assert sorted(found) == sorted(zip((ROWS @ ROWS[0]).tolist(), range(9), strict=True))
    shutil.copytree(written, tmp_path / "copy")
    assert hits(tmp_path / "copy") == hits(written) == found


def refusal(folder: Path) -> str:
    with pytest.raises(CollectionError) as caught:
        hits(folder)
    return str(caught.value)


def assert_clear(sentence: str, path: Path) -> None:
    assert sentence.startswith(f"{path} ")
    assert sentence.endswith(": restore it from a copy, or index the collection anew.")
    assert "\n" not in sentence


def overwrite(path: Path, content: bytes) -> None:
    """A new file: the old one may still be mapped."""
    path.unlink()
    path.write_bytes(content)


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS) / KEYS
    whole = path.read_bytes()
    for length in range(len(whole)):
        overwrite(path, whole[:length])
        assert_clear(refusal(tmp_path), path)


def test_a_header_that_was_damaged_anywhere_is_refused_or_changes_no_hit(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS) / KEYS
    whole, found = path.read_bytes(), hits(tmp_path)
    refused = 0
    for bit in range(8 * (len(whole) - ROWS.nbytes)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        overwrite(path, bytes(damaged))
        try:
            assert hits(tmp_path) == found
        except CollectionError as error:
            assert_clear(str(error), path)
            refused += 1
    assert refused


def of_index(description: str, metric: int = faiss.METRIC_INNER_PRODUCT) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        index = faiss.index_factory(6, description, metric)
        index.train(ROWS)
        index.add_with_ids(ROWS, np.arange(9) + 1) if "IDMap" in description else index.add(ROWS)
        faiss.write_index(index, str(path))

    return make


def of_bytes(content: bytes) -> Callable[[Path], None]:
    return lambda path: overwrite(path, content)


def of_bits(path: Path) -> None:
    index = faiss.IndexBinaryFlat(48)
    index.add(np.zeros((9, 6), np.uint8))
    faiss.write_index_binary(index, str(path))


def of_numbers(path: Path) -> None:
    np.save(path.with_suffix(".npy"), ROWS)
    path.with_suffix(".npy").replace(path)


def of_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SHORT, UNREADABLE, OTHER_KIND = "is too short for", "is no readable FAISS index (", "is no flat index of"

# name: (what stands in the place of the file, what is said of it)
FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "distances": (of_index("Flat", faiss.METRIC_L2), OTHER_KIND),
    "a graph": (of_index("HNSW4"), OTHER_KIND),
    "lists": (of_index("IVF1,Flat"), OTHER_KIND),
    "other ids": (of_index("IDMap,Flat"), OTHER_KIND),
    "bytes": (of_index("SQ8"), SHORT),
    "bits": (of_bits, SHORT),
    "numbers": (of_numbers, UNREADABLE),
    "text": (of_bytes(b"<html><body>404 Not Found</body></html>\n" * 9), UNREADABLE),
    "nothing": (of_bytes(b""), SHORT),
    "no file": (Path.unlink, UNREADABLE),
    "a folder": (of_a_folder, UNREADABLE),
    "fewer keys": (lambda path: write(path.parent, ROWS[:8]), "has the shape (8, 6) instead of (9, 6)"),
    "more keys": (lambda path: write(path.parent, ROWS, ROWS), "has the shape (18, 6) instead of (9, 6)"),
    "wider keys": (lambda path: write(path.parent, exact_rows(6, 9)), "has the shape (6, 9) instead of"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_the_file_of_the_shard_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    make, fault = FOREIGN[name]
    path = write(tmp_path, ROWS) / KEYS
    make(path)
    sentence = refusal(tmp_path)
    assert_clear(sentence, path)
    assert sentence.removeprefix(f"{path} ").startswith(fault)
