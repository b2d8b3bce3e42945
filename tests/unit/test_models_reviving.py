"""One dead engine costs nothing but time; a request that ends every engine costs itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from mrag.errors import EngineDeadError, ModelError, PromptTooLongError
from mrag.models.language_model import Completion, Message, Request
from mrag.models.reviving import RevivingModel
from mrag.models.scripted import ScriptedModel


def request(text: str) -> Request:
    return Request((Message("user", text),), 10, "markers")


class Engine(ScriptedModel):
    """Answers until `poison` arrives: that, all that is under way and all that follows fails."""

    def __init__(self, poison: str, name: str) -> None:
        super().__init__(lambda asked: f"reply to {asked.messages[0].content}", name=name)
        self._poison = poison
        self._dead = False

    async def _complete(self, request: Request) -> Completion:
        await asyncio.sleep(0)
        self._dead = self._dead or request.messages[0].content == self._poison
        if self._dead:
            raise EngineDeadError("The engine has stopped.")
        return await super()._complete(request)


class Engines:
    """Opens them, and counts."""

    def __init__(self, poison: str = "") -> None:
        self.opened: list[Engine] = []
        self._poison = poison

    async def __call__(self) -> Engine:
        self.opened.append(Engine(self._poison, f"engine {len(self.opened)}"))
        return self.opened[-1]


async def reviving(engines: Engines) -> RevivingModel:
    return RevivingModel(await engines(), engines)


async def test_only_the_poisoned_request_is_lost() -> None:
    engines = Engines("poison")
    model = await reviving(engines)
    texts = [*map(str, range(5)), "poison", *map(str, range(5, 12))]
    replies = await asyncio.gather(*(model.complete(request(text)) for text in texts), return_exceptions=True)
    for text, reply in zip(texts, replies, strict=True):
        if text == "poison":
            assert isinstance(reply, EngineDeadError)
        else:
            assert not isinstance(reply, BaseException)
            assert reply.text == f"reply to {text}"
    assert (await model.complete(request("later"))).text == "reply to later"
    assert len(engines.opened) == 3


async def test_one_death_opens_one_engine() -> None:
    engines = Engines()
    model = await reviving(engines)
    await engines.opened[0].close()
    await asyncio.gather(*(model.complete(request(str(number))) for number in range(8)))
    assert len(engines.opened) == 2
    assert model.name == "engine 1"


async def test_a_model_that_was_closed_stays_closed() -> None:
    engines = Engines()
    model = await reviving(engines)
    await model.close()
    with pytest.raises(EngineDeadError):
        await model.complete(request("x"))
    assert len(engines.opened) == 1


async def test_an_engine_that_does_not_open_again_says_why() -> None:
    engines = Engines()

    async def broken() -> ScriptedModel:
        raise ModelError("No memory is left.")

    model = RevivingModel(await engines(), broken)
    await engines.opened[0].close()
    with pytest.raises(ModelError, match="No memory"):
        await model.complete(request("x"))


async def test_labels_are_chosen_anew() -> None:
    opened = [ScriptedModel(lambda _: "A") for _ in range(2)]

    async def second() -> ScriptedModel:
        return opened[1]

    model = RevivingModel(opened[0], second)
    await opened[0].close()
    assert set((await model.choose(request("x"), ["A", "B"])).logprobs) == {"A", "B"}


async def test_other_errors_open_nothing() -> None:
    engines = Engines()
    model = await reviving(engines)
    with pytest.raises(PromptTooLongError):
        await model.complete(request("word " * 10_000))
    assert len(engines.opened) == 1


class Talker(Engine):
    """Streams two pieces, and dies after so many."""

    def __init__(self, pieces: int) -> None:
        super().__init__("", "talker")
        self._left = pieces

    async def stream(self, request: Request) -> AsyncIterator[str]:
        for piece in ("one ", "two"):
            if not self._left:
                raise EngineDeadError("The engine has stopped.")
            self._left -= 1
            yield piece


@pytest.mark.parametrize("pieces", [0, 1])
async def test_a_stream_is_begun_again_only_where_nothing_was_told(pieces: int) -> None:
    opened: list[Talker] = []

    async def another() -> Talker:
        opened.append(Talker(9))
        return opened[-1]

    model, told = RevivingModel(Talker(pieces), another), list[str]()
    with contextlib.nullcontext() if not pieces else pytest.raises(EngineDeadError):
        async for piece in model.stream(request("hello")):
            told.append(piece)
    assert told == (["one "] if pieces else ["one ", "two"])
    assert [piece async for piece in model.stream(request("again"))] == ["one ", "two"]
    assert len(opened) == 1
