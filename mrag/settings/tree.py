"""The whole tree, and the YAML that it is read from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, ValidationError, model_validator

from mrag.errors import SettingsError
from mrag.settings.address import store_address
from mrag.settings.cluster import JobSettings, ServeSettings
from mrag.settings.extraction import DocumentSettings, ExtractionSettings
from mrag.settings.method import Method
from mrag.settings.models import (
    EncoderSettings,
    LanguageModelSettings,
    RateSettings,
    StageModels,
    StageName,
    VllmSettings,
)
from mrag.settings.storage import CollectionSettings, DenseSettings, SparseSettings
from mrag.settings.strict import Strict
from mrag.yaml_tree import read_yaml


class Settings(Strict):
    """The whole tree. `method` may be written as the name of a shipped method.

    `extractor` is the language model of indexing; without it, `language_model` does both. `stage_models`
    are those of single stages of a question. The YAML files of `blueprints_folder` are blueprints beside the
    shipped ones.
    """

    method: Method = Method()
    blueprints_folder: Path | None = None
    documents: DocumentSettings = DocumentSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    language_model: LanguageModelSettings = VllmSettings()
    extractor: LanguageModelSettings | None = None
    stage_models: StageModels = StageModels()
    rates: dict[str, RateSettings] = Field(default_factory=dict)
    encoder: EncoderSettings = EncoderSettings()
    dense: DenseSettings = DenseSettings()
    sparse: SparseSettings = SparseSettings()
    collection: CollectionSettings = CollectionSettings()
    job: JobSettings = JobSettings()
    serve: ServeSettings = ServeSettings()

    @model_validator(mode="before")
    @classmethod
    def _named_method(cls, tree: Any) -> Any:
        if isinstance(tree, Mapping) and isinstance(tree.get("method"), str):
            return {**tree, "method": method_tree(tree["method"])}
        return tree

    @model_validator(mode="after")
    def _served_by_one_model(self) -> Settings:
        if self.job.served and self.extractor:
            raise ValueError("job.served asks the service's language_model: leave extractor out")
        return self

    @model_validator(mode="after")
    def _no_model_is_idle(self) -> Settings:
        if all(getattr(self.stage_models, stage) for stage in get_args(StageName)):
            raise ValueError(
                "stage_models names one for every stage, so that language_model answers nothing: "
                "name the model of one of them there"
            )
        return self

    def model_of(self, stage: StageName) -> LanguageModelSettings:
        """The language model that a stage of a question asks."""
        own: LanguageModelSettings | None = getattr(self.stage_models, stage)
        return own or self.language_model

    @property
    def answering_models(self) -> list[LanguageModelSettings]:
        """Those that questions are asked, one for each stage."""
        return [self.model_of(stage) for stage in get_args(StageName)]

    @property
    def indexing_model(self) -> LanguageModelSettings:
        """The language model that builds records."""
        return self.extractor or self.language_model


# --------------------------------------------------------------------------- loading


def method_names() -> list[str]:
    """The methods that the package ships, by name."""
    folder = files("mrag") / "data" / "methods"
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def method_tree(name: str) -> Any:
    """The unchecked YAML of one shipped method; ValueError for a name that is not among them."""
    if name not in method_names():
        raise ValueError(f"there is no method {name!r}; the shipped ones are {', '.join(method_names())}")
    return read_yaml((files("mrag") / "data" / "methods" / f"{name}.yaml").read_text("utf-8"), name)


def parse_settings(tree: Any, origin: str = "the settings") -> Settings:
    """A checked tree from plain YAML values; SettingsError names every bad path in one sentence."""
    try:
        return Settings.model_validate(_mapping(tree, origin))
    except ValidationError as error:
        faults = "; ".join(_fault(item) for item in error.errors())
        raise SettingsError(f"{origin}: {faults}.") from None


def _mapping(tree: Any, origin: str) -> Mapping[Any, Any]:
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise SettingsError(f"{origin} must be a mapping of sections, not a {type(tree).__name__}.")
    return tree


def _fault(item: Mapping[str, Any]) -> str:
    field = (item["ctx"]["field"],) if item["type"] == "at_field" else ()
    path = ".".join(str(part) for part in (*item["loc"], *field)) or "(top level)"
    if item["type"] == "extra_forbidden":
        return f"{path} is not a setting"
    if item["type"] == "union_tag_not_found":
        kind = str(item["ctx"]["discriminator"]).strip("'")
        return f"{path}.{kind} must be given"
    message = str(item["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{path}: {message[:1].lower()}{message[1:]}"


def load_settings(path: Path | None = None, overrides: tuple[str, ...] = ()) -> Settings:
    """The tree of a YAML file (or the defaults), with `dotted.path=value` overrides laid over it.

    Values of overrides are read as YAML. Raises SettingsError.
    """
    origin = str(path) if path else "the settings"
    tree = dict(_mapping(_file_tree(path), origin)) if path else {}
    for override in overrides:
        _override(tree, override)
    return parse_settings(tree, origin)


def _file_tree(path: Path) -> Any:
    try:
        return read_yaml(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise SettingsError(f"Can't read the settings {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not valid YAML: it is not in UTF-8.") from None


def _override(tree: dict[Any, Any], override: str) -> None:
    dotted, equals, value = override.partition("=")
    if not equals or not dotted:
        raise SettingsError(f"An override must look like section.key=value, not {override!r}.")
    *sections, key = dotted.split(".")
    node = tree
    for section in sections:
        node[section] = dict(_section(node, section, dotted))
        node = node[section]
    node[key] = read_yaml(value, f"The value of the override {dotted}")


def _section(node: Mapping[Any, Any], section: str, dotted: str) -> Mapping[Any, Any]:
    """What stands in a section, the name of a shipped method spelled out."""
    below = node.get(section)
    if section == "method" and below in method_names():
        below = method_tree(str(below))
    if not isinstance(below, Mapping | None):
        raise SettingsError(f"{dotted} can't be set, because {section} is {below!r:.80} and no section.")
    return below or {}


def require_absolute_root(settings: Settings) -> None:
    """A job or a service runs in a folder that Ray made: a relative root would be lost with it."""
    root = settings.collection.root
    if store_address(root) is None and not root.is_absolute():
        raise SettingsError(
            f"collection.root is {root}: on a cluster it must be an absolute path that every node sees, such "
            "as --set collection.root=$PWD/collections, or the address of an object store."
        )
