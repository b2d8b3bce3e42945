"""The pipeline of one process: all stages together over a fake collection, or one on disk."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mrag.errors import CollectionError, ModelError, NotFoundError, SettingsError
from mrag.models.encoder import Kind
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.local import encoding, local_pipeline
from mrag.query.question import Question, question_for
from mrag.schema import Hit, Leg, Query, Source, Stored, Vectors
from mrag.settings import PlainReader, SaneReader, Settings, parse_settings
from tests.collection_corpus import DIMENSION, STAMP, add, make_entry, vectors_of
from tests.query_pool import candidate

TEXTS = ("The ferry Alma was built in 1962.", "The barge Runa was built in 1901.", "The pier is old.")
RECORDS = {
    one.records[0].id: Stored(one.records[0], one.document, one.units)
    for one in (candidate(text, f"d{n}", title=f"T{n}") for n, text in enumerate(TEXTS))
}
RULES = [
    Rule({"selected": [1]}, purpose="select"),
    Rule({"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": TEXTS[0]}]}}, purpose="evidence"),
    Rule("1962", purpose="answer"),
]
QUESTION = Question("When was the ferry Alma built?", "harbour", reader=SaneReader(w=3, k=1))


class FakeEncoder:
    """Vectors from texts; keeps what it was asked, and in which thread."""

    def __init__(self, fingerprint: str = STAMP.encoder, error: Exception | None = None) -> None:
        self.fingerprint = fingerprint
        self.dimension = DIMENSION
        self.asked: list[tuple[Sequence[str], Kind]] = []
        self.threads: set[int] = set()
        self._error = error

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        self.asked.append((texts, kind))
        self.threads.add(threading.get_ident())
        if self._error:
            raise self._error
        return vectors_of(texts)


class FakeCollection:
    """All records for every query, in the order of their ids."""

    manifest: Any = SimpleNamespace(generation=5)

    def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
        hits = tuple(Hit(record_id, 1.0 - n / 9) for n, record_id in enumerate(RECORDS))
        return dict.fromkeys(query.legs, hits)

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        return tuple(RECORDS[record_id] for record_id in record_ids)


async def test_all_stages_answer_together() -> None:
    model, encoder, opened = ScriptedModel(RULES), FakeEncoder(), []

    def opener(name: str) -> FakeCollection:
        opened.append(name)
        return FakeCollection()

    answer = await local_pipeline(Settings(), model, encoder, opener).answer(QUESTION)
    assert (answer.text, answer.generation, answer.notes) == ("1962", 5, ())
    assert answer.sources == (Source("d0", "T0", (1,)),)
    assert [request.purpose for request in model.asked] == ["select", "evidence", "answer"]
    assert (encoder.asked, opened) == ([([QUESTION.text], "query")], ["harbour"])


async def test_the_event_loop_does_not_wait_for_the_encoder() -> None:
    encoder = FakeEncoder()
    vectors = await encoding(encoder)(["a", "b"], "passage")
    assert np.array_equal(vectors, vectors_of(["a", "b"]))
    assert encoder.asked == [(["a", "b"], "passage")]
    assert threading.get_ident() not in encoder.threads


async def test_an_encoder_that_fails_leaves_no_answer() -> None:
    pipeline = local_pipeline(
        Settings(),
        ScriptedModel([]),
        FakeEncoder(error=ModelError("No such weights.")),
        lambda _: FakeCollection(),
    )
    with pytest.raises(ModelError, match="No such weights"):
        await pipeline.answer(QUESTION)


# --------------------------------------------------------------------------- collections on disk


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    add(tmp_path, "harbour", [make_entry("ferry", [["When was Alma built?"]], TEXTS[0])])
    return parse_settings({"collection": {"root": str(tmp_path), "name": "harbour"}})


async def test_collections_are_those_below_the_root(settings: Settings) -> None:
    model = ScriptedModel(RULES)
    pipeline = local_pipeline(settings, model, FakeEncoder())
    answer = await pipeline.answer(question_for(settings, QUESTION.text, retrieval="keys"))
    assert (answer.text, answer.generation) == ("1962", 1)
    assert answer.sources == (Source("ferry", "About ferry", (1,)),)
    plain = await pipeline.answer(Question(QUESTION.text, "harbour", reader=PlainReader()))
    assert plain.context is not None
    assert plain.context.text == f"value of {TEXTS[0]}"
    with pytest.raises(NotFoundError, match="nowhere"):
        await pipeline.answer(Question(QUESTION.text, "nowhere"))


async def test_an_earlier_generation_is_read_where_the_settings_name_it(settings: Settings) -> None:
    root = settings.collection.root
    add(root, "harbour", [make_entry("ferry", [["When was Alma built?"]], "Alma is gone.")])
    for generation, read in ((1, TEXTS[0]), (2, "Alma is gone."), (None, "Alma is gone.")):
        place = settings.collection.model_copy(update={"generation": generation})
        chosen = settings.model_copy(update={"collection": place})
        pipeline = local_pipeline(chosen, ScriptedModel(RULES), FakeEncoder())
        answer = await pipeline.answer(Question(QUESTION.text, "harbour", reader=PlainReader()))
        assert answer.context is not None
        assert (answer.context.text, answer.generation) == (f"value of {read}", generation or 2)
    missing = settings.collection.model_copy(update={"generation": 7})
    pipeline = local_pipeline(
        settings.model_copy(update={"collection": missing}), ScriptedModel(RULES), FakeEncoder()
    )
    with pytest.raises(NotFoundError, match="generation"):
        await pipeline.answer(Question(QUESTION.text, "harbour", reader=PlainReader()))


async def test_another_encoder_than_that_of_the_collection_is_refused(settings: Settings) -> None:
    with pytest.raises(CollectionError, match="another"):
        await local_pipeline(settings, ScriptedModel([]), FakeEncoder("another")).answer(QUESTION)


async def test_blueprints_of_a_folder_are_offered(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "blueprints"
    folder.mkdir()
    (folder / "causal.yaml").write_text(
        "{name: CAUSAL, structure: causes, use_when: it asks why, columns: [{name: cause, definition: it}]}"
    )
    with_folder = settings.model_copy(update={"blueprints_folder": folder})
    for chosen, offered in ((settings, False), (with_folder, True)):
        model = ScriptedModel(RULES)
        question = question_for(settings, QUESTION.text, retrieval="keys")
        await local_pipeline(chosen, model, FakeEncoder()).answer(question)
        asked = next(request for request in model.asked if request.purpose == "evidence")
        assert ("CAUSAL" in asked.messages[0].content) == offered
    missing = settings.model_copy(update={"blueprints_folder": tmp_path / "nowhere"})
    with pytest.raises(SettingsError, match="blueprints"):
        local_pipeline(missing, ScriptedModel([]), FakeEncoder())


async def test_neighbours_of_a_selected_unit_are_read_from_the_collection(tmp_path: Path) -> None:
    add(tmp_path, "harbour", [make_entry("ferry", [["When was Alma built?"], ["Runa?"], ["Pier?"]])])
    settings = parse_settings({"collection": {"root": str(tmp_path), "name": "harbour"}})
    table = {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": "Runa"}]}
    for n, shown in ((0, 1), (1, 2), (10, 3)):
        model = ScriptedModel([Rule({"table": table}, purpose="evidence"), Rule("1962", purpose="answer")])
        pipeline = local_pipeline(settings, model, FakeEncoder())
        options = {"retrieval": "keys", "k": 1, "w": 1, "neighbours": n}
        answer = await pipeline.answer(question_for(settings, "When was Alma built?", **options))
        lines = model.asked[0].messages[-1].content.split("\n")
        assert sum(line.startswith("[S") for line in lines) == shown
        assert answer.generation == 1
