"""One suite for every language model; the true engine passes it in tests/llm."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from mrag.errors import EmptyReplyError, EngineDeadError, ModelTimeoutError, PromptTooLongError
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.openai_client import OpenAIModel
from mrag.models.scripted import Rule, ScriptedModel
from mrag.settings import OpenAISettings
from tests.fake_endpoint import Reply, fake_endpoint

REPLY = "The buoy lies in the outer harbour since May."
LOGPROBS = {"A": -0.2, "B": -2.0, "C": -4.0}
TURNS = 2


def ask(text: str, **more: Any) -> Request:
    turns = (Message("system", "You answer in one sentence."), Message("user", text))
    return Request(turns, **{"max_tokens": 32, "purpose": "generate", **more})


# The schema keeps a true engine at it for some hundred tokens, whatever it thinks of the question.
COUNTS = {"type": "array", "items": {"type": "integer"}, "minItems": 400}
SLOW = ask("Count slowly from one to one thousand.", max_tokens=1000, schema=COUNTS)


class LanguageModelContract:
    """What the seam promises. A subclass gives the fixture `model`, with `turns` places in its engine."""

    turns = TURNS

    async def test_a_prompt_beyond_the_window_is_refused_with_both_numbers(
        self, model: LanguageModel
    ) -> None:
        request = ask("buoy " * model.window_tokens)
        with pytest.raises(PromptTooLongError) as caught:
            await model.complete(request)
        assert str(model.count_prompt_tokens(request.messages)) in str(caught.value)
        assert str(model.window_tokens) in str(caught.value)
        assert not caught.value.retryable

    async def test_room_for_the_reply_counts_too(self, model: LanguageModel) -> None:
        request = ask("Where is the buoy?", max_tokens=model.window_tokens)
        with pytest.raises(PromptTooLongError):
            await model.complete(request)
        with pytest.raises(PromptTooLongError):
            await anext(aiter(model.stream(request)))

    async def test_usage_is_counted(self, model: LanguageModel) -> None:
        request = ask("Where is the buoy?")
        completion = await model.complete(request)
        assert completion.text.strip()
        assert completion.usage.calls == 1
        assert 0 < completion.usage.prompt_tokens <= model.count_prompt_tokens(request.messages)
        assert 0 < completion.usage.completion_tokens <= request.max_tokens

    async def test_a_chat_has_at_least_the_tokens_of_its_messages(self, model: LanguageModel) -> None:
        messages = ask("Where is the buoy?").messages
        assert model.count_prompt_tokens(messages) >= sum(model.count_tokens(m.content) for m in messages)

    async def test_a_stream_joined_is_the_reply(self, model: LanguageModel) -> None:
        request = ask("Where is the buoy?")
        pieces = [piece async for piece in model.stream(request)]
        assert len(pieces) > 1
        assert "".join(pieces) == (await model.complete(request)).text

    async def test_labels_get_log_probabilities_in_the_order_asked(self, model: LanguageModel) -> None:
        request = ask("Which letter comes first? Answer A, B or C.")
        choice = await model.choose(request, ["C", "A", "B"])
        chosen = choice.logprobs
        assert list(chosen) == ["C", "A", "B"]
        assert all(math.isfinite(value) and value <= 0 for value in chosen.values())
        assert max(chosen, key=chosen.__getitem__) == "A"
        assert (choice.usage.calls, choice.usage.completion_tokens) == (1, 1)
        assert 0 < choice.usage.prompt_tokens <= model.count_prompt_tokens(request.messages)

    async def test_the_deadline_ends_a_slow_reply(self, model: LanguageModel) -> None:
        request = replace(SLOW, timeout_s=0.2)
        with pytest.raises(ModelTimeoutError, match=r"0\.2 s"):
            await model.complete(request)
        with pytest.raises(ModelTimeoutError):
            [piece async for piece in model.stream(request)]

    async def test_whoever_leaves_gives_his_place_free(self, model: LanguageModel) -> None:
        tasks = [asyncio.create_task(model.complete(SLOW)) for _ in range(self.turns)]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(self.turns):
            async with aclosing(model.stream(ask("Where is the buoy?"))) as pieces:
                async for _ in pieces:
                    break
        assert (await model.complete(ask("Where is the buoy?", timeout_s=60))).text

    async def test_a_waiting_request_keeps_its_own_deadline(self, model: LanguageModel) -> None:
        tasks = [asyncio.create_task(model.complete(SLOW)) for _ in range(self.turns)]
        await asyncio.sleep(0.05)
        with pytest.raises(ModelTimeoutError):
            await model.complete(ask("Where is the buoy?", timeout_s=0.05))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ScriptedReplies(LanguageModelContract):
    """What can be shown of a model only by telling it what to say."""

    async def test_a_reply_of_white_space_is_refused(self, model: LanguageModel) -> None:
        request = ask("Say nothing.")
        with pytest.raises(EmptyReplyError, match="generate"):
            await model.complete(request)
        with pytest.raises(EmptyReplyError):
            [piece async for piece in model.stream(request)]

    async def test_a_closed_model_answers_nothing(self, model: LanguageModel) -> None:
        await model.close()
        for call in (
            model.complete(ask("x")),
            model.choose(ask("x"), ["A"]),
            model.likelihood(ask("x"), "A"),
            anext(aiter(model.stream(ask("x")))),
        ):
            with pytest.raises(EngineDeadError, match="closed"):
                await call


class TestScripted(ScriptedReplies):
    @pytest.fixture
    def model(self) -> LanguageModel:
        rules = [
            Rule("late", contains=("slowly",), delay_s=30),
            Rule(" \n", contains=("Say nothing",)),
            Rule(LOGPROBS, contains=("Which letter",)),
            Rule(REPLY),
        ]
        return ScriptedModel(rules, window_tokens=2048, max_concurrency=TURNS)


class TestOpenAI(ScriptedReplies):
    @pytest.fixture
    async def model(self) -> AsyncIterator[LanguageModel]:
        def script(body: dict[str, Any], number: int) -> Reply:
            text = body["messages"][-1]["content"]
            if "Which letter" in text:
                return Reply("A", logprobs=LOGPROBS)
            delay_s = 0.5 if "slowly" in text else 0.0
            return Reply(" \n" if "Say nothing" in text else REPLY, delay_s=delay_s)

        with fake_endpoint(script) as endpoint:
            settings = OpenAISettings(
                engine="openai", model="m", base_url=endpoint.url, window_tokens=2048, max_concurrency=TURNS
            )
            model = OpenAIModel(settings)
            yield model
            await model.close()
