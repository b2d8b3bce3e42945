"""The benchmark of a collection: small, to see that it measures all it promises. Speed is not asserted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from jobs import benchmark_collection as module
from jobs.bounds import ratio, table
from jobs.synthetic import entries, queries


def test_documents_of_chance_can_be_stored_and_are_the_same_each_time() -> None:
    made, again = (list(entries(5, 25, 8)) for _ in range(2))
    assert [entry.built.document.id for entry in made] == ["d00000005", "d00000006", "d00000007"]
    assert [len(entry.vectors) for entry in made] == [10, 10, 5]
    for entry, other in zip(made, again, strict=True):
        entry.check()
        assert entry.built == other.built
        assert np.array_equal(entry.vectors, other.vectors)
    assert len({query.text for query in queries(20, 8, 5)}) == 20


def test_every_bound_is_printed_beside_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL_RECORDS", 1000)
    monkeypatch.setattr(module, "APPENDED_DOCUMENTS", 10)
    app = typer.Typer()
    app.command()(module.main)
    arguments = ["--records", "1600", "--dimension", "8", "--queries", "3", "--root", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert (found["records"], found["dimension"]) == (1600, 8)
    bounds = {bound["name"].split(" of ")[0]: bound for bound in found["bounds"]}
    assert list(bounds) == [
        "opening, sizes compared",
        "memory",
        "dense search over FAISS",
        "sparse search over Lucene",
        "both legs over the slower one",
        "16 segments over one",
        "the same after a compaction",
        "appending 10 documents, over to 1,000",
    ]
    for bound in bounds.values():
        assert bound["measured"] > 0
        assert bound["held"] is (bound["measured"] <= bound["limit"])
    assert list(tmp_path.iterdir()) == []
    shown = table("a collection", [ratio("a", 3.0, 2.0, 1.4), ratio("b", 1.0, 2.0, 1.4)])
    assert [list(column.cells) for column in shown.columns][1:4] == [
        ["1.50 x", "0.50 x"],
        ["1.40 x", "1.40 x"],
        ["NO", "yes"],
    ]
