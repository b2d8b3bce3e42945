"""Requests and replies as OpenAI's clients spell them: as much of them as means something here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

IGNORED = (
    "What else clients send (`temperature`, `top_p`, `max_tokens`, `seed`, `stop`, `user`, `tools` and more) "
    "is accepted and has no effect: the evidence decides what is said."
)


class Part(BaseModel):
    """A part of a message's content; only text can be read."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """One message; those of `system`, `developer` and tools are passed over."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None


class StreamOptions(BaseModel):
    """What a stream ends with."""

    include_usage: bool | None = Field(None, description="Send the usage in a last chunk of its own.")


class ResponseFormat(BaseModel):
    """The form of the answer: text."""

    type: str


class ChatBody(BaseModel):
    """A conversation that ends with a question."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"description": IGNORED})

    model: str = Field(
        description="`collection:reader`, as `/v1/models` lists them.", examples=["default:sane"]
    )
    messages: list[Message] = Field(min_length=1, description="The last of the user's is the question.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, description="One answer is given; no other number is accepted.")
    response_format: ResponseFormat | None = None


# --------------------------------------------------------------------------- replies


class UrlCitation(BaseModel):
    """Where the mark at [start_index, end_index) of the content leads."""

    start_index: int
    end_index: int
    title: str
    url: str


class Annotation(BaseModel):
    """A citation."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class Reply(BaseModel):
    """The answer, with its footnotes."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: list[Annotation]


class Choice(BaseModel):
    """The one answer."""

    index: Literal[0] = 0
    message: Reply
    logprobs: None = None
    finish_reason: Literal["stop"] = "stop"


class TokenUsage(BaseModel):
    """What all stages asked of the language models, in their own tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """An answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: TokenUsage


class Model(BaseModel):
    """One collection, read by one reader."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["mrag"] = "mrag"


class Models(BaseModel):
    """Those that the caller may ask."""

    object: Literal["list"] = "list"
    data: list[Model]


def chunk(about: dict[str, Any], delta: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """A piece of a streamed answer; without a `delta` one that has no choices. `more` lies over all."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": more.pop("finish_reason", None)}
    choices = [] if delta is None else [choice]
    return {**about, "object": "chat.completion.chunk", "choices": choices, **more}
