"""The scripted model answers by rule, remembers what it was asked, and fails loudly."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mrag.errors import EmptyReplyError, EngineDeadError, ModelError, ModelTimeoutError, SettingsError
from mrag.models.language_model import Completion, Message, Request
from mrag.models.opening import open_language_model
from mrag.models.scripted import Rule, ScriptedModel, read_rules
from mrag.schema import Usage
from mrag.settings import ScriptedSettings


def ask(text: str, purpose: str = "extract", **more: object) -> Request:
    return Request((Message("user", text),), max_tokens=20, purpose=purpose, **more)  # type: ignore[arg-type]


async def test_the_first_rule_that_fits_answers() -> None:
    model = ScriptedModel(
        [
            Rule("of the harbour", purpose="extract", contains=("harbour", "tide")),
            Rule("of anything", purpose="extract"),
            Rule("an answer", purpose="generate"),
        ]
    )
    assert (await model.complete(ask("the tide in the harbour"))).text == "of the harbour"
    assert (await model.complete(ask("the harbour"))).text == "of anything"
    assert (await model.complete(ask("the harbour", "generate"))).text == "an answer"
    assert [request.purpose for request in model.asked] == ["extract", "extract", "generate"]


async def test_an_unscripted_request_names_purpose_and_prompt() -> None:
    model = ScriptedModel([Rule("yes", purpose="select")])
    with pytest.raises(ModelError, match=r"'generate'.*'Who sold the buoy\?'"):
        await model.complete(ask("Who sold the buoy?", "generate"))
    assert len(model.asked) == 1


async def test_a_rule_used_up_makes_room_for_the_next() -> None:
    model = ScriptedModel([Rule("bad", times=1), Rule("good")])
    assert [(await model.complete(ask("again"))).text for _ in range(3)] == ["bad", "good", "good"]


async def test_json_replies_are_sent_as_text_and_words_are_tokens() -> None:
    model = ScriptedModel([Rule({"rows": [1, 2], "name": "Zoë"}, finish="length")])
    completion = await model.complete(ask("three short words"))
    assert json.loads(completion.text) == {"rows": [1, 2], "name": "Zoë"}
    assert completion.finish == "length"
    assert completion.usage == Usage(1, 3, len(completion.text.split()))


@pytest.mark.parametrize(
    ("error", "kind"), [("timeout", ModelTimeoutError), ("dead", EngineDeadError), ("empty", EmptyReplyError)]
)
async def test_scripted_errors_are_raised(error: str, kind: type[ModelError]) -> None:
    model = ScriptedModel([Rule(error=error)])  # type: ignore[arg-type]
    with pytest.raises(kind, match="extract"):
        await model.complete(ask("x"))


async def test_a_callable_may_return_text_rules_completions_or_raise() -> None:
    def reply(request: Request) -> object:
        match request.purpose:
            case "text":
                return "plain"
            case "rule":
                return Rule(error="dead")
            case "completion":
                return Completion("whole", Usage(1, 2, 3))
        raise EmptyReplyError("nothing to say")

    model = ScriptedModel(reply)
    assert (await model.complete(ask("x", "text"))).text == "plain"
    assert (await model.complete(ask("x", "completion"))).usage.completion_tokens == 3
    with pytest.raises(EngineDeadError):
        await model.complete(ask("x", "rule"))
    with pytest.raises(EmptyReplyError, match="nothing to say"):
        await model.complete(ask("x", "other"))


async def test_choose_takes_a_label_or_log_probabilities() -> None:
    model = ScriptedModel([Rule("B", times=1), Rule({"A": -0.1, "C": -2}, times=1), Rule("Z")])
    first = (await model.choose(ask("pick"), ["A", "B", "C"])).logprobs
    assert list(first) == ["A", "B", "C"]
    assert max(first, key=first.__getitem__) == "B"
    second = (await model.choose(ask("pick"), ["A", "B", "C"])).logprobs
    assert (second["A"], second["C"]) == (-0.1, -2.0)
    assert second["B"] < second["C"]
    with pytest.raises(ModelError, match="Z"):
        await model.choose(ask("pick"), ["A", "B"])


async def test_a_slow_reply_meets_the_deadline() -> None:
    model = ScriptedModel([Rule("late", delay_s=30)])
    with pytest.raises(ModelTimeoutError, match=r"0\.01 s"):
        await model.complete(ask("x", timeout_s=0.01))


async def test_no_more_than_max_concurrency_are_in_the_engine() -> None:
    inside = 0
    most = 0

    class Counting(ScriptedModel):
        async def _complete(self, request: Request) -> Completion:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            completion = await super()._complete(request)
            inside -= 1
            return completion

    model = Counting([Rule("done", delay_s=0.001)], max_concurrency=3)
    await asyncio.gather(*(model.complete(ask(str(i))) for i in range(10)))
    assert most == 3


async def test_rules_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text(
        '{"purpose": "extract", "contains": ["buoy"], "reply": {"records": []}}\n\n{"error": "timeout"}\n'
    )
    model = await open_language_model(ScriptedSettings(engine="scripted", replies=file, window_tokens=512))
    assert model.window_tokens == 512
    assert "replies.jsonl" in model.name
    assert (await model.complete(ask("a buoy"))).text == '{"records": []}'
    with pytest.raises(ModelTimeoutError):
        await model.complete(ask("a ship"))


@pytest.mark.parametrize("line", ['{"reply": "x"', '{"replies": "x"}', '{"error": "sad"}', "[]"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text('{"reply": "x"}\n' + line + "\n")
    with pytest.raises(SettingsError, match=r"replies\.jsonl:2"):
        read_rules(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.jsonl"):
        read_rules(tmp_path / "nowhere.jsonl")
