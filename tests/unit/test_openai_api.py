"""OpenAI's own client against the service: a true server, a true collection, a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from mrag.models.scripted import Rule
from serve.access import Key, Keyring
from tests.harbour import ALMA, ANSWER, FERRY, RULES, Harbour
from tests.served import keyring, listening

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "When was Alma built?"}]
PLACE = {"document": FERRY, "collection": "harbour", "units": "1", "quote": ALMA}
LINK = f"/#{urlencode(PLACE)}"
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
TEXT = f"{ANSWER} [1]\n\n- [1] About {FERRY} (unit 1): “{ALMA}”"


class Service:
    """A harbour that listens, and a client of it."""

    def __init__(self, harbour: Harbour, url: str, token: str = "none") -> None:
        self.harbour, self.url = harbour, url
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)

    def ask(self, messages: Any = QUESTION, model: str = "harbour:sane", **options: Any) -> Any:
        return self.client.chat.completions.create(model=model, messages=messages, **options)

    def prompt(self, purpose: str) -> str:
        request = next(one for one in self.harbour.model.asked if one.purpose == purpose)
        return request.messages[-1].content


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    harbour = Harbour(tmp_path)
    with listening(harbour.api) as url:
        yield Service(harbour, url)


def test_every_collection_and_reader_is_a_model(service: Service) -> None:
    names = [model.id for model in service.client.models.list()]
    assert names == ["harbour:sane", "harbour:plain", "quay:sane", "quay:plain"]
    for name in (*names, "sane", "plain", "quay"):
        assert service.client.models.retrieve(name).id == name


def test_an_answer_has_footnotes_annotations_and_usage(service: Service) -> None:
    reply = service.ask(
        temperature=0.1, max_tokens=9, user="x", seed=1, stop=["."], extra_body={"chat_id": "y"}
    )
    message = reply.choices[0].message
    assert (reply.object, reply.model, reply.choices[0].finish_reason) == (
        "chat.completion",
        "harbour:sane",
        "stop",
    )
    assert message.content == TEXT
    (annotation,) = message.annotations
    cited = annotation.url_citation
    assert message.content[cited.start_index : cited.end_index] == "[1]"
    assert (cited.title, cited.url) == (f"About {FERRY}", service.url + LINK)
    assert reply.usage.prompt_tokens > reply.usage.completion_tokens > 0
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_a_streamed_answer_is_the_same_in_pieces(service: Service) -> None:
    whole = service.ask()
    chunks = list(service.ask(stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert choices[0].delta.role == "assistant"
    pieces = [choice.delta.content for choice in choices if choice.delta.content]
    assert len(pieces) > 2
    assert "".join(pieces) == whole.choices[0].message.content == TEXT
    (noted,) = [choice.delta for choice in choices if (choice.delta.model_extra or {}).get("annotations")]
    assert noted.annotations == [one.model_dump() for one in whole.choices[0].message.annotations]
    assert [choice.finish_reason for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole.usage)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}


def test_a_stream_ends_as_openai_ends_it_and_has_no_usage_unless_it_is_wanted(service: Service) -> None:
    body = {"model": "sane", "messages": QUESTION, "stream": True}
    reply = httpx.post(f"{service.url}/v1/chat/completions", json=body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    assert ": extract" in lines
    assert "usage" not in reply.text


async def test_the_asynchronous_client_streams_too(service: Service) -> None:
    client = openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none")
    stream = await client.chat.completions.create(model="plain", messages=QUESTION, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text.startswith(f"{ANSWER} [1]")
    await client.close()


def test_earlier_messages_are_turns_and_what_the_system_says_is_not_followed(service: Service) -> None:
    messages = [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": "What is the Alma?"},
        {"role": "assistant", "content": "A ferry. [1]\n\n- [1] About Old boats (unit 1): “A ferry.”"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "When was"}, {"type": "text", "text": "it built?"}],
        },
    ]
    assert service.ask(messages).choices[0].message.content == TEXT
    prompt = service.prompt("answer")
    assert "When was it built? (This follows: What is the Alma? - A ferry.)" in prompt
    everything = "".join(m.content for request in service.harbour.model.asked for m in request.messages)
    assert "pirate" not in everything
    assert "(unit 1)" not in prompt


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("harbour:plain", ["answer"]),
        ("plain", ["answer"]),
        ("harbour", ["evidence", "answer"]),
        ("sane", ["evidence", "answer"]),
    ],
)
def test_a_model_chooses_the_reader(service: Service, model: str, asked: list[str]) -> None:
    service.ask(model=model)
    purposes = [request.purpose for request in service.harbour.model.asked]
    assert [purpose for purpose in purposes if purpose != "select"] == asked


def test_a_model_chooses_the_collection(service: Service) -> None:
    annotations = service.ask(model="quay:plain").choices[0].message.annotations
    assert [one.url_citation.title for one in annotations] == ["About quay"]


@pytest.mark.parametrize(
    "model", ["nowhere", "nowhere:sane", "harbour:magic", "harbour:", ":sane", "", "a:b:c"]
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_is_told_as_openai_tells_it(service: Service, model: str, stream: bool) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        service.ask(model=model, stream=stream)
    error = caught.value
    assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error")
    assert isinstance(error.body, dict)
    assert error.body["message"].endswith("lists those that there are.")
    if model:
        with pytest.raises(openai.NotFoundError):
            service.client.models.retrieve(model)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"messages": [{"role": "user", "content": [PICTURE]}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"messages": [{"role": "user", "content": "?!"}]}, "question"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_can_not_be_done_is_a_clear_400(service: Service, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        service.ask(**options)
    assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"].endswith(".")


@pytest.mark.parametrize("messages", [[], [{"role": "owner", "content": "x"}], [{"content": "x"}], None])
def test_a_body_of_another_form_is_refused(service: Service, messages: Any) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        service.ask(messages)
    assert str(caught.value.param).startswith("messages")


def test_an_answer_that_is_not_there_has_no_footnotes(tmp_path: Path) -> None:
    harbour = Harbour(tmp_path, [*RULES[:2], Rule("Unknown.", purpose="answer")])
    with listening(harbour.api) as url:
        service = Service(harbour, url)
        message = service.ask().choices[0].message
        pieces = "".join(chunk.choices[0].delta.content or "" for chunk in service.ask(stream=True))
    assert (message.content, message.annotations, pieces) == ("Unknown.", [], "Unknown.")


def test_a_generator_that_is_down_leaves_its_notes(tmp_path: Path) -> None:
    harbour = Harbour(tmp_path, [*RULES[:2], Rule(purpose="answer", error="timeout")])
    with listening(harbour.api) as url:
        service = Service(harbour, url)
        message = service.ask().choices[0].message
        pieces = "".join(chunk.choices[0].delta.content or "" for chunk in service.ask(stream=True))
    assert "the answer has no text" in message.content
    assert pieces == message.content


def test_a_stream_that_breaks_off_is_an_error_of_the_client(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr("serve.openai_chat.footnoted", broken)
    with pytest.raises(openai.APIError, match="has a fault") as caught:
        list(service.ask(stream=True))
    assert "secret" not in str(caught.value)


def test_tokens_hold_for_models_and_answers(tmp_path: Path) -> None:
    keys: Keyring = keyring(
        quay=Key("q", frozenset({"read"}), frozenset({"quay"})),
        none=Key("n", frozenset({"write"})),
        slow=Key("s", requests_per_minute=1),
    )
    harbour = Harbour(tmp_path, keys=keys)
    with listening(harbour.api) as url:
        quay, none, slow = (Service(harbour, url, token) for token in ("quay", "none", "slow"))
        assert [model.id for model in quay.client.models.list()] == ["quay:sane", "quay:plain"]
        with pytest.raises(openai.NotFoundError) as forbidden:
            quay.ask(model="harbour:sane")
        with pytest.raises(openai.NotFoundError) as missing:
            quay.ask(model="nowhere:sane")
        assert str(forbidden.value).replace("harbour", "nowhere") == str(missing.value)
        with pytest.raises(openai.PermissionDeniedError):
            none.ask()
        with pytest.raises(openai.AuthenticationError) as wrong:
            Service(harbour, url, "wrong").ask()
        assert (wrong.value.type, wrong.value.code) == ("authentication_error", "unauthorized")
        slow.client.models.list()
        with pytest.raises(openai.RateLimitError) as often:
            slow.client.models.list()
        assert int(often.value.response.headers["retry-after"]) > 0


def test_links_may_have_an_address_of_their_own(tmp_path: Path) -> None:
    harbour = Harbour(tmp_path, serve={"public_url": "https://docs.example/mrag/"})
    with listening(harbour.api) as url:
        (annotation,) = Service(harbour, url).ask().choices[0].message.annotations
    assert annotation.url_citation.url == f"https://docs.example/mrag{LINK}"


async def test_the_openapi_page_tells_replies_and_errors_of_these_routes(tmp_path: Path) -> None:
    document = Harbour(tmp_path).api.openapi()
    for path, method, reply in (
        ("/v1/chat/completions", "post", "ChatCompletion"),
        ("/v1/models", "get", "Models"),
        ("/v1/models/{model}", "get", "Model"),
    ):
        responses = document["paths"][path][method]["responses"]
        schemas = {
            status: told["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
            for status, told in responses.items()
        }
        assert schemas.pop("200") == reply
        assert set(schemas.values()) == {"OpenAIErrorBody"}
        assert {"401", "403", "429", "500", "503"} <= set(schemas)
