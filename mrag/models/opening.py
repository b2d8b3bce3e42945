"""Settings become models: the one place that knows which engine a setting names."""

from __future__ import annotations

from mrag.models.encoder import Encoder
from mrag.models.language_model import LanguageModel
from mrag.settings import EncoderSettings, LanguageModelSettings, OpenAISettings, ScriptedSettings, VllmSettings


async def open_language_model(settings: LanguageModelSettings) -> LanguageModel:
    """A language model that is ready to answer, for this event loop; fetches weights where needed.

    Loading the vLLM engine takes half a minute. Raises ModelError or SettingsError.
    """
    if isinstance(settings, VllmSettings):
        from mrag.models.vllm_engine import VllmModel

        model = VllmModel(settings)
        await model.load()
        return model
    return counting_model(settings)


def counting_model(settings: LanguageModelSettings) -> LanguageModel:
    """A language model that counts tokens and knows its name and window; no engine is started for it."""
    if isinstance(settings, ScriptedSettings):
        from mrag.models.scripted import ScriptedModel

        return ScriptedModel.from_settings(settings)
    if isinstance(settings, OpenAISettings):
        from mrag.models.openai_client import OpenAIModel

        return OpenAIModel(settings)
    from mrag.models.vllm_engine import VllmModel

    model = VllmModel(settings)
    model.prepare()
    return model


def open_encoder(settings: EncoderSettings) -> Encoder:
    """An encoder that loads its weights when it is first asked for a vector."""
    from mrag.models.sentence_encoder import SentenceEncoder

    return SentenceEncoder(settings)
