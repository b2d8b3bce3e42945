"""What `mrag inspect` says of segments, shards, sizes and what is dead."""

from __future__ import annotations

from pathlib import Path

from mrag.collection import Collection
from mrag.evaluation.layout import layout, layout_sections
from mrag.settings import DenseSettings
from tests.collection_corpus import add, make_entry


def test_every_shard_is_shown_with_its_size_its_dead_and_how_it_is_searched(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry(f"d{n}", [["a"], ["b"]]) for n in range(4)])
    graph = DenseSettings(index="hnsw", hnsw={"m": 4})
    add(tmp_path, "c", [make_entry("d1", [["c"]])], 2, replaced=["d0"], dense=graph)
    collection = Collection.open(tmp_path, "c")
    live = collection.analysis(len).live_documents
    segments, vectors = layout_sections(collection.manifest, live)
    filled = [(*row[1:2], *row[3:7]) for row in segments.rows if row[3] != "0"]
    assert filled == [("1", "4", "50.00%", "8", "8"), ("2", "1", "0.00%", "1", "1")]
    assert "44.44% of all records are dead" in segments.about
    assert [row[2:5] for row in vectors.rows] == [("keys.faiss", "hnsw", "1.000")]
    shards = layout(collection.manifest, live)
    assert [shard["dead_documents"] for shard in shards] == [2, 0, 0]
    folders = [folder for _, _, folder in collection.manifest.shard_folders(tmp_path)]
    on_disk = [sum(path.stat().st_size for path in at.rglob("*") if path.is_file()) for at in folders]
    assert [shard["bytes"] for shard in shards] == on_disk


def test_without_a_graph_there_is_one_table(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["a"]])])
    collection = Collection.open(tmp_path, "c")
    assert len(list(layout_sections(collection.manifest, collection.analysis(len).live_documents))) == 1
