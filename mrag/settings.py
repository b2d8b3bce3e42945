"""One YAML file becomes one typed tree; unknown keys are refused with their path.

The defaults are the local machine: two cores, no GPU, the models that the quickstart fetches.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from mrag.errors import SettingsError
from mrag.yaml_tree import read_yaml

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Strict(BaseModel):
    """A node of the tree: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _default_kind(cls, tree: Any) -> Any:
        """A section of several kinds that does not name its own is of the default kind."""
        if not isinstance(tree, Mapping):
            return tree
        kinds = {
            name: {field.discriminator: getattr(field.default, field.discriminator)}
            for name, field in cls.model_fields.items()
            if isinstance(field.discriminator, str) and isinstance(tree.get(name), Mapping)
        }
        return {**tree, **{name: {**kind, **tree[name]} for name, kind in kinds.items()}}

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, tree: Any) -> Any:
        for name, field in cls.model_fields.items():
            value = tree.get(name) if isinstance(tree, Mapping) else None
            if value is False and "off" in get_args(field.annotation):
                tree = {**tree, name: "off"}  # the word without quotes, as YAML reads it
            elif isinstance(value, bool) and field.annotation is not bool:
                raise _at(name, "true or false is no value of it; put a word such as yes in quotes")
            if isinstance(value, str | Path) and "\0" in str(value):
                raise _at(name, "a NUL character can't be part of it")
        return tree


def _at(name: str, fault: str) -> PydanticCustomError:
    return PydanticCustomError("at_field", "{fault}", {"field": name, "fault": fault})


# --------------------------------------------------------------------------- the method: a triple


class MarkersBuilder(Strict):
    """M-RAG: an LLM turns a document into records."""

    name: Literal["markers"] = "markers"


class UnitsBuilder(Strict):
    """One record a source unit: key = value = text."""

    name: Literal["units"] = "units"


class FixedBuilder(Strict):
    """Chunks of `tokens` encoder tokens, each sharing `overlap` with the one before."""

    name: Literal["fixed"] = "fixed"
    tokens: int = Field(128, ge=8)
    overlap: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> FixedBuilder:
        if self.overlap >= self.tokens:
            raise ValueError("overlap must be smaller than tokens")
        return self


BuilderSettings = Annotated[MarkersBuilder | UnitsBuilder | FixedBuilder, Field(discriminator="name")]


class LegWeights(Strict):
    """What each leg counts for in the fusion."""

    dense: float = Field(1.0, gt=0)
    sparse: float = Field(1.0, gt=0)


class RetrievalSettings(Strict):
    """What is searched: keys alone (M-RAG III-B), or beside them the source units.

    A collection that is indexed under `keys+units` can be asked for both. Its dense scores are a key's plus
    `unit_weight` times a unit's; its sparse ones are those of units expanded by their keys.
    `fusion` is by reciprocal rank or by normalised scores, each leg by its weight.
    `depth` is the number of records asked of each leg for each candidate wanted.
    `sub_queries` searches for the parts of a question too, as rules find them.
    """

    name: Literal["keys", "keys+units"] = "keys"
    legs: tuple[Literal["dense", "sparse"], ...] = Field(("dense", "sparse"), min_length=1)
    fusion: Literal["rank", "scores"] = "rank"
    leg_weights: LegWeights = LegWeights()
    rank_constant: int = Field(60, ge=1)
    depth: int = Field(5, ge=1)
    unit_weight: float = Field(2.0, ge=0, allow_inf_nan=False)
    sub_queries: Literal["off", "rule"] = "off"


class PlainReader(Strict):
    """M-RAG III-C: values under `budget_tokens` (eq. 13), by similarity or by position.

    `policy` says what a value that does not fit does: it ends the context (eq. 13), or is passed over.
    `overflow` is for the case that nothing fits: the first value is cut, or (eq. 13) the context is empty.
    `deduplicate` leaves out what the context says already.
    `k` takes the first k candidates' raw text instead, and leaves the budget out.
    """

    name: Literal["plain"] = "plain"
    order: Literal["similarity", "position"] = "similarity"
    budget_tokens: int = Field(640, ge=1)
    policy: Literal["stop", "skip"] = "stop"
    overflow: Literal["cut", "strict"] = "cut"
    deduplicate: bool = True
    k: int | None = Field(None, ge=1)


class SynopsisSettings(Strict):
    """SANE eqs. 4 to 7: the most tokens of each part, as the selecting model counts them; 0 leaves it out.

    `full_text_tokens` shows the candidate's source text in place of all parts (Table 6, `w/o synopsis`).
    """

    metadata_tokens: int = Field(40, ge=0)
    keywords_tokens: int = Field(24, ge=0)
    excerpt_tokens: int = Field(64, ge=0)
    full_text_tokens: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _something_is_shown(self) -> SynopsisSettings:
        if not any(self.model_dump().values()):
            raise ValueError("a synopsis needs at least one part: give one of its limits a number above 0")
        return self


class SaneReader(Strict):
    """SANE: w candidates, k of them selected, their evidence extracted, an answer from the table.

    `select` is the form of selection: k are `listed` in one reply (eq. 8), ranked by the probability of one
    token (`labels`), judged in w requests (`each`), or the retrieval's first k (`off`). In the middle two
    the retrieval's rank counts `rank_weight` times the model's. `skip_margin` spares the call where every
    leg puts the same k first by this share of its scores.
    `quoting` says how a row gives its quote: `pointed` names a sentence, `copied` (the paper) writes it out.
    `read` is what the extractor is shown, `neighbours` how many units before and after each selected one.
    `derive` lets a table of figures end with rows computed from it. `extract` and `blueprints` switched off
    are the ablations of SANE Table 6. With `citations: model` the generator is asked to cite rows, else a
    rule finds those that an answer rests on. `budget_tokens` bounds the raw units that are read where there
    is no verified row, unless `no_evidence` says to abstain.
    """

    name: Literal["sane"] = "sane"
    w: int = Field(20, ge=1)
    k: int = Field(5, ge=1)
    select: Literal["listed", "labels", "each", "off"] = "listed"
    rank_weight: float = Field(1.0, ge=0)
    skip_margin: float | None = Field(None, ge=0, le=1)
    synopsis: SynopsisSettings = SynopsisSettings()
    budget_tokens: int = Field(640, ge=1)
    quoting: Literal["pointed", "copied"] = "pointed"
    read: Literal["units", "values"] = "units"
    neighbours: int = Field(0, ge=0, le=10)
    extract: bool = True
    blueprints: bool = True
    derive: bool = True
    citations: Literal["rule", "model"] = "rule"
    no_evidence: Literal["units", "abstain"] = "units"

    @model_validator(mode="after")
    def _k_fits_w(self) -> SaneReader:
        if self.k > self.w:
            raise ValueError("k must not exceed w")
        return self

    @model_validator(mode="after")
    def _abstains_for_want_of_evidence(self) -> SaneReader:
        if self.no_evidence == "abstain" and not self.extract:
            raise ValueError("no_evidence abstain needs extract: without a table no row is ever verified")
        return self


ReaderSettings = Annotated[PlainReader | SaneReader, Field(discriminator="name")]


class Method(Strict):
    """builder x retrieval x reader: how records are made, found and read."""

    builder: BuilderSettings = MarkersBuilder()
    retrieval: RetrievalSettings = RetrievalSettings(name="keys+units")
    reader: ReaderSettings = SaneReader()


# --------------------------------------------------------------------------- documents and extraction


class DocumentSettings(Strict):
    """What becomes a source unit (M-RAG III-B): paragraphs or token-based segments.

    None is above `max_unit_tokens` of the encoder; segments are filled up to it, over paragraphs' ends.
    """

    unit: Literal["paragraph", "tokens"] = "paragraph"
    max_unit_tokens: int = Field(240, ge=16)


class ExampleRecord(Strict):
    """A record of a worked example: the numbers of its units, its value, and its keys, the best first."""

    units: tuple[int, ...] = Field(min_length=1)
    value: str
    keys: tuple[str, ...] = Field(min_length=1)


class MarkerExample(Strict):
    """A worked example of few-shot extraction: numbered units under one section, and their records."""

    title: str = ""
    section: tuple[str, ...] = ()
    units: tuple[tuple[int, str], ...] = Field(min_length=1)
    records: tuple[ExampleRecord, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _pointers_exist(self) -> MarkerExample:
        numbers = {number for number, _ in self.units}
        if not all(numbers.issuperset(record.units) for record in self.records):
            raise ValueError("its records must point to its units")
        return self


class ExtractionSettings(Strict):
    """M-RAG III-B. A window is what one call reads: whole units, at most `window_units` of them.

    `granularity` `unit` asks for one unit at a time, which small models need; its records point to it
    without being asked to, and their `value` may be the unit itself. `order` is that of Table V,
    `examples` are the few-shot ones: none given means the one that ships, an empty list zero-shot.
    `tokens_per_marker` gives the expected marker count (Table IV over LongBench: 80 to 100).
    `coverage` is tau of eq. 9; the paper names neither it nor the number of `retries`.
    `retry` asks for the whole document again (the paper), or for its gaps.
    `key_text` is what is searched of a key: the key alone (the paper), or under its document's
    title and section (`titled`).
    """

    granularity: Literal["document", "unit"] = "document"
    value: Literal["rewrite", "unit"] = "rewrite"
    keys_per_record: int = Field(1, ge=1, le=10)
    order: Literal["A", "B", "C"] = "A"
    examples: tuple[MarkerExample, ...] | None = None
    window_units: int | None = Field(1, ge=1)
    max_pointers: int = Field(3, ge=1)
    tokens_per_marker: int = Field(90, ge=1)
    coverage: float = Field(1.0, ge=0.0, le=1.0)
    retries: int = Field(2, ge=0)
    retry: Literal["gaps", "document"] = "gaps"
    key_text: Literal["key", "titled"] = "titled"

    @model_validator(mode="after")
    def _units_are_values_one_at_a_time(self) -> ExtractionSettings:
        if self.value == "unit" and self.granularity != "unit":
            raise ValueError("value unit needs granularity unit")
        return self


# --------------------------------------------------------------------------- models


class VllmSettings(Strict):
    """The engine in this process. `model` is a name that `mrag models` lists, a hub id or a folder.

    `memory_fraction` is of the GPU's memory, or of main memory on a machine without one.
    """

    engine: Literal["vllm"] = "vllm"
    model: str = "qwen2.5-coder-0.5b-instruct"
    window_tokens: int = Field(8192, ge=512)
    max_concurrency: int = Field(16, ge=1)
    timeout_s: float = Field(600.0, gt=0)
    memory_fraction: float = Field(0.3, gt=0, le=1)
    kv_cache_gib: float = Field(2.0, gt=0)
    tensor_parallel: int = Field(1, ge=1)
    enforce_eager: bool = True


class OpenAISettings(Strict):
    """Any OpenAI-compatible endpoint. The key is read from the environment variable `api_key_env`.

    `tokenizer` names a folder or hub id; without it a UTF-8 byte counts as a token, the upper bound
    of byte-level tokenizers, so that no budget is ever exceeded.
    """

    engine: Literal["openai"]
    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    window_tokens: int = Field(32768, ge=512)
    max_concurrency: int = Field(16, ge=1)
    timeout_s: float = Field(120.0, gt=0)
    max_retries: int = Field(5, ge=0)
    tokenizer: str | None = None
    structured_output: bool = True
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class ScriptedSettings(Strict):
    """Replies from a JSONL file, for tests and rehearsals: no model is loaded."""

    engine: Literal["scripted"]
    replies: Path
    window_tokens: int = Field(8192, ge=512)
    max_concurrency: int = Field(16, ge=1)


LanguageModelSettings = Annotated[
    VllmSettings | OpenAISettings | ScriptedSettings, Field(discriminator="engine")
]


class RateSettings(Strict):
    """What a model costs, for `mrag plan`: money for a million tokens, and tokens per second."""

    prompt_price: float | None = Field(None, ge=0)
    completion_price: float | None = Field(None, ge=0)
    currency: str = "USD"
    prompt_tokens_per_s: float | None = Field(None, gt=0)
    completion_tokens_per_s: float | None = Field(None, gt=0)


class EncoderSettings(Strict):
    """sentence-transformers. The prefixes are put before each text of their kind."""

    model: str = "all-minilm-l6-v2"
    device: str | None = None
    batch: int = Field(64, ge=1)
    max_tokens: int = Field(256, ge=16)
    query_prefix: str = ""
    passage_prefix: str = ""


class DenseSettings(Strict):
    """FAISS. `device` is where searching happens; files on disk are always CPU indexes."""

    index: Literal["flat"] = "flat"
    device: Literal["cpu", "gpu"] = "cpu"


class SparseSettings(Strict):
    """Lucene through Pyserini: the analyzer's language, and BM25's two constants."""

    language: str = "en"
    k1: float = Field(0.9, ge=0)
    b: float = Field(0.4, ge=0, le=1)


class CollectionSettings(Strict):
    """Where collections live. `root` is a folder; documents are spread over `shards` by their id."""

    root: Path = Path("collections")
    name: str = Field("default", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    shards: int = Field(1, ge=1, le=1024)


# --------------------------------------------------------------------------- Ray


class PoolSettings(Strict):
    """One pool of Ray Data actors: its bounds, and what each actor holds."""

    min_actors: int = Field(1, ge=1)
    max_actors: int = Field(1, ge=1)
    num_cpus: float = Field(0.5, ge=0)
    num_gpus: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> PoolSettings:
        if self.min_actors > self.max_actors:
            raise ValueError("min_actors must not exceed max_actors")
        return self


class JobSettings(Strict):
    """`jobs/index.py`: its two pools, and the share of a CPU of each reading or writing task."""

    extractors: PoolSettings = PoolSettings(num_cpus=1.0)
    encoders: PoolSettings = PoolSettings()
    task_num_cpus: float = Field(0.25, gt=0)


class DeploymentSettings(Strict):
    """One Ray Serve deployment: autoscaling bounds and what each replica holds.

    `max_ongoing` is the number of requests that one replica works on at once.
    """

    min_replicas: int = Field(1, ge=0)
    max_replicas: int = Field(1, ge=1)
    max_ongoing: int = Field(64, ge=1)
    num_cpus: float = Field(0.1, ge=0)
    num_gpus: float = Field(0.0, ge=0)


class ServeSettings(Strict):
    """The HTTP service. Without `token_env` it answers on a loopback address only."""

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)
    token_env: str | None = None
    timeout_s: float = Field(300.0, gt=0)
    gateway: DeploymentSettings = DeploymentSettings()
    retriever: DeploymentSettings = DeploymentSettings()
    encoder: DeploymentSettings = DeploymentSettings()
    selector: DeploymentSettings = DeploymentSettings()
    extractor: DeploymentSettings = DeploymentSettings()
    generator: DeploymentSettings = DeploymentSettings()
    language_model: DeploymentSettings = DeploymentSettings(num_cpus=1.0)

    @model_validator(mode="after")
    def _open_only_with_a_token(self) -> ServeSettings:
        if self.host not in LOOPBACK and not self.token_env:
            raise ValueError(
                f"host {self.host} can be reached from other machines: set token_env to the name "
                "of an environment variable that holds a bearer token"
            )
        return self


class Settings(Strict):
    """The whole tree. `method` may be written as the name of a shipped method.

    `extractor` is the language model of indexing; without it, `language_model` does both. The YAML files
    of `blueprints_folder` are blueprints beside the shipped ones.
    """

    method: Method = Method()
    blueprints_folder: Path | None = None
    documents: DocumentSettings = DocumentSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    language_model: LanguageModelSettings = VllmSettings()
    extractor: LanguageModelSettings | None = None
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
    if not settings.collection.root.is_absolute():
        raise SettingsError(
            f"collection.root is {settings.collection.root}: on a cluster it must be an absolute path that "
            "every node sees, such as --set collection.root=$PWD/collections."
        )
