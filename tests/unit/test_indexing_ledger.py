"""The ledger keeps what was validated, whole or not at all; the cap is never exceeded."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import CapReachedError, EmptyReplyError, ModelTimeoutError, SettingsError
from mrag.indexing.asking import Asker
from mrag.indexing.cap import SharedCap, TokenCap, ToldMeter
from mrag.indexing.ledger import Ledger, ledger_key
from mrag.models.language_model import Completion, Message, Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.schema import Usage
from mrag.settings import CollectionSettings

REQUEST = Request((Message("user", "Which buoy?"),), 10, "markers", {"type": "object"})
REPLY = Completion("The \ud800 buoy \x00 «five»", Usage(1, 7, 3), "length")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, "boats")


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_reply_comes_back_as_it_was(ledger: Ledger) -> None:
    ledger.entries("a").put("key", REPLY)
    assert ledger.entries("a").get("key") == REPLY
    assert ledger.entries("b").get("key") is None
    assert ledger.entries("a").get("other") is None


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"text": "x"}', b"\xff\xfe", b'{"text":1,"usage":{"a":1}}']
)
def test_a_damaged_entry_is_none_and_can_be_written_again(
    ledger: Ledger, tmp_path: Path, damage: bytes
) -> None:
    ledger.entries("a").put("key", REPLY)
    (path,) = files(tmp_path)
    path.write_bytes(damage)
    assert ledger.entries("a").get("key") is None
    ledger.entries("a").put("key", REPLY)
    assert ledger.entries("a").get("key") == REPLY


def test_what_is_not_kept_is_gone_and_nothing_of_another_document(ledger: Ledger, tmp_path: Path) -> None:
    for document in ("a", "b"):
        for key in ("old", "new"):
            ledger.entries(document).put(key, REPLY)
    ledger.entries("a").keep_only(["new"])
    assert [ledger.entries("a").get(key) for key in ("old", "new")] == [None, REPLY]
    assert ledger.entries("b").get("old") == REPLY
    ledger.forget(["a", "b", "never seen"])
    assert files(tmp_path) == []


@pytest.mark.parametrize("id", ["../../etc/passwd", "a/b", "x" * 5000, "\ud800", "", "CON", "ä"])
def test_any_id_stays_in_the_ledger(ledger: Ledger, tmp_path: Path, id: str) -> None:
    ledger.entries(id).put("key", REPLY)
    (path,) = files(tmp_path)
    assert path.is_relative_to(tmp_path / "boats" / "ledger")
    assert ledger.entries(id).get("key") == REPLY


def test_a_key_holds_all_that_the_reply_depends_on() -> None:
    others = [
        replace(REQUEST, messages=(Message("user", "Which boat?"),)),
        replace(REQUEST, messages=(Message("system", "Which buoy?"),)),
        replace(REQUEST, max_tokens=11),
        replace(REQUEST, schema=None),
        replace(REQUEST, temperature=0.3),
        replace(REQUEST, seed=1),
    ]
    keys = {ledger_key(request, "model") for request in (REQUEST, *others)} | {ledger_key(REQUEST, "other")}
    assert len(keys) == len(others) + 2
    assert ledger_key(replace(REQUEST, timeout_s=1.0), "model") == ledger_key(REQUEST, "model")


# --------------------------------------------------------------------------- asking


async def test_what_was_validated_is_not_asked_again(ledger: Ledger) -> None:
    model = ScriptedModel(lambda request: Completion("yes", Usage(1, 5, 1)))
    first = Asker(model, ledger.entries("a"))
    await first.validated(REQUEST, await first.complete(REQUEST))
    useless = replace(REQUEST, seed=5)
    await first.complete(useless)
    again = Asker(model, ledger.entries("a"))
    assert (await again.complete(REQUEST)).text == "yes"
    assert len(model.asked) == 2
    await again.complete(useless)
    assert len(model.asked) == 3
    assert (first.spent, first.reused) == (Usage(2, 10, 2), Usage())
    assert (again.spent, again.reused) == (Usage(1, 5, 1), Usage(1, 5, 1))


async def test_a_finished_document_keeps_what_it_was_built_from(ledger: Ledger) -> None:
    model = ScriptedModel([Rule("yes")])
    old = Asker(model, ledger.entries("a"))
    await old.validated(REQUEST, await old.complete(REQUEST))
    changed = replace(REQUEST, seed=2)
    new = Asker(model, ledger.entries("a"))
    await new.validated(changed, await new.complete(changed))
    await new.finished()
    keys = [ledger_key(request, model.name) for request in (REQUEST, changed)]
    assert [bool(ledger.entries("a").get(key)) for key in keys] == [False, True]


async def test_what_failed_is_counted_too() -> None:
    asker = Asker(ScriptedModel([Rule(error="timeout", times=1), Rule("  \n ", times=1), Rule("yes")]))
    with pytest.raises(ModelTimeoutError):
        await asker.complete(REQUEST)
    assert asker.spent == Usage(1, 2, 0)
    with pytest.raises(EmptyReplyError):
        await asker.complete(REQUEST)
    assert asker.spent.calls == 2
    assert asker.spent.prompt_tokens == 4


# --------------------------------------------------------------------------- the cap


async def test_nothing_is_sent_beyond_the_cap() -> None:
    model = ScriptedModel([Rule("yes")])
    asker = Asker(model, meter=TokenCap(25))  # Each costs 2 + 1, and may cost 2 + 10.
    for _ in range(5):
        await asker.complete(REQUEST)
    with pytest.raises(CapReachedError, match="25 LLM tokens"):
        await asker.complete(REQUEST)
    assert len(model.asked) == 5


@pytest.mark.parametrize("cap", [None, TokenCap(100)])
async def test_what_each_request_cost_is_told(cap: TokenCap | None) -> None:
    told: list[int] = []
    asker = Asker(ScriptedModel([Rule("yes")]), meter=ToldMeter(told.append, cap))
    for _ in range(3):
        await asker.complete(REQUEST)
    assert told == [3, 3, 3]
    assert asker.spent.tokens == 9


async def test_what_may_still_fit_waits() -> None:
    cap = TokenCap(20)
    await cap.reserve(15)
    second = asyncio.create_task(cap.reserve(15))
    await asyncio.sleep(0)
    assert not second.done()
    await cap.settle(15, 5)
    await second


@given(
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), max_size=30),
    st.integers(),
)
def test_the_cap_holds_whatever_comes(limit: int, requests: list[tuple[int, int]], seed: int) -> None:
    chance, cap, spent = random.Random(seed), TokenCap(limit), 0

    async def one(most: int, cost: int) -> None:
        nonlocal spent
        try:
            await cap.reserve(most)
        except CapReachedError:
            return
        for _ in range(chance.randint(0, 3)):
            await asyncio.sleep(0)
        spent += min(most, cost)
        await cap.settle(most, min(most, cost))

    async def all_at_once() -> None:
        await asyncio.wait_for(asyncio.gather(*(one(*request) for request in requests)), 10)

    asyncio.run(all_at_once())
    assert spent <= limit
    if requests and sum(most for most, _ in requests) <= limit:
        assert spent == sum(min(most, cost) for most, cost in requests)


async def test_what_a_silent_holder_set_aside_is_waited_for_no_longer() -> None:
    cap = SharedCap(100, silence_s=0.02)
    await cap.reserve("killed", 60)
    with pytest.raises(CapReachedError):
        await asyncio.wait_for(cap.reserve("other", 60), 10)
    await asyncio.wait_for(cap.reserve("other", 40), 10)


async def test_a_holder_that_lives_is_waited_for() -> None:
    now = 0.0
    cap = SharedCap(100, silence_s=0.02, clock=lambda: now)
    await cap.reserve("slow", 60)
    other = asyncio.create_task(cap.reserve("other", 60))
    for _ in range(9):
        now += 0.015
        cap.lives("slow")
        await asyncio.sleep(0.01)
    assert not other.done()
    await cap.settle("slow", 60, 40)
    await asyncio.wait_for(other, 10)


async def test_a_holder_that_was_only_slow_pays_what_it_cost() -> None:
    cap = SharedCap(100, silence_s=0.02)
    await cap.reserve("slow", 50)
    with pytest.raises(CapReachedError):
        await asyncio.wait_for(cap.reserve("other", 70), 10)
    await cap.reserve("slow", 30)
    await cap.settle("slow", 50, 10)
    await cap.settle("slow", 30, 5)
    await asyncio.wait_for(cap.reserve("other", 85), 10)
    with pytest.raises(CapReachedError):
        await asyncio.wait_for(cap.reserve("other", 1), 10)


# --------------------------------------------------------------------------- the ledger of another collection


async def test_replies_of_another_collection_are_copied_and_each_copy_goes_alone(tmp_path: Path) -> None:
    root = tmp_path
    model = ScriptedModel([Rule("yes")])
    first = Asker(model, Ledger(root, "old").entries("a"))
    await first.validated(REQUEST, await first.complete(REQUEST))
    ledger = Ledger.of(CollectionSettings(root=root, name="new", replies_of="old"))
    key = ledger_key(REQUEST, model.name)
    assert ledger.entries("a").get(key)
    assert not (root / "new").exists()  # To look is no reason to write.
    again = Asker(model, ledger.entries("a"))
    assert (await again.complete(REQUEST)).text == "yes"
    await again.finished()
    assert (len(model.asked), again.spent, again.reused) == (1, Usage(), first.spent)
    Ledger(root, "old").forget(["a"])
    assert Ledger(root, "new").entries("a").get(key)
    Ledger(root, "new").forget(["a"])
    assert files(root) == []


def test_a_ledger_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'odl'"):
        Ledger.of(CollectionSettings(root=tmp_path, replies_of="odl"))
