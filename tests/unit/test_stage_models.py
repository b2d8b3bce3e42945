"""Stages of a question that ask models of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mrag.errors import SettingsError
from mrag.models.opening import open_language_model, opened_by_stage
from mrag.models.scripted import ScriptedModel
from mrag.query.local import local_pipeline
from mrag.query.question import Question
from mrag.settings import LanguageModelSettings, SaneReader, Settings, parse_settings
from serve.app import own_model
from tests.unit.test_query_local import QUESTION, RULES, FakeCollection, FakeEncoder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """One script for what selects, one for the rest."""
    return parse_settings(
        {
            "language_model": scripted(tmp_path / "rest.jsonl", {"purpose": "answer", "reply": "1962"}),
            "stage_models": {
                "select": scripted(
                    tmp_path / "select.jsonl", {"purpose": "select", "reply": {"selected": [1]}}
                )
            },
        }
    )


def scripted(path: Path, rule: dict[str, Any]) -> dict[str, str]:
    path.write_text(json.dumps(rule), "utf-8")
    return {"engine": "scripted", "replies": str(path)}


def test_a_stage_without_one_asks_the_model_of_all(settings: Settings) -> None:
    assert settings.model_of("select") != settings.language_model
    assert [settings.model_of(stage) for stage in ("extract", "generate")] == [settings.language_model] * 2
    assert Settings().answering_models == [Settings().language_model] * 3


def test_a_model_that_no_stage_would_ask_is_refused(settings: Settings) -> None:
    own = settings.stage_models.select
    assert own is not None
    tree = {"stage_models": dict.fromkeys(("select", "extract", "generate"), own.model_dump())}
    with pytest.raises(SettingsError, match="language_model answers nothing"):
        parse_settings(tree)
    with pytest.raises(SettingsError, match=r"stage_models\.answer is not a setting"):
        parse_settings({"stage_models": {"answer": own.model_dump()}})


async def test_each_model_is_opened_once_and_closed(settings: Settings) -> None:
    opened: list[LanguageModelSettings] = []
    closed: list[str] = []

    class Closing(ScriptedModel):
        async def close(self) -> None:
            closed.append(self.name)

    async def opener(wanted: LanguageModelSettings) -> ScriptedModel:
        opened.append(wanted)
        return Closing([], name=f"number {len(opened)}")

    async with opened_by_stage(settings, opener) as models:
        assert models["extract"] is models["generate"] is not models["select"]
        assert closed == []
    assert opened == [settings.model_of("select"), settings.language_model]
    assert sorted(closed) == ["number 1", "number 2"]


async def test_every_stage_asks_its_own() -> None:
    models = {name: ScriptedModel(RULES) for name in ("select", "extract", "generate")}
    pipeline = local_pipeline(Settings(), models, FakeEncoder(), lambda _: FakeCollection())  # type: ignore[arg-type]
    answer = await pipeline.answer(QUESTION)
    assert answer.text == "1962"
    asked = {name: purposes(model) for name, model in models.items()}
    assert asked == {"select": ["select"], "extract": ["evidence"], "generate": ["answer"]}


def purposes(model: ScriptedModel) -> Sequence[str]:
    return [request.purpose for request in model.asked]


async def test_the_models_of_a_settings_file_answer_together(settings: Settings) -> None:
    reader = SaneReader(w=3, k=1, extract=False)
    question = Question(QUESTION.text, "harbour", reader=reader)
    async with opened_by_stage(settings, open_language_model) as models:
        pipeline = local_pipeline(settings, models, FakeEncoder(), lambda _: FakeCollection())  # type: ignore[arg-type]
        answer = await pipeline.answer(question)
    assert (answer.text, len(answer.sources)) == ("1962", 1)


def test_the_graph_has_an_engine_for_each_model(settings: Settings) -> None:
    own = own_model(settings, "select")
    assert own is not None
    assert own._bound_deployment.name == "LanguageModel-select"
    assert own_model(settings, "extract") is None
