"""Settings become models: the one place that knows which engine a setting names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar, get_args

from mrag.models.encoder import Encoder
from mrag.models.language_model import LanguageModel
from mrag.models.openai_client import OpenAIModel
from mrag.models.reviving import RevivingModel
from mrag.models.scripted import ScriptedModel
from mrag.models.sentence_encoder import SentenceEncoder
from mrag.models.vllm_engine import VllmModel
from mrag.settings import (
    EncoderSettings,
    LanguageModelSettings,
    OpenAISettings,
    ScriptedSettings,
    Settings,
    StageName,
    VllmSettings,
)

_M = TypeVar("_M", bound=LanguageModel)


async def open_language_model(settings: LanguageModelSettings) -> LanguageModel:
    """A language model that is ready to answer, for this event loop; fetches weights where needed.

    Loading the vLLM engine takes half a minute. Raises ModelError or SettingsError.
    """
    if isinstance(settings, ScriptedSettings):
        return ScriptedModel.from_settings(settings)
    model = OpenAIModel(settings) if isinstance(settings, OpenAISettings) else VllmModel(settings)
    await model.load()
    return model


async def open_reviving_model(settings: LanguageModelSettings) -> LanguageModel:
    """The same, with an engine that is opened anew when it dies: for work that must come to its end."""

    async def opened() -> LanguageModel:
        return await open_language_model(settings)

    return RevivingModel(await opened(), opened)


class OpenedModels(Generic[_M]):
    """Language models that stay open from one use to the next, each of their settings opened once."""

    def __init__(self, opener: Callable[[LanguageModelSettings], Awaitable[_M]]) -> None:
        self._opener = opener
        self._opened: list[tuple[LanguageModelSettings, _M]] = []

    async def of_stages(self, settings: Settings) -> dict[StageName, _M]:
        """The model that each stage of a question asks; what none asks is closed before others open."""
        await self.close(settings.answering_models)
        return {stage: await self._model(settings.model_of(stage)) for stage in get_args(StageName)}

    async def _model(self, settings: LanguageModelSettings) -> _M:
        for known, model in self._opened:
            if known == settings:
                return model
        model = await self._opener(settings)
        self._opened.append((settings, model))
        return model

    async def close(self, but: Sequence[LanguageModelSettings] = ()) -> None:
        """Closes all `but` those of these settings; one that fails to keeps no other from it."""
        async with AsyncExitStack() as stack:
            for known, model in [one for one in self._opened if one[0] not in but]:
                self._opened.remove((known, model))
                stack.push_async_callback(model.close)


@asynccontextmanager
async def opened_by_stage(
    settings: Settings, opener: Callable[[LanguageModelSettings], Awaitable[_M]]
) -> AsyncIterator[dict[StageName, _M]]:
    """The model that each stage of a question asks: each is opened once, and closed at the end."""
    models = OpenedModels(opener)
    try:
        yield await models.of_stages(settings)
    finally:
        await models.close()


async def counting_model(settings: LanguageModelSettings) -> LanguageModel:
    """The same model with no engine behind it: it counts tokens, and knows its name and window."""
    if not isinstance(settings, VllmSettings):
        return await open_language_model(settings)
    model = VllmModel(settings)
    await asyncio.to_thread(model.prepare)
    return model


def open_encoder(settings: EncoderSettings) -> Encoder:
    """An encoder that loads its weights when it is first asked for a vector."""
    return SentenceEncoder(settings)
