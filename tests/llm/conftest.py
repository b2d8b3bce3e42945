"""One true engine for all of tests/llm: SmolLM2-135M, which takes half a minute to load."""

from __future__ import annotations

import multiprocessing
from collections.abc import AsyncIterator

import pytest_asyncio

from mrag.models.opening import open_language_model
from mrag.models.vllm_engine import VllmModel
from mrag.settings import VllmSettings

ENGINE = VllmSettings(model="smollm2-135m-instruct", window_tokens=2048, max_concurrency=8, kv_cache_gib=1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine() -> AsyncIterator[VllmModel]:
    """Tests that ask it run in the session's event loop: `@pytest.mark.asyncio(loop_scope="session")`."""
    before = {child.pid for child in multiprocessing.active_children()}
    model = await open_language_model(ENGINE)
    assert isinstance(model, VllmModel)
    yield model
    await model.close()
    left = [child for child in multiprocessing.active_children() if child.pid not in before]
    assert left == [], "close left engine processes behind"
