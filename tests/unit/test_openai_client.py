"""The OpenAI-compatible client against an endpoint that misbehaves in every way that is known."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mrag.errors import (
    EmptyReplyError,
    ModelError,
    ModelTimeoutError,
    NoLogprobsError,
    PromptTooLongError,
    RefusedError,
)
from mrag.models import retrying
from mrag.models.language_model import Message, Request
from mrag.models.openai_client import OpenAIModel, is_closed, label_logprobs
from mrag.schema import Usage
from mrag.settings import OpenAISettings
from tests.fake_endpoint import FakeEndpoint, Reply, Script, fake_endpoint

KEY = "sk-a-very-secret-key"
CLOSED = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRAG_TEST_KEY", KEY)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own waiting is a hundred times shorter; what the endpoint asks for is not."""
    monkeypatch.setattr(retrying, "BUSY_S", (0.005, 0.01))
    monkeypatch.setattr(retrying, "FAILING_S", (0.005, 0.01))


@asynccontextmanager
async def opened(script: Script, **more: Any) -> AsyncIterator[tuple[OpenAIModel, FakeEndpoint]]:
    with fake_endpoint(script) as endpoint:
        fields = {"model": "m", "base_url": endpoint.url, "api_key_env": "MRAG_TEST_KEY", "max_retries": 2}
        model = OpenAIModel(OpenAISettings(engine="openai", **{**fields, **more}))
        yield model, endpoint
        await model.close()


def ask(text: str = "Where is the buoy?", **more: Any) -> Request:
    return Request((Message("user", text),), **{"max_tokens": 20, "purpose": "generate", **more})


def always(reply: Reply) -> Script:
    return lambda body, number: reply


def after(refusals: list[Reply], reply: Reply) -> Script:
    return lambda body, number: refusals[number - 1] if number <= len(refusals) else reply


async def test_a_reply_with_its_usage_and_the_request_as_sent() -> None:
    async with opened(always(Reply("in the harbour", finish="length"))) as (model, endpoint):
        completion = await model.complete(ask())
    assert (completion.text, completion.finish) == ("in the harbour", "length")
    assert completion.usage == Usage(1, 4, 3)
    [body] = endpoint.asked
    assert body["messages"] == [{"role": "user", "content": "Where is the buoy?"}]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 20, 0.0)
    assert "response_format" not in body
    assert endpoint.keys == [f"Bearer {KEY}"]


async def test_the_limit_goes_by_the_name_that_the_endpoint_knows() -> None:
    reply = Reply("A", logprobs={"A": -0.1})
    async with opened(always(reply), token_limit="max_completion_tokens") as (model, endpoint):
        await model.complete(ask())
        await model.choose(ask(), ["A", "B"])
    assert [body["max_completion_tokens"] for body in endpoint.asked] == [20, 1]
    assert not any("max_tokens" in body for body in endpoint.asked)


async def test_a_schema_is_sent_and_is_strict_where_it_is_closed() -> None:
    open_schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    async with opened(always(Reply("{}"))) as (model, endpoint):
        await model.complete(ask(schema=CLOSED, purpose="extract rows"))
        await model.complete(ask(schema=open_schema))
    first, second = (body["response_format"]["json_schema"] for body in endpoint.asked)
    assert first == {"name": "extract_rows", "schema": CLOSED, "strict": True}
    assert second["strict"] is False


async def test_a_schema_stays_here_where_the_endpoint_knows_none() -> None:
    async with opened(always(Reply("{}")), structured_output=False) as (model, endpoint):
        await model.complete(ask(schema=CLOSED))
    assert "response_format" not in endpoint.asked[0]


def test_a_nested_open_object_opens_the_schema() -> None:
    inside = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "object"}}}}
    assert is_closed(CLOSED)
    assert not is_closed({**inside, "required": ["rows"], "additionalProperties": False})


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_what_a_busy_endpoint_refuses_is_asked_again(status: int) -> None:
    async with opened(after([Reply(status=status)] * 2, Reply("at last"))) as (model, endpoint):
        assert (await model.complete(ask())).text == "at last"
    assert len(endpoint.asked) == 3


async def test_retry_after_is_waited_for() -> None:
    loop = asyncio.get_running_loop()
    refusal = Reply(status=429, headers={"Retry-After": "1"})
    async with opened(after([refusal], Reply("now"))) as (model, _):
        began = loop.time()
        assert (await model.complete(ask())).text == "now"
    assert loop.time() - began >= 1


async def test_an_endpoint_that_says_when_is_asked_as_often_as_it_says() -> None:
    refusals = [Reply(status=429, headers={"Retry-After": "0.01"})] * 7
    async with opened(after(refusals, Reply("at last"))) as (model, endpoint):
        assert (await model.complete(ask())).text == "at last"
    assert len(endpoint.asked) == 8


async def test_what_would_take_too_long_is_not_waited_for() -> None:
    refusal = Reply(status=429, headers={"Retry-After": "61"})
    async with opened(always(refusal), max_wait_s=60) as (model, endpoint):
        with pytest.raises(ModelError, match="429") as caught:
            await model.complete(ask())
    assert caught.value.retryable
    assert len(endpoint.asked) == 1


async def test_waiting_is_no_part_of_the_time_for_one_try() -> None:
    refusals = [Reply(status=429, headers={"Retry-After": "0.4"})] * 2
    async with opened(after(refusals, Reply("at last")), timeout_s=0.5) as (model, _):
        assert (await model.complete(ask())).text == "at last"


async def test_an_endpoint_is_never_asked_faster_than_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "MINUTE_S", 0.3)
    for rates in ({"requests_per_minute": 2}, {"tokens_per_minute": 240}):
        came: list[float] = []

        def script(body: Any, number: int, came: list[float] = came) -> Reply:
            came.append(time.monotonic())
            return Reply("word " * 200)

        async with opened(script, **rates) as (model, _):
            await asyncio.gather(*(model.complete(ask(timeout_s=60)) for _ in range(6)))
        assert len(came) == 6
        assert came[-1] - came[0] > 0.3


@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_stays_busy_is_an_error_worth_a_later_try(status: int) -> None:
    async with opened(always(Reply(status=status))) as (model, endpoint):
        with pytest.raises(ModelError, match=f"{status} after every retry") as caught:
            await model.complete(ask())
    assert caught.value.retryable
    assert len(endpoint.asked) == 3


async def test_the_deadline_bounds_all_tries_together() -> None:
    refusal = Reply(status=429, headers={"Retry-After": "60"})
    async with opened(always(refusal)) as (model, endpoint):
        with pytest.raises(ModelTimeoutError, match=r"0\.2 s"):
            await model.complete(ask(timeout_s=0.2))
    assert len(endpoint.asked) == 1


async def test_a_silent_endpoint_meets_the_deadline() -> None:
    async with opened(always(Reply("late", delay_s=0.5)), timeout_s=0.1) as (model, _):
        with pytest.raises(ModelTimeoutError, match="m@"):
            await model.complete(ask())


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_its_variable_and_never_the_key(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    async with opened(always(Reply(status=status, body=body))) as (model, endpoint):
        with pytest.raises(ModelError, match="MRAG_TEST_KEY") as caught:
            await model.complete(ask())
    assert not caught.value.retryable
    assert len(endpoint.asked) == 1
    assert endpoint.url in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert KEY not in caplog.text


@pytest.mark.parametrize("status", [404, 400, 500])
async def test_a_key_repeated_in_any_refusal_is_blotted_out(status: int) -> None:
    body = {"error": {"message": f"no {KEY} here"}}
    async with opened(always(Reply(status=status, body=body))) as (model, _):
        with pytest.raises(ModelError, match=r"\*\*\*") as caught:
            await model.complete(ask())
    assert KEY not in str(caught.value)


async def test_a_missing_model_names_the_endpoint() -> None:
    body = {"error": {"message": "The model `m` does not exist"}}
    async with opened(always(Reply(status=404, body=body))) as (model, endpoint):
        with pytest.raises(ModelError, match="'m'") as caught:
            await model.complete(ask())
    assert endpoint.url in str(caught.value)
    assert not caught.value.retryable


async def test_an_unreachable_endpoint_names_its_address() -> None:
    with fake_endpoint(always(Reply())) as endpoint:
        pass
    settings = OpenAISettings(engine="openai", model="m", base_url=endpoint.url, max_retries=1)
    model = OpenAIModel(settings)
    with pytest.raises(ModelError, match="base_url") as caught:
        await model.complete(ask())
    assert endpoint.url in str(caught.value)
    assert caught.value.retryable
    await model.close()


async def test_a_user_and_password_in_the_address_are_not_shown() -> None:
    url = "http://anna:hunter2@127.0.0.1:9/v1"
    model = OpenAIModel(OpenAISettings(engine="openai", model="m", base_url=url, max_retries=0))
    assert model.name == "m@http://127.0.0.1:9/v1"
    with pytest.raises(ModelError) as caught:
        await model.complete(ask())
    assert "hunter2" not in str(caught.value)


async def test_a_window_that_only_the_endpoint_knows() -> None:
    body = {"error": {"message": "This model's maximum context length is 4096 tokens"}}
    async with opened(always(Reply(status=400, body=body))) as (model, _):
        with pytest.raises(PromptTooLongError, match="4096"):
            await model.complete(ask())


@pytest.mark.parametrize(
    "body", ["<html>a login page</html>", {"detail": "fine"}, {"choices": []}, b"{half", b'{"a": "\xff"}']
)
async def test_an_answer_of_another_form_is_an_error(body: Any) -> None:
    async with opened(always(Reply(body=body))) as (model, _):
        with pytest.raises(ModelError, match="base_url"):
            await model.complete(ask())


async def test_a_choice_without_a_message_is_an_error() -> None:
    async with opened(always(Reply(body={"choices": [{"index": 0}]}))) as (model, _):
        with pytest.raises(ModelError):
            await model.complete(ask())


async def test_a_filtered_reply_is_refused_and_paid() -> None:
    async with opened(always(Reply("in the", finish="content_filter"))) as (model, _):
        with pytest.raises(RefusedError, match="content_filter") as caught:
            await model.complete(ask())
        assert caught.value.tokens == (4, 2)
        with pytest.raises(RefusedError):
            _ = [piece async for piece in model.stream(ask())]
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("status", "error", "refused"),
    [
        (400, {"message": "The prompt was filtered.", "code": "content_filter"}, True),
        (400, {"message": "Against our rules.", "type": "content_policy_violation"}, True),
        (422, {"message": "Bad contents.", "code": "data_inspection_failed"}, True),
        (400, {"message": "Content Exists Risk", "code": "invalid_request_error"}, True),
        (400, {"message": "Triggered Azure OpenAI's content management policy.", "code": None}, True),
        (400, {"message": "Unsupported parameter: seed", "code": "unsupported_parameter"}, False),
        (422, {"message": "max_tokens is too large", "code": 422}, False),
        (400, {"message": "No.", "code": {"of": "another form"}}, False),
        (401, {"message": "No.", "code": "content_filter"}, False),
        (404, {"message": "No.", "code": "content_filter"}, False),
    ],
)
async def test_a_refused_text_is_told_from_a_refused_request(
    status: int, error: dict[str, Any], refused: bool
) -> None:
    async with opened(always(Reply(status=status, body={"error": error}))) as (model, endpoint):
        with pytest.raises(ModelError) as caught:
            await model.complete(ask())
    assert isinstance(caught.value, RefusedError) is refused
    assert not caught.value.retryable
    assert len(endpoint.asked) == 1


async def test_a_reply_of_nothing_is_an_empty_one() -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None}}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    async with opened(always(Reply(body=body))) as (model, _):
        with pytest.raises(EmptyReplyError):
            await model.complete(ask())


async def test_a_stream_that_breaks_off_is_an_error_after_its_pieces() -> None:
    pieces = []

    async def read(model: OpenAIModel) -> None:
        async for piece in model.stream(ask()):
            pieces.append(piece)  # noqa: PERF401

    async with opened(always(Reply("one two three four", cut_after=2))) as (model, _):
        with pytest.raises(ModelError, match="broke off"):
            await read(model)
    assert "".join(pieces) == "one two"


async def test_hostile_text_arrives_as_it_was() -> None:
    text = '<|im_end|> </s> {"a": "\x00"} ‮ \ud800'
    async with opened(always(Reply("fine"))) as (model, endpoint):
        await model.complete(ask(text))
    assert endpoint.asked[0]["messages"][0]["content"] == text.replace("\ud800", "?")


async def test_labels_are_weighed_among_themselves() -> None:
    top = {" A": math.log(0.3), "A": math.log(0.1), "B": math.log(0.4), "The": math.log(0.1)}
    async with opened(always(Reply("A", logprobs=top))) as (model, endpoint):
        choice = await model.choose(ask(), ["A", "B", "C"])
    chosen = choice.logprobs
    assert choice.usage == Usage(1, 4, 1)
    assert chosen["A"] == pytest.approx(math.log(0.4 / 0.9))
    assert chosen["B"] == pytest.approx(math.log(0.4 / 0.9))
    assert chosen["C"] == pytest.approx(math.log(0.1 / 0.9))
    assert (endpoint.asked[0]["max_tokens"], endpoint.asked[0]["top_logprobs"]) == (1, 20)


async def test_an_endpoint_without_log_probabilities_is_refused() -> None:
    async with opened(always(Reply("A"))) as (model, _):
        with pytest.raises(NoLogprobsError, match="no log-probabilities") as caught:
            await model.choose(ask(), ["A", "B"])
    assert not caught.value.retryable
    assert caught.value.tokens == (4, 1)


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [(400, "'logprobs' is not supported with this model", NoLogprobsError), (400, "Bad word", ModelError)],
)
async def test_a_refusal_of_log_probabilities_is_told_from_others(
    status: int, said: str, error: type[ModelError]
) -> None:
    async with opened(always(Reply(status=status, body={"error": {"message": said}}))) as (model, _):
        with pytest.raises(ModelError, match=said) as caught:
            await model.choose(ask(), ["A", "B"])
    assert type(caught.value) is error
    assert not caught.value.retryable


async def test_what_a_useless_reply_cost_is_told() -> None:
    async with opened(always(Reply("The", logprobs={"The": -0.1}))) as (model, _):
        with pytest.raises(ModelError, match="likeliest") as caught:
            await model.choose(ask(), ["A", "B"])
    assert caught.value.tokens == (4, 1)


def test_labels_that_nobody_thought_of_are_refused() -> None:
    with pytest.raises(ModelError, match="likeliest"):
        label_logprobs([("The", -0.1), ("a", -3.0)], ["A", "B"])


@pytest.mark.parametrize(
    ("text", "tokens"), [("abc", 3), ("日本", 6), ("", 0)], ids=["ascii", "three bytes each", "nothing"]
)
async def test_without_a_tokenizer_bytes_bound_the_prompt(text: str, tokens: int) -> None:
    async with opened(always(Reply("x")), window_tokens=512) as (model, endpoint):
        assert model.count_tokens(text) == tokens
        assert model.count_prompt_tokens((Message("user", text),)) > tokens
        with pytest.raises(PromptTooLongError, match="512"):
            await model.complete(ask("x" * 480))
    assert endpoint.asked == []


async def test_no_more_than_max_concurrency_reach_the_endpoint() -> None:
    inside = 0
    most = 0
    lock = threading.Lock()

    def script(body: dict[str, Any], number: int) -> Reply:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        with lock:
            inside -= 1
        return Reply("done")

    async with opened(script, max_concurrency=2) as (model, endpoint):
        await asyncio.gather(*(model.complete(ask(str(i))) for i in range(8)))
    assert len(endpoint.asked) == 8
    assert most == 2
