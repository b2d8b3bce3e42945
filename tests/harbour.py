"""A collection of boats on disk and a scripted model that answers about them, behind the whole HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.library import Library
from mrag.query.local import local_pipeline
from mrag.query.opened import OpenCollections
from mrag.schema import Vectors
from mrag.settings import parse_settings
from serve.access import Keyring
from serve.routes import create_api
from tests.collection_corpus import STAMP, add, make_entry, vectors_of

ALMA = "The ferry Alma was built in 1962."
FERRY = "boats/alma #1.md"
ANSWER = "Alma was built in 1962."
RULES = (
    Rule({"selected": [1]}, purpose="select"),
    Rule({"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": ALMA}]}}, purpose="evidence"),
    Rule(ANSWER, purpose="answer"),
)


class Encoder:
    """The vectors of the corpus."""

    fingerprint = STAMP.encoder
    dimension = STAMP.dimension

    def encode(self, texts: Sequence[str], kind: str) -> Vectors:
        return vectors_of(texts)


class Harbour:
    """The application over the collections `harbour` and `quay`; its model keeps what it is asked."""

    def __init__(
        self, root: Path, rules: Sequence[Rule] = RULES, keys: Keyring | None = None, **tree: Any
    ) -> None:
        add(
            root,
            "harbour",
            [make_entry(FERRY, [["When was Alma built?"]], ALMA), make_entry("barge", [["Runa?"]])],
        )
        add(root, "quay", [make_entry("quay", [["How long is the quay?"]])])
        method = {
            # Among two documents the second of a leg has no score at all, and the vectors are of chance.
            "retrieval": {"name": "keys+units", "fusion": "rank"},
            "reader": {"name": "sane", "w": 2, "k": 1},
        }
        settings = parse_settings({"collection": {"root": root, "name": "harbour"}, "method": method, **tree})
        self.model = ScriptedModel(rules)
        opened = OpenCollections(root, STAMP.encoder)
        pipeline = local_pipeline(settings, self.model, Encoder(), opened)
        self.api: FastAPI = create_api(pipeline, Library(root, opened), settings, keys or Keyring())
