"""One YAML file becomes one typed tree; unknown keys are refused with their path.

The defaults are the local machine: two cores, no GPU, the models that the quickstart fetches.
"""

from mrag.settings.access import Scope, TokenSettings, parse_token, read_tokens, token_hash
from mrag.settings.cluster import LOOPBACK, DeploymentSettings, PoolSettings, StageSettings
from mrag.settings.extraction import DocumentSettings, ExtractionSettings, MarkerExample
from mrag.settings.method import (
    FixedBuilder,
    LegWeights,
    MarkersBuilder,
    Method,
    PlainReader,
    ReaderSettings,
    RetrievalSettings,
    SaneReader,
    SynopsisSettings,
)
from mrag.settings.models import (
    EncoderSettings,
    LanguageModelSettings,
    OpenAISettings,
    RateSettings,
    ScriptedSettings,
    StageName,
    VllmSettings,
)
from mrag.settings.storage import CollectionSettings, DenseSettings, SparseSettings
from mrag.settings.strict import Strict
from mrag.settings.tree import (
    Settings,
    load_settings,
    method_names,
    method_tree,
    parse_settings,
    require_absolute_root,
)

__all__ = [
    "LOOPBACK",
    "CollectionSettings",
    "DenseSettings",
    "DeploymentSettings",
    "DocumentSettings",
    "EncoderSettings",
    "ExtractionSettings",
    "FixedBuilder",
    "LanguageModelSettings",
    "LegWeights",
    "MarkerExample",
    "MarkersBuilder",
    "Method",
    "OpenAISettings",
    "PlainReader",
    "PoolSettings",
    "RateSettings",
    "ReaderSettings",
    "RetrievalSettings",
    "SaneReader",
    "Scope",
    "ScriptedSettings",
    "Settings",
    "SparseSettings",
    "StageName",
    "StageSettings",
    "Strict",
    "SynopsisSettings",
    "TokenSettings",
    "VllmSettings",
    "load_settings",
    "method_names",
    "method_tree",
    "parse_settings",
    "parse_token",
    "read_tokens",
    "require_absolute_root",
    "token_hash",
]
