from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from mrag.errors import SettingsError
from mrag.settings import (
    PlainReader,
    SaneReader,
    Settings,
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
    assert triples["sane"] == ("units", "keys", "sane")
    assert triples["ours"] == ("markers", "keys", "sane")
    dos = parse_settings({"method": "dos"}).method
    assert (dos.builder.name, dos.reader) == ("fixed", PlainReader(order="position"))


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("surprise=1", "surprise is not a setting"),
        ("serve.surprise=1", "serve.surprise is not a setting"),
        ("method=magic", "the shipped ones are"),
        ("method.reader={name: sane, w: 3, k: 4}", "k must not exceed w"),
        ("method.builder={name: fixed, tokens: 16, overlap: 16}", "overlap must be smaller"),
        ("method.reader={name: plain, budget_tokens: 0}", "method.reader.plain.budget_tokens"),
        ("language_model.engine=magic", "language_model"),
        ("collection.name=../other", "collection.name"),
        ("collection.shards=none", "collection.shards"),
        ("job.encoders.min_actors=3", "min_actors must not exceed max_actors"),
        ("serve.host=0.0.0.0", "set token_env"),
        ("no equals sign", "section.key=value"),
        ("a.b=[", "not valid YAML"),
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
