"""Requests that are encoded together get what they would get alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import ModelError
from mrag.models.encoder import Kind
from mrag.schema import Vectors
from serve.batching import Asked, Together, encoded

REQUEST = st.tuples(
    st.lists(st.sampled_from(["a", "bb", "ccc", "bad"]), max_size=3), st.sampled_from(["query", "passage"])
)


def lengths(texts: Sequence[str], kind: Kind) -> Vectors:
    if "bad" in texts:
        raise ModelError("This text can't be encoded.")
    rows = [[len(text), kind == "query"] for text in texts]
    return np.array(rows, np.float32).reshape(-1, 2)


@given(st.lists(REQUEST, min_size=1, max_size=6))
def test_each_gets_its_own_rows_or_its_own_error(asked: list[Asked]) -> None:
    for (texts, kind), found in zip(asked, encoded(lengths, asked), strict=True):
        if "bad" in texts:
            assert isinstance(found, ModelError)
        else:
            assert np.array_equal(found, lengths(texts, kind))  # type: ignore[arg-type]


async def test_what_waits_is_encoded_at_once() -> None:
    first, going, calls = threading.Event(), threading.Event(), []

    def slow(texts: Sequence[str], kind: Kind) -> Vectors:
        calls.append(list(texts))
        going.set()
        first.wait(60)
        return lengths(texts, kind)

    together = Together(slow, most=8)
    asked = [asyncio.create_task(together.encode(["a"], "query"))]
    await asyncio.to_thread(going.wait, 60)
    asked += [asyncio.create_task(together.encode([text], "query")) for text in ("bb", "ccc", "bad")]
    gone = asyncio.create_task(together.encode(["nobody waits"], "query"))
    await asyncio.sleep(0)
    gone.cancel()
    first.set()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [rows[0, 0] for rows in results[:3] if isinstance(rows, np.ndarray)] == [1, 2, 3]
    assert isinstance(results[3], ModelError)
    assert calls[0] == ["a"]
    assert calls[1:] == [["bb", "ccc", "bad"], ["bb"], ["ccc"], ["bad"]]


async def test_more_than_fit_one_batch_wait_for_the_next() -> None:
    calls: list[int] = []

    def counted(texts: Sequence[str], kind: Kind) -> Vectors:
        calls.append(len(texts))
        return lengths(texts, kind)

    together = Together(counted, most=4)
    found = await asyncio.gather(*(together.encode(["a" * n], "query") for n in range(1, 11)))
    assert [int(rows[0, 0]) for rows in found] == list(range(1, 11))
    assert max(calls) <= 4


async def test_an_error_that_is_none_of_ours_reaches_all_who_wait() -> None:
    def broken(texts: Sequence[str], kind: Kind) -> Vectors:
        raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        await Together(broken, most=4).encode(["a"], "query")
