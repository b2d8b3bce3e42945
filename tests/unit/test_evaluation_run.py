"""`mrag eval` from a folder to its numbers: the real access path, an encoder of hashes, scripted replies."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.cli import measuring
from mrag.collection import Collection
from mrag.documents.loaders import list_inputs
from mrag.errors import CollectionError, InputError, ModelError, NotFoundError
from mrag.evaluation import evaluate, kept_replies
from mrag.evaluation.eval_report import EvalReport
from mrag.evaluation.gold import locate
from mrag.evaluation.questions import GoldQuestion, read_questions
from mrag.indexing import run
from mrag.indexing.run import index_folder
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Usage
from mrag.settings import Settings, parse_settings
from tests.hash_encoder import HashEncoder

PAPERS = [
    {
        "id": "ferry",
        "title": "Ferry",
        "paragraphs": ["Alma was built in 1962.", "Alma carries 90 passengers."],
    },
    {
        "id": "port",
        "title": "Port",
        "paragraphs": ["The port has two cranes.", "Cranes were painted in 2001."],
    },
    {
        "id": "twin",
        "title": "Twin",
        "paragraphs": ["The port has two cranes.", "Cranes were painted in 2001."],
    },
]
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "question": "Alma was built in 1962.",
        "answers": ["1962"],
        "gold_doc_ids": ["ferry"],
        "gold_paragraphs": [{"doc_id": "ferry", "para_idx": 0}],
    },
    {
        "id": "q2",
        "question": "The port has two cranes.",
        "answers": ["two cranes"],
        "gold_doc_ids": ["twin", "ferry"],
        "gold_paragraphs": [{"doc_id": "twin", "para_idx": 0}, {"doc_id": "ferry", "para_idx": 1}],
    },
    {"id": "q3", "question": "Who painted?", "gold_doc_ids": ["gone"]},
    {"id": "q4", "question": "!", "answers": ["yes"], "gold_doc_ids": ["port"]},
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for module in (run, evaluate):
        monkeypatch.setattr(module, "open_encoder", lambda _: HashEncoder())
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())
    monkeypatch.setattr(measuring, "fetch_model", lambda *_: None)
    rules = [
        {"purpose": "answer", "contains": ["Question: Alma"], "reply": "It was 1962"},
        {"purpose": "answer", "reply": "the two Cranes"},
    ]
    (tmp_path / "script.jsonl").write_text("\n".join(map(json.dumps, rules)))
    found = parse_settings(
        {
            "method": {"builder": {"name": "units"}, "reader": {"name": "plain"}},
            "extraction": {"key_text": "key"},
            "collection": {"root": str(tmp_path / "root"), "name": "c"},
            "language_model": {"engine": "scripted", "replies": str(tmp_path / "script.jsonl")},
        }
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "corpus.jsonl").write_text("\n".join(map(json.dumps, PAPERS)))
    asyncio.run(index_folder(found, tmp_path / "in"))
    return found


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS)))
    return file


def measured(settings: Settings, questions: Path, **how: Any) -> EvalReport:
    found = asyncio.run(evaluate.evaluate(settings, read_questions(questions), (1, 4), **how))
    return EvalReport(settings, "questions.jsonl", found, seed=0)


def test_every_question_has_its_row(settings: Settings, questions: Path) -> None:
    told: list[int] = []
    report = measured(settings, questions, progress=lambda: told.append(1))
    first, second, third, fourth = report.rows
    assert len(told) == 4
    assert first.recall == {"documents": {1: 1.0, 4: 1.0}, "passages": {1: 1.0, 4: 1.0}}
    assert (first.answer, first.exact_match, first.f1) == ("It was 1962", 0.0, 0.5)
    assert second.recall == {"documents": {1: 0.5, 4: 1.0}, "passages": {1: 0.5, 4: 1.0}}
    assert (second.answer, second.exact_match, second.f1) == ("the two Cranes", 1.0, 1.0)
    assert (third.recall["documents"], third.missing) == ({1: 0.0, 4: 0.0}, ("gone",))
    assert (third.exact_match, third.answer) == (None, "the two Cranes")
    assert (fourth.recall["documents"], fourth.exact_match, fourth.usage) == ({1: 0.0, 4: 0.0}, 0.0, Usage())
    assert "empty" in fourth.error
    assert first.usage is not None
    assert (first.usage.calls, first.usage.completion_tokens) == (1, 3)
    assert report.exit_code == 1


def test_means_are_over_the_questions_that_have_the_measure(settings: Settings, questions: Path) -> None:
    found = measured(settings, questions).measures()
    means = {name: (one.mean, one.count) for name, one in found.items()}
    assert means == {
        "recall@1 of documents": (1.5 / 4, 4),
        "recall@4 of documents": (2 / 4, 4),
        "recall@1 of passages": (1.5 / 2, 2),
        "recall@4 of passages": (1.0, 2),
        "recall read, of documents": (2 / 4, 4),
        "recall read, of passages": (1.0, 2),
        "exact match": (pytest.approx(1 / 3), 3),
        "F1": (0.5, 3),
        "abstained of answerable": (0.0, 3),
        "LLM calls": (3 / 4, 4),
        "LLM tokens in": means["LLM tokens in"],
        "LLM tokens out": (9 / 4, 4),
        "LLM seconds": means["LLM seconds"],
        "seconds": means["seconds"],
    }
    assert means["LLM seconds"][1] == 4
    assert means["seconds"][1] == 3  # one has no answer
    assert all(one.low <= one.mean <= one.high for one in found.values())


def test_to_abstain_is_right_where_nothing_answers(settings: Settings, tmp_path: Path) -> None:
    asked = [
        {"id": "told", "question": "Alma was built in 1962.", "answers": ["1962"]},
        {"id": "withheld", "question": "The port has two cranes.", "answers": ["two cranes"]},
        {"id": "not told", "question": "Cranes of gold?", "unanswerable": True},
        {"id": "made up", "question": "Alma of gold?", "unanswerable": True, "answers": ["1962"]},
        {"id": "down", "question": "Is it down?", "unanswerable": True},
        {"id": "nobody knows", "question": "Cranes?"},
    ]
    rules = [
        {"purpose": "answer", "contains": ["Question: Alma"], "reply": "1962"},
        {"purpose": "answer", "contains": ["Question: Is"], "error": "dead"},
        {"purpose": "answer", "reply": "Unknown."},
    ]
    (settings.collection.root.parent / "script.jsonl").write_text("\n".join(map(json.dumps, rules)))
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, asked)))
    report = measured(settings, tmp_path / "asked.jsonl")
    assert [row.abstained for row in report.rows] == [False, True, True, False, False, True]
    found = {name: (one.mean, one.count) for name, one in report.measures().items()}
    assert found["abstained of answerable"] == (0.5, 2)
    assert found["abstained of unanswerable"] == (pytest.approx(1 / 3), 3)
    assert found["exact match"] == (0.5, 2)


def test_retrieval_alone_needs_no_model(settings: Settings, questions: Path) -> None:
    (settings.collection.root.parent / "script.jsonl").unlink()
    report = measured(settings, questions, retrieval_only=True)
    assert list(report.measures()) == [
        f"recall@{k} of {kind}" for kind in ("documents", "passages") for k in (1, 4)
    ]
    assert report.rows[0].answer is None
    assert report.rows[0].found[0] == "ferry"


def test_a_dead_model_costs_its_answers(settings: Settings, questions: Path) -> None:
    script = settings.collection.root.parent / "script.jsonl"
    script.write_text('{"error": "dead", "contains": ["Alma was built in 1962.\\n"]}\n' + script.read_text())
    row = measured(settings, questions).rows[0]
    assert (row.answer, row.f1, row.error) == ("", 0.0, "")
    assert "Stage generate failed" in row.notes[0]


def test_replies_are_kept_for_the_next_run(settings: Settings, questions: Path, tmp_path: Path) -> None:
    first = measured(settings, questions, replies=tmp_path / "replies")
    (settings.collection.root.parent / "script.jsonl").write_text("")
    again = measured(settings, questions, replies=tmp_path / "replies")
    assert again.rows == tuple(replace(row, stage_seconds=None) for row in first.rows)
    assert [row.stage_seconds is None for row in first.rows] == [False, False, False, True]
    assert ("seconds" in first.measures(), "seconds" in again.measures()) == (True, False)
    assert measured(settings, questions).rows != first.rows


def test_an_engine_that_does_not_open_ends_the_run(
    settings: Settings, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: Any) -> None:
        raise ModelError("There is no memory for it.")

    monkeypatch.setattr(kept_replies, "open_reviving_model", refused)
    with pytest.raises(ModelError, match="no memory"):
        measured(settings, questions)


def test_what_can_not_be_measured_is_refused_at_once(
    settings: Settings, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = settings.model_copy(update={"collection": settings.collection.model_copy(update={"name": "x"})})
    with pytest.raises(NotFoundError, match="no collection 'x'"):
        measured(other, questions)
    monkeypatch.setattr(evaluate, "open_encoder", lambda _: HashEncoder("another"))
    with pytest.raises(CollectionError, match="another"):
        measured(settings, questions)


# --------------------------------------------------------------------------- the command


def command(settings: Settings, questions: Path, *arguments: str) -> Any:
    file = settings.collection.root.parent / "settings.yaml"
    file.write_text(json.dumps(settings.model_dump(mode="json")))
    line = ["eval", str(questions), "--config", str(file), "--k", "1", "--k", "4", *arguments]
    return CliRunner().invoke(cli.app, line, env={"COLUMNS": "140"})


def test_the_command_prints_and_writes_the_same(settings: Settings, questions: Path, tmp_path: Path) -> None:
    ended = command(settings, questions, "--json", str(tmp_path / "e.json"))
    assert ended.exit_code == 1, ended.output
    tree = json.loads((tmp_path / "e.json").read_text("utf-8"))
    assert [row["id"] for row in tree["rows"]] == ["q1", "q2", "q3", "q4"]
    assert tree["settings"]["method"]["reader"]["name"] == "plain"
    for name, found in tree["measures"].items():
        [line] = [line for line in ended.stdout.splitlines() if line.strip().startswith(f"{name} ")]
        show = "{:,.2f}" if name.startswith(("LLM", "seconds")) else "{:.2%}"
        cells = [show.format(found[part]) for part in ("mean", "low", "high")]
        assert line.split()[-4:] == [*cells, str(found["count"])]
    for title in ("Not in the collection", "Failed"):
        assert title in ended.stdout


def test_a_limited_run_is_the_same_each_time(settings: Settings, questions: Path) -> None:
    drawn = [
        json.loads(command(settings, questions, *how, "--json", "-").stdout)
        for how in (["--limit", "2", "--retrieval-only"],) * 2
    ]
    for tree in drawn:
        tree.pop("seconds")
    assert drawn[0] == drawn[1]
    assert len(drawn[0]["rows"]) == 2


def test_a_report_that_could_not_be_written_is_refused_before_any_work(
    settings: Settings, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(evaluate, "open_encoder")
    ended = command(settings, questions, "--json", str(tmp_path / "missing" / "e.json"))
    assert isinstance(ended.exception, InputError)
    assert "no folder" in str(ended.exception)


# --------------------------------------------------------------------------- the sample


def test_the_gold_of_the_sample_is_in_the_sample(settings: Settings) -> None:
    sample = files("mrag") / "data" / "sample"
    with as_file(sample) as folder:
        assert list_inputs(folder / "documents")
        place = settings.collection.model_copy(update={"name": "sample"})
        found = settings.model_copy(update={"collection": place})
        asyncio.run(index_folder(found, folder / "documents"))
        questions: list[GoldQuestion] = read_questions(folder / "questions.jsonl")
    collection = Collection.open(place.root, "sample", legs=())
    golds = [locate(question, collection, {}) for question in questions]
    assert [gold.missing for gold in golds] == [()] * 12
    assert all(gold.documents and gold.passages for gold in golds)
    assert {len(passage) for gold in golds for passage in gold.passages} == {1}
