"""What is seen of a request from outside: metrics, and one line in the log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mrag.errors import ModelError
from mrag.query.question import Question
from mrag.schema import Pool
from mrag.settings import parse_settings
from serve.access import Key
from serve.metrics import CollectionMeters, Meters
from serve.request_log import LOGGER
from tests.served import Stages, client

ROOT = Path(__file__).parents[2]


class Instrument:
    """A counter, gauge or histogram that keeps what it is told."""

    kept: ClassVar[dict[str, list[tuple[dict[str, str], float]]]] = {}
    tags: ClassVar[dict[str, set[str]]] = {}

    def __init__(self, name: str, description: str, *rest: Any) -> None:
        assert description
        self._name = name
        self.kept[name] = []
        self.tags[name] = set(rest[-1])

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        assert set(tags or ()) == self.tags[self._name]
        self.kept[self._name].append((tags or {}, value))

    def observe(self, value: float, tags: dict[str, str]) -> None:
        self.inc(value, tags)

    set = observe


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[dict[str, str], float]]]:
    for kind in ("Counter", "Gauge", "Histogram"):
        monkeypatch.setattr(f"serve.metrics.{kind}", Instrument)
    Instrument.kept.clear()
    return Instrument.kept


class Lines(logging.Handler):
    """The lines of the request log, as they were written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, log = Lines(), logging.getLogger(LOGGER)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler.lines
    log.removeHandler(handler)


async def test_an_answer_is_counted_by_outcome_stage_and_verdict(kept: Any) -> None:
    async with client() as http:
        await http.post("/v1/query", json={"question": "Who?"})
        await http.post("/v1/query", json={"question": "Who?", "stream": True})
        await http.post("/v1/retrieve", json={"question": "Who?"})
        await http.post("/v1/evidence", json={"question": "Who?"})
        await http.get("/v1/documents/nowhere")
        await http.get("/nowhere/at/all")
    answered = {"collection": "default", "reader": "sane", "outcome": "answered"}
    assert kept["mrag_answers_total"] == [(answered, 1)] * 2
    assert kept["mrag_evidence_rows_total"] == [({"verdict": "verified"}, 1)] * 3
    assert {tags["stage"] for tags, _ in kept["mrag_stage_seconds"]} == {
        "retrieve",
        "select",
        "extract",
        "generate",
    }
    assert kept["mrag_generation"] == [({"collection": "default"}, 7)] * 4
    requests = [(tags["route"], tags["status"]) for tags, _ in kept["mrag_requests_total"]]
    assert requests == [
        ("/v1/query", "200"),
        ("/v1/query", "200"),
        ("/v1/retrieve", "200"),
        ("/v1/evidence", "200"),
        ("/v1/documents/{document_id:path}", "404"),
        ("other", "404"),
    ]
    assert len(kept["mrag_request_seconds"]) == 6


async def test_what_a_part_did_not_answer_is_counted_and_told(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Stages.retrieve

    async def partly(stages: Stages, question: Question, w: int) -> Pool:
        return replace(await whole(stages, question, w), partial=True, notes=("Part 2 of 2 is missing.",))

    monkeypatch.setattr(Stages, "retrieve", partly)
    async with client() as http:
        for route in ("query", "retrieve", "evidence"):
            reply = (await http.post(f"/v1/{route}", json={"question": "Who?"})).json()
            assert (reply["partial"], reply["notes"][0]) == (True, "Part 2 of 2 is missing.")
    assert kept["mrag_partial_total"] == [({"collection": "default"}, 1)] * 3


async def test_no_answer_and_raw_units_are_told_apart(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(*_: Any) -> Any:
        raise ModelError("It is down.")

    monkeypatch.setattr(Stages, "generate", down)
    async with client() as http:
        await http.post("/v1/query", json={"question": "Who?"})
    assert [tags["outcome"] for tags, _ in kept["mrag_answers_total"]] == ["failed"]
    assert kept["mrag_stage_failures_total"] == [({"stage": "generate"}, 1)]


async def test_a_caller_who_left_is_no_fault(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = asyncio.Event()

    async def waits(*_: Any) -> Any:
        arrived.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(Stages, "retrieve", waits)
    async with client() as http:
        asking = asyncio.create_task(http.post("/v1/retrieve", json={"question": "Who?"}))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert json.loads(lines[0])["status"] == 499


async def test_every_request_is_one_line_without_what_was_asked(lines: list[str]) -> None:
    async with client(keys={"t0ken": Key("chat")}) as http:
        http.headers["Authorization"] = "Bearer t0ken"
        reply = await http.post("/v1/query", json={"question": "Who built the Zephyr?"})
        await http.get("/healthz")
        await http.get("/v1/collections", headers={"Authorization": "Bearer wr0ng"})
    first, second, third = map(json.loads, lines)
    assert (
        first.items()
        >= {
            "method": "POST",
            "route": "/v1/query",
            "status": 200,
            "token": "chat",
            "collection": "default",
            "generation": 7,
            "reader": "sane",
            "rows": 1,
            "verified": 1,
            "outcome": "answered",
        }.items()
    )
    assert set(first["stages"]) == {"retrieve", "select", "extract", "generate"}
    assert reply.headers["x-request-id"] == first["request"]
    assert (second["route"], "token" in second) == ("/healthz", False)
    assert (third["status"], "token" in third) == (401, False)
    for secret in ("Zephyr", "t0ken", "wr0ng"):
        assert secret not in "".join(lines)


async def test_a_question_is_logged_where_that_is_wanted(lines: list[str]) -> None:
    settings = parse_settings({"serve": {"log_questions": True}})
    async with client(settings=settings) as http:
        await http.post("/v1/query", json={"question": "Who built\nthe Zephyr?", "stream": True})
    assert json.loads(lines[0])["question"] == "Who built\nthe Zephyr?"
    assert len(lines) == 1
    assert "\n" not in lines[0]


async def test_a_fault_is_a_line_too(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(Stages, "retrieve", broken)
    async with client() as http:
        with pytest.raises(RuntimeError):
            await http.post("/v1/retrieve", json={"question": "Who?"})
    assert json.loads(lines[0])["status"] == 500


def test_the_dashboard_and_the_page_name_what_is_counted(kept: Any) -> None:
    Meters()
    CollectionMeters()
    board = (ROOT / "cluster" / "grafana-dashboard.json").read_text("utf-8")
    panels = json.loads(board)["panels"]
    page = (ROOT / "docs" / "service.md").read_text("utf-8")
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"ray_(mrag_\w+)", board)}
    assert named == set(kept)
    assert all(f"`{name}`" in page for name in kept)
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["targets"] for panel in panels)
