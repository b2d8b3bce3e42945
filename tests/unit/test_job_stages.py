"""The stages of a job, each called as Ray Data calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from jobs import stages
from jobs.rows import pack, unpack_column
from jobs.stages import NO_SHARD, Encode
from mrag.schema import Built, Coverage, Document, Record, RecordKind, SourceUnit, Status, Usage, Vectors
from mrag.settings import parse_settings
from tests.hash_encoder import HashEncoder

UNIT = SourceUnit("d", 1, 0, 9, "The buoy.")
RECORD = Record("r", "d", ("Which buoy?",), "The buoy.", (1,), RecordKind.MARKER)
BUILT = Built(
    Document("d", "The buoy.", "Buoys"),
    (UNIT,),
    (RECORD,),
    Coverage(1, 1, 0),
    usage=Usage(3, 70, 20),
    reused=Usage(1, 9, 2),
)


class NoVectors(HashEncoder):
    def encode(self, texts: Sequence[str], kind: str) -> Vectors:
        return np.full((len(texts), self.dimension), np.nan, np.float32)


def test_a_document_that_can_not_be_encoded_costs_what_its_records_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "open_encoder", lambda _: NoVectors())
    rows = Encode(parse_settings({"collection": {"root": tmp_path}}))({"built": [pack(BUILT)]})
    [outcome] = unpack_column(rows, "outcome")
    assert (outcome.id, outcome.status, rows["shard"]) == ("d", Status.FAILED, [NO_SHARD])
    assert (outcome.usage, outcome.reused) == (BUILT.usage, BUILT.reused)
