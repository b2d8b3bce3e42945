"""An error of a model keeps what it says about a retry, also on its way through a cluster."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mrag.errors import ModelError, ModelTimeoutError, NoLogprobsError, PromptTooLongError
from mrag.models.language_model import Choice, Message, Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.models.skeleton import final

REQUEST = Request((Message("user", "Why?"),), 9, "answer")


def breaking(error: BaseException) -> ScriptedModel:
    def reply(request: Request) -> Any:
        raise error

    return ScriptedModel(reply, name="broken")


async def ask(model: ScriptedModel, how: str) -> Any:
    if how == "complete":
        return await model.complete(REQUEST)
    if how == "choose":
        return await model.choose(REQUEST, ("A", "B"))
    return [piece async for piece in model.stream(REQUEST)]


HOW = pytest.mark.parametrize("how", ["complete", "choose", "stream"])


@HOW
@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), OSError(28, "No space left"), KeyError("x"), TimeoutError()]
)
async def test_what_no_door_knows_costs_the_request_and_is_named(how: str, error: Exception) -> None:
    model = breaking(error)
    with pytest.raises(ModelError, match=rf"^broken ended answer with {type(error).__name__} \(") as caught:
        await ask(model, how)
    assert type(caught.value) is ModelError
    assert not caught.value.retryable
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


@HOW
async def test_what_mrag_or_the_caller_says_passes(how: str) -> None:
    for error in (PromptTooLongError("Too long."), final("No such label.")):
        with pytest.raises(type(error)) as caught:
            await ask(breaking(error), how)
        assert caught.value is error
    with pytest.raises(asyncio.CancelledError):
        await ask(breaking(asyncio.CancelledError()), how)


async def test_a_prompt_that_can_not_be_counted_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ScriptedModel, text: str) -> int:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(ScriptedModel, "count_tokens", refuse)
    with pytest.raises(ModelError, match="UnicodeEncodeError"):
        await ScriptedModel([]).complete(REQUEST)


class Counting(ScriptedModel):
    """Knows how many requests were in the engine at once."""

    now = most = 0

    async def _choose(self, request: Request, labels: Sequence[str]) -> Choice:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        choice = await super()._choose(request, labels)
        self.now -= 1
        return choice


async def test_labels_are_weighed_so_many_at_once_and_the_others_wait_their_turn() -> None:
    model = Counting([Rule("A")], max_concurrency=3)
    await asyncio.gather(*(model.choose(REQUEST, ("A", "B")) for _ in range(10)))
    assert (model.most, len(model.asked)) == (3, 10)


def test_what_a_useless_reply_cost_is_known_after_a_journey() -> None:
    error = NoLogprobsError("No log-probabilities.")
    error.tokens = (7, 1)
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), arrived.tokens, arrived.retryable) == (NoLogprobsError, (7, 1), False)
    assert ModelError("Busy.").tokens == (0, 0)


def test_a_final_error_is_final_after_a_journey() -> None:
    arrived = pickle.loads(pickle.dumps(final("No such label.")))
    assert type(arrived) is ModelError
    assert (str(arrived), arrived.retryable) == ("No such label.", False)
    assert ModelError("Busy.").retryable


# --------------------------------------------------------------------------- time-outs of one batch


class Together(ScriptedModel):
    computes_together = True


def slow_and_quick(request: Request) -> Rule:
    return Rule(reply="Because it was so.", delay_s=0.6 if request.purpose == "slow" else 0.1)


async def beside_quick_ones(model: ScriptedModel, slow: Request) -> list[Any]:
    """The outcome of a slow request first, then those of quick ones, one after the other."""

    async def quick() -> None:
        for _ in range(4):
            await model.complete(REQUEST)

    return await asyncio.gather(model.complete(slow), quick(), return_exceptions=True)


@pytest.mark.parametrize(("kind", "answered"), [(Together, True), (ScriptedModel, False)])
async def test_no_request_is_late_while_others_that_are_computed_with_it_end(
    kind: type[ScriptedModel], answered: bool
) -> None:
    model = kind(slow_and_quick, timeout_s=0.4)
    slow, _ = await beside_quick_ones(model, replace(REQUEST, purpose="slow"))
    assert isinstance(slow, ModelTimeoutError) is not answered
    if answered:
        with pytest.raises(ModelTimeoutError, match=r"within 0\.4 s"):
            await model.complete(replace(REQUEST, purpose="slow"))


async def test_a_deadline_of_its_own_is_kept_all_the_same() -> None:
    model = Together(slow_and_quick, timeout_s=0.4)
    slow, _ = await beside_quick_ones(model, replace(REQUEST, purpose="slow", timeout_s=0.3))
    assert isinstance(slow, ModelTimeoutError)
