"""What a run is said to ask, against what it asks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.cli import app
from mrag.collection import known_documents
from mrag.errors import CollectionError
from mrag.indexing import plan as planning
from mrag.indexing import run
from mrag.indexing.diff import diff
from mrag.indexing.ledger import Ledger
from mrag.indexing.plan import Plan, cost, hours_of, money_of, plan_folder, plan_run
from mrag.indexing.run import index_folder
from mrag.indexing.stages import scan
from mrag.models.scripted import ScriptedModel
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Usage
from mrag.settings import RateSettings, Settings, parse_settings
from tests.marker_replies import builder, one_each
from tests.unit.test_indexing_run import HashEncoder


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    asked = ScriptedModel(one_each)

    async def opened(_: object) -> ScriptedModel:
        fresh = ScriptedModel(one_each)
        fresh.asked = asked.asked
        return fresh

    monkeypatch.setattr(planning, "counting_model", opened)
    monkeypatch.setattr(run, "open_reviving_model", opened)
    for module in (planning, run):
        monkeypatch.setattr(module, "open_encoder", lambda _: HashEncoder())
        monkeypatch.setattr(module, "load_tokenizer", lambda _: ByteTokenizer())
    return asked


def settings(place: Path, **tree: Any) -> Settings:
    scripted = {"engine": "scripted", "replies": "answers"}
    return parse_settings({"collection": {"root": place / "root"}, "language_model": scripted, **tree})


def write(place: Path, count: int) -> Path:
    folder = place / "in"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:03d}.txt").write_text(f"Unit one of {number}.\n\nUnit two of {number}.")
    return folder


def test_the_first_round_is_planned_exactly_and_what_is_known_is_not_planned(
    tmp_path: Path, model: ScriptedModel
) -> None:
    folder = write(tmp_path, 3)
    plan = asyncio.run(plan_folder(settings(tmp_path), folder))
    assert model.asked == []
    report = asyncio.run(index_folder(settings(tmp_path), folder))
    assert (plan.documents, plan.units, plan.left.calls) == (3, 6, report.usage.calls)
    assert plan.left.prompt_tokens == report.usage.prompt_tokens
    assert plan.left.completion_tokens > 0

    write(tmp_path, 4)
    again = asyncio.run(plan_folder(settings(tmp_path), folder))
    assert (again.documents, again.left.calls, again.kept.calls) == (1, 2, 0)


@pytest.mark.parametrize("section", ["extraction", "sparse"])
def test_a_plan_refuses_the_settings_that_a_run_would_refuse(
    tmp_path: Path, model: ScriptedModel, section: str
) -> None:
    folder = write(tmp_path, 3)
    asyncio.run(index_folder(settings(tmp_path), folder))
    other = {"extraction": {"keys_per_record": 3}, "sparse": {"k1": 2.0}}[section]
    changed = settings(tmp_path, **{section: other})
    refusals = []
    for refused in (plan_folder(changed, folder), index_folder(changed, folder)):
        with pytest.raises(CollectionError, match=r"another name, where its documents \(3\)") as caught:
            asyncio.run(refused)
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]


def test_a_run_that_its_cap_ended_says_what_is_left(tmp_path: Path, model: ScriptedModel) -> None:
    folder = write(tmp_path, 3)
    planned = asyncio.run(plan_folder(settings(tmp_path), folder))
    whole = asyncio.run(index_folder(settings(tmp_path / "whole"), folder)).usage
    report = asyncio.run(index_folder(settings(tmp_path), folder, max_llm_tokens=0))
    assert report.left == planned
    part = asyncio.run(index_folder(settings(tmp_path), folder, max_llm_tokens=whole.tokens * 2 // 3))
    assert part.left
    assert part.left == asyncio.run(plan_folder(settings(tmp_path), folder))
    assert 0 < part.left.left.calls < planned.left.calls
    assert ("left", f"{part.left.sentence()}: run again to go on") in part.table()
    rest = asyncio.run(index_folder(settings(tmp_path), folder))
    assert (rest.left, rest.usage.calls) == (None, part.left.left.calls)


def test_what_the_ledger_has_is_not_planned(tmp_path: Path, model: ScriptedModel) -> None:
    folder = write(tmp_path, 3)
    spent = asyncio.run(index_folder(settings(tmp_path), folder, max_llm_tokens=0)).usage
    assert spent == Usage()
    asyncio.run(index_folder(settings(tmp_path), folder))
    (tmp_path / "root" / "default" / "CURRENT").unlink()  # As if the run had died before its end.
    plan = asyncio.run(plan_folder(settings(tmp_path), folder))
    assert (plan.documents, plan.left, plan.kept.calls) == (3, Usage(), 6)
    assert "6 calls are in the ledger" in plan.sentence()


@pytest.mark.parametrize("change", [{"sparse": {"k1": 2.0}}, {"extraction": {"key_text": "key"}}])
def test_another_way_to_search_costs_no_call(
    tmp_path: Path, model: ScriptedModel, change: dict[str, Any]
) -> None:
    folder = write(tmp_path, 3)
    asyncio.run(index_folder(settings(tmp_path), folder))
    asked = len(model.asked)
    place = {"root": tmp_path / "root", "name": "other", "replies_of": "default"}
    other = settings(tmp_path, **change, collection=place)
    plan = asyncio.run(plan_folder(other, folder))
    assert (plan.documents, plan.left, plan.kept.calls) == (3, Usage(), asked)
    report = asyncio.run(index_folder(other, folder))
    assert (report.usage, report.reused.calls, len(model.asked)) == (Usage(), asked, asked)
    assert set(known_documents(tmp_path / "root", "other")) == set(
        known_documents(tmp_path / "root", "default")
    )


async def test_the_model_that_counts_is_closed(
    tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    class Counting(ScriptedModel):
        async def close(self) -> None:
            closed.append(self.name)

    async def opened(_: object) -> ScriptedModel:
        return Counting(one_each)

    monkeypatch.setattr(planning, "counting_model", opened)
    await plan_folder(settings(tmp_path), write(tmp_path, 1))
    assert closed == ["scripted"]


def test_a_builder_without_a_model_plans_no_calls(tmp_path: Path, model: ScriptedModel) -> None:
    plan = asyncio.run(plan_folder(settings(tmp_path, method="sane"), write(tmp_path, 2)))
    assert (plan.documents, plan.units, plan.left) == (2, 4, Usage())
    assert "none by a language model" in plan.sentence()


@pytest.mark.parametrize(("count", "sample"), [(7, 3), (100, 100), (1, 5), (9, 4)])
def test_a_sample_stands_for_all(tmp_path: Path, model: ScriptedModel, count: int, sample: int) -> None:
    folder = write(tmp_path, count)
    inputs, _ = scan(folder)
    wanted = diff(inputs, known_documents(tmp_path / "root", "default")).to_index
    ledger = Ledger(tmp_path / "root", "default")
    plan = plan_run(folder, wanted, builder(window_units=1), model, ledger, sample)
    assert plan.planned <= sample
    assert (plan.documents, plan.units, plan.left.calls) == (count, 2 * count, 2 * count)


def test_money_and_hours_follow_from_the_rates() -> None:
    usage = Usage(10, 2_000_000, 500_000)
    rate = RateSettings(
        prompt_price=0.5, completion_price=2.0, prompt_tokens_per_s=1000, completion_tokens_per_s=100
    )
    assert money_of(usage, rate) == pytest.approx(2.0)
    assert hours_of(usage, rate) == pytest.approx((2000 + 5000) / 3600)
    assert cost(usage, rate) == "2.00 USD, 1.94 h"
    assert cost(usage, RateSettings(prompt_price=1, completion_price=1, currency="EUR")) == "2.50 EUR"
    assert cost(usage, RateSettings()) == ""
    plan = Plan(1, 1, 1, usage)
    assert ("mine", "2.00 USD, 1.94 h") in plan.table({"mine": rate})
    assert plan.as_dict({"mine": rate})["rates"]["mine"]["money"] == pytest.approx(2.0)


# --------------------------------------------------------------------------- the command


def planned(place: Path, folder: Path, *arguments: str) -> str:
    rates = "{m: {prompt_price: 1000, completion_price: 0, currency: EUR}}"
    options = {
        "collection.root": place / "root",
        "language_model": "{engine: scripted, replies: answers}",
        "extraction.window_units": 1,
        "rates": rates,
    }
    set_ = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    done = CliRunner().invoke(app, ["plan", str(folder), *set_, *arguments], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_shows_a_table_or_json_and_asks_nothing(
    tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "fetch_models", lambda *_: None)
    folder = write(tmp_path, 3)
    found = json.loads(planned(tmp_path, folder, "--json"))
    assert (found["documents"], found["units"], found["left"]["calls"]) == (3, 6, 6)
    assert found["in_ledger"]["calls"] == 0
    prompt_tokens = found["left"]["prompt_tokens"]
    assert found["rates"] == {
        "m": {"money": pytest.approx(prompt_tokens / 1000), "currency": "EUR", "hours": None}
    }
    lines = [line for line in planned(tmp_path, folder).splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
        ["documents to index", "3"],
        ["source units", "6"],
        ["LLM calls", "6"],
        ["prompt tokens", f"{prompt_tokens:,}"],
        ["completion tokens, expected", f"{found['left']['completion_tokens']:,}"],
        ["in the ledger already", "0 calls, 0 tokens"],
        ["m", f"{prompt_tokens / 1000:,.2f} EUR"],
    ]
    assert model.asked == []
    assert not (tmp_path / "root").exists()
