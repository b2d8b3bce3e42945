"""The engine behind a Serve handle: what is asked and answered travels, also through the stage of selection.

The handles are fakes that pickle whatever passes, as Ray does; no Ray is started.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from mrag.errors import MragError, NoLogprobsError
from mrag.models.language_model import Message, Request
from mrag.models.scripted import ScriptedModel
from mrag.query.select import Selection
from mrag.schema import Usage
from mrag.settings import SaneReader, Settings, parse_settings
from serve.calls import call
from serve.deployments import LanguageModelDeployment, SelectorDeployment
from serve.remote_models import RemoteLanguageModel
from tests.query_pool import candidate, pool

SIX = pool(*(candidate(f"Pier {n}.", f"doc-{n}") for n in range(1, 7)))
REQUEST = Request((Message("user", "Which letter?"),), 1, "select")


def travelled(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))


class Method:
    """A method of a deployment, called as Ray calls it: its arguments, results and errors are copies."""

    def __init__(self, method: Any) -> None:
        self._method = method

    async def remote(self, *arguments: Any) -> Any:
        try:
            return travelled(await self._method(*travelled(arguments)))
        except MragError as error:
            raise travelled(error) from None


class Handle:
    """A handle of a deployment that lives in this process."""

    def __init__(self, deployment: Any) -> None:
        self._deployment = deployment

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self._deployment, name))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    rules = [
        {"reply": "Yes", "purpose": "select", "contains": ["doc-5", "<candidate>"]},
        {"reply": "No", "purpose": "select", "contains": ["<candidate>"]},
        {"reply": {"F": -0.1, "E": -2.0}, "purpose": "select", "contains": ["[A] doc-1"]},
        {"reply": {"B": -0.1}, "contains": ["Which letter?"]},
    ]
    file = tmp_path / "replies.jsonl"
    file.write_text("\n".join(map(json.dumps, rules)), "utf-8")
    return parse_settings({"language_model": {"engine": "scripted", "replies": str(file)}})


async def opened(deployment: type, *arguments: Any) -> Any:
    """Ray awaits the constructor of a deployment."""
    one = deployment.__new__(deployment)
    await one.__init__(*arguments)
    return one


async def test_labels_are_weighed_on_the_other_side(settings: Settings) -> None:
    model = RemoteLanguageModel(
        Handle(await opened(LanguageModelDeployment, settings.language_model)), counter=ScriptedModel([])
    )
    choice = await model.choose(REQUEST, ["A", "B"])
    assert list(choice.logprobs) == ["A", "B"]
    assert max(choice.logprobs, key=choice.logprobs.__getitem__) == "B"
    assert choice.usage == Usage(1, 2, 1)


async def test_an_engine_that_can_not_weigh_them_is_known_as_such() -> None:
    class Deployment:
        async def choose(self, request: Request, labels: tuple[str, ...]) -> None:
            error = NoLogprobsError("It gives no log-probabilities.")
            error.tokens = (7, 1)
            raise error

    model = RemoteLanguageModel(Handle(Deployment()), counter=ScriptedModel([]))
    with pytest.raises(NoLogprobsError) as caught:
        await model.choose(REQUEST, ["A", "B"])
    assert caught.value.tokens == (7, 1)


@pytest.mark.parametrize(("form", "chosen", "calls"), [("labels", 6, 1), ("each", 5, 6)])
async def test_a_selector_asks_the_engine_in_any_form(
    settings: Settings, form: str, chosen: int, calls: int
) -> None:
    engine = Handle(await opened(LanguageModelDeployment, settings.language_model))
    selector = Handle(await opened(SelectorDeployment, settings, engine))
    reader = SaneReader(k=1, select=form, rank_weight=0)  # type: ignore[arg-type]
    selection: Selection = await call(selector.select, "Which pier?", SIX, reader, 30.0)
    assert selection.candidates == (SIX.candidates[chosen - 1],)
    assert selection.usage.calls == calls
