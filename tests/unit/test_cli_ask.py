"""`mrag ask`: what the command line makes of a question."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.errors import InputError
from mrag.schema import Answer
from mrag.settings import Settings


def test_filters_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def answer(_: Settings, text: str, filters: Iterable[str] = ()) -> Answer:
        asked.append((text, tuple(filters)))
        return Answer(text, "1962", (), None, None, 1, ())

    monkeypatch.setattr(cli, "answer_locally", answer)
    for options in ([], ["--filter", "year>=1960", "-f", "lang=en"]):
        result = CliRunner().invoke(cli.app, ["ask", "When?", "--json", *options])
        assert result.exit_code == 0, result.output
    assert asked == [("When?", ()), ("When?", ("year>=1960", "lang=en"))]


def test_the_generation_and_how_it_is_verified_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    async def answer(settings: Settings, text: str, filters: Iterable[str] = ()) -> Answer:
        read.append((settings.collection.generation, settings.collection.verify))
        return Answer(text, "1962", (), None, None, 1, ())

    monkeypatch.setattr(cli, "answer_locally", answer)
    for options in ([], ["--generation", "3", "--verify", "full"], ["--verify", "fast"]):
        result = CliRunner().invoke(cli.app, ["ask", "When?", "--json", *options])
        assert result.exit_code == 0, result.output
    assert read == [(None, None), (3, "full"), (None, "fast")]


async def test_a_bad_filter_is_refused_before_a_model_is_opened() -> None:
    with pytest.raises(InputError, match="must look like field=value") as raised:
        await cli.answer_locally(Settings(), "When?", ["1960"])
    assert raised.value.field == "filter"
