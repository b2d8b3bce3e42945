from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from mrag.errors import SettingsError
from mrag.settings import (
    OpenAISettings,
    PlainReader,
    SaneReader,
    Settings,
    VllmSettings,
    load_settings,
    method_names,
    parse_settings,
    require_absolute_root,
)

CONFIGS = Path(__file__).parents[2] / "configs"
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_local_yaml_spells_out_the_defaults() -> None:
    assert load_settings(CONFIGS / "local.yaml") == Settings()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid(path: Path) -> None:
    load_settings(path)


def test_the_papers_generator_runs_on_the_80_gb_cards() -> None:
    settings = load_settings(CONFIGS / "a800.yaml")
    assert settings.language_model.model == "Qwen/Qwen3-30B-A3B-Instruct-2507"
    assert (settings.encoder.model, settings.dense.device) == ("BAAI/bge-m3", "gpu")


@pytest.mark.parametrize("name", method_names())
def test_every_shipped_method_is_valid(name: str) -> None:
    parse_settings({"method": name})


def test_shipped_methods_are_the_papers_triples() -> None:
    triples = {
        name: (method.builder.name, method.retrieval.name, method.reader.name)
        for name in method_names()
        for method in [parse_settings({"method": name}).method]
    }
    assert triples["m-rag"] == ("markers", "keys", "plain")
    reader = parse_settings({"method": "m-rag"}).method.reader
    assert reader == PlainReader(policy="stop", overflow="strict", deduplicate=False)
    assert triples["sane"] == ("units", "keys", "sane")
    assert triples["ours"] == ("markers", "keys", "sane")
    dos = parse_settings({"method": "dos"}).method
    assert (dos.builder.name, dos.reader) == ("fixed", PlainReader(order="position", deduplicate=False))


@pytest.mark.parametrize(
    ("overrides", "searched"),
    [
        (("method.retrieval.depth=7",), "keys+units"),
        (("method=m-rag", "method.retrieval.depth=7"), "keys"),
        (("method.retrieval={name: keys, depth: 7}",), "keys"),
    ],
)
def test_one_option_of_a_section_leaves_its_kind_alone(overrides: tuple[str, ...], searched: str) -> None:
    retrieval = load_settings(None, overrides).method.retrieval
    assert (retrieval.name, retrieval.depth) == (searched, 7)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("surprise=1", "surprise is not a setting"),
        ("serve.surprise=1", "serve.surprise is not a setting"),
        ("method=magic", "the shipped ones are"),
        ("method.reader={name: sane, w: 3, k: 4}", "k must not exceed w"),
        ("method.reader={name: sane, extract: false, no_evidence: abstain}", "abstain needs extract"),
        ("method.reader.neighbours=11", "method.reader.sane.neighbours"),
        ("method.reader.extract=maybe", "method.reader.sane.extract"),
        ("method.reader.blueprints_folder=x", "method.reader.sane.blueprints_folder is not a setting"),
        ('blueprints_folder="a\\0b"', "blueprints_folder: a NUL"),
        ("method.builder={name: fixed, tokens: 16, overlap: 16}", "overlap must be smaller"),
        ("method.reader={name: plain, budget_tokens: 0}", "method.reader.plain.budget_tokens"),
        ("method.reader.select=all", "method.reader.sane.select"),
        ("method.reader.skip_margin=1.1", "method.reader.sane.skip_margin"),
        ("method.reader.skip_margin=off", "method.reader.sane.skip_margin: true or false is no value"),
        ("method.reader.rank_weight=-1", "method.reader.sane.rank_weight"),
        (
            "method.reader.synopsis={metadata_tokens: 0, keywords_tokens: 0, excerpt_tokens: 0}",
            "method.reader.sane.synopsis: a synopsis needs at least one part",
        ),
        ("method.retrieval.name=units", "method.retrieval.name"),
        ("method.retrieval.unit_weight=.nan", "method.retrieval.unit_weight"),
        ("method.retrieval={name: keys+units, unit_weight: -1}", "method.retrieval.unit_weight"),
        ("language_model.engine=magic", "language_model"),
        ("collection.name=../other", "collection.name"),
        ("collection.shards=none", "collection.shards"),
        ("job.encoders.min_actors=3", "min_actors must not exceed max_actors"),
        ("serve.host=0.0.0.0", "set token_env"),
        ("no equals sign", "section.key=value"),
        ("a.b=[", "not valid YAML"),
        ("a.b=!!int x", "The value of the override a.b is not valid YAML"),
        ("a.b=!!int ''", "not valid YAML"),
        ("a.b=!!bool x", "not valid YAML"),
        ("a.b=!!timestamp x", "not valid YAML"),
        ("a.b=!!python/name:os.system x", "not valid YAML"),
        ("a.b={x: 1, x: 2}", "'x' twice"),
        ("a.b=" + "[" * 5000, "not valid YAML"),
        ("a.b=" + "{a: " * 5000, "not valid YAML"),
        ("a.b=1:" + "1:" * 300 + "1.5", "not valid YAML"),
        ("serve.port=" + "1" * 5000, "not valid YAML"),
        ("serve.port=" + "1" * 4000, "serve.port"),
        ("serve.timeout_s=" + "1" * 4000, "serve.timeout_s"),
        ("serve.timeout_s=.inf", "serve.timeout_s"),
        ("serve.timeout_s=.nan", "serve.timeout_s"),
        ("serve.timeout_s=1.0e+999", "serve.timeout_s"),
        ("job.encoders.num_cpus=.inf", "job.encoders.num_cpus"),
        ("rates.some.prompt_price=.inf", "rates.some.prompt_price"),
        ("serve.port=true", "serve.port: true or false"),
        ("serve.port=.inf", "serve.port"),
        ("collection.name=no", "put a word such as yes in quotes"),
        ("sparse.k1=false", "sparse.k1"),
        ('collection.root="a\\0b"', "collection.root: a NUL"),
        ('language_model={engine: scripted, replies: "a\\0b"}', "replies: a NUL"),
        ('encoder.model="\\0"', "encoder.model: a NUL"),
        ("{1: 2}=3", "is not a setting"),
        ("method={1: 2}", "method"),
        ("extractor.window_tokens=4096", "extractor.engine must be given"),
        ("method.reader.tokens=3", "method.reader.sane.tokens is not a setting"),
    ],
)
def test_a_bad_setting_is_one_sentence_with_its_path(override: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, (override,))
    assert named in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"a: [", b"- list", b"just text", b"\xff\xfe\x00", b"method: {builder: 5}"]
)
def test_a_file_that_is_no_settings_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"\.$"):
        load_settings(path)


@pytest.mark.parametrize(
    "content",
    [
        "- list",
        "just text",
        "7",
        "[]",
        "serve: {port: 1}\nserve: {port: 2}",
        "serve:\n  port: 1\n  port: 2",
        "serve: 5",
        "method: magic",
        "? [1]\n: 2",
        "&a a: *a",
        "[" * 100_000,
        "a: " + "1" * 5000,
    ],
)
def test_overrides_over_such_a_file_are_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(content)
    for overrides in ((), ("serve.port=9000", "method.reader.w=30")):
        with pytest.raises(SettingsError) as caught:
            load_settings(path, overrides)
        assert str(caught.value).endswith(".")
        assert "\n" not in str(caught.value)


def test_a_key_may_stand_beside_the_merge_that_also_has_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "serve:\n  encoder: &one {num_cpus: 0.5, max_ongoing: 3}\n"
        "  selector: &two {<<: *one, max_ongoing: 4}\n  extractor: {<<: *two, max_ongoing: 5}\n"
    )
    serve = load_settings(path).serve
    assert [part.max_ongoing for part in (serve.encoder, serve.selector, serve.extractor)] == [3, 4, 5]
    assert serve.extractor.num_cpus == 0.5


def test_off_needs_no_quotes_where_it_is_a_word() -> None:
    reader = load_settings(None, ("method.reader.select=off",)).method.reader
    assert isinstance(reader, SaneReader)
    assert reader.select == "off"


def test_what_looks_like_a_date_is_a_name() -> None:
    for name in ("2024-02-30", "2024-02-28"):
        assert load_settings(None, (f"collection.name={name}",)).collection.name == name


def test_overrides_lie_over_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(None, ("method.reader.w=30", "language_model.window_tokens=4096"))
    assert settings.method.reader == SaneReader(w=30)
    assert settings.language_model == VllmSettings(window_tokens=4096)
    path = tmp_path / "settings.yaml"
    path.write_text("language_model: {window_tokens: 2048, max_concurrency: 3}\n")
    settings = load_settings(path, ("language_model.window_tokens=4096",))
    assert settings.language_model == VllmSettings(window_tokens=4096, max_concurrency=3)


def test_another_kind_replaces_the_default_one_in_any_order() -> None:
    whole = ("language_model={engine: openai, model: m, base_url: u}",)
    parts = ("language_model.model=m", "language_model.base_url=u", "language_model.engine=openai")
    expected = OpenAISettings(engine="openai", model="m", base_url="u")
    for overrides in (whole, parts, parts[::-1], ("language_model.window_tokens=4096", *whole)):
        assert load_settings(None, overrides).language_model == expected
    reader = load_settings(None, ("method=sane", "method.reader={name: plain}")).method.reader
    assert reader == PlainReader()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_settings(tmp_path / "nowhere.yaml")


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("")
    assert load_settings(path) == Settings()


def test_overrides_reach_into_sections_and_leave_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("serve: {port: 9000}\nmethod: m-rag\n")
    settings = load_settings(path, ("serve.timeout_s=7", "method.reader={name: sane, w: 30}"))
    assert (settings.serve.port, settings.serve.timeout_s) == (9000, 7)
    assert settings.method.reader == SaneReader(w=30)


def test_overrides_lie_over_a_named_method() -> None:
    method = load_settings(None, ("method=sane", "method.reader.w=30")).method
    assert (method.builder.name, method.reader) == ("units", SaneReader(w=30))


def test_another_host_is_served_with_a_token_only() -> None:
    assert load_settings(None, ("serve.host=0.0.0.0", "serve.token_env=TOKEN")).serve.host == "0.0.0.0"


def test_jobs_and_services_want_an_absolute_root(tmp_path: Path) -> None:
    require_absolute_root(load_settings(None, (f"collection.root={tmp_path}",)))
    with pytest.raises(SettingsError, match="absolute path"):
        require_absolute_root(Settings())


def leaves(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """The last two names of every setting of the tree: `section.key`."""
    for name, field in model.model_fields.items():
        yield f"{path}{name}"
        for part in _models(field.annotation):
            yield from leaves(part, f"{name}.")


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def test_every_setting_is_documented() -> None:
    text = DOCS.read_text("utf-8")
    missing = {
        leaf for leaf in leaves(Settings) if f".{leaf.split('.')[-1]}" not in text and leaf not in text
    }
    assert not missing


def test_what_another_library_taught_yaml_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taught = {**yaml.SafeLoader.yaml_constructors, "tag:yaml.org,2002:timestamp": lambda *_: "a date"}
    monkeypatch.setattr(yaml.SafeLoader, "yaml_constructors", taught)
    assert yaml.safe_load("!!timestamp x") == "a date"
    with pytest.raises(SettingsError, match="not valid YAML"):
        load_settings(None, ("collection.name=!!timestamp x",))
