"""Settings become models: the one place that knows which engine a setting names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar, get_args

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


@asynccontextmanager
async def opened_by_stage(
    settings: Settings, opener: Callable[[LanguageModelSettings], Awaitable[_M]]
) -> AsyncIterator[dict[StageName, _M]]:
    """The model that each stage of a question asks: each is opened once, and closed at the end."""
    async with AsyncExitStack() as stack:
        opened: list[tuple[LanguageModelSettings, _M]] = []
        for wanted in settings.answering_models:
            if all(wanted != known for known, _ in opened):
                model = await opener(wanted)
                stack.push_async_callback(model.close)
                opened.append((wanted, model))
        yield {
            stage: next(model for known, model in opened if known == settings.model_of(stage))
            for stage in get_args(StageName)
        }


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
