"""The language-model seam: a request is a value, a model completes it.

Retries of a bad reply, coverage rounds and concurrency are coroutines above this seam.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mrag.errors import ModelError
from mrag.schema import Usage


@dataclass(frozen=True)
class Message:
    """One turn of a chat, as chat templates know it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Request:
    """One call. `purpose` names the stage for traces and scripted replies; no engine sees it.

    `schema` is a JSON schema that the reply must follow where the engine can enforce it.
    `timeout_s` counts from the call; None leaves the model's own default in force.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    purpose: str
    schema: Mapping[str, Any] | None = None
    temperature: float = 0.0
    seed: int = 0
    timeout_s: float | None = None


@dataclass(frozen=True)
class Completion:
    """A reply. `finish` is `length` when it was cut at `max_tokens`."""

    text: str
    usage: Usage
    finish: Literal["stop", "length"] = "stop"


@dataclass(frozen=True)
class Choice:
    """Log-probability of each label as the next token, in the order asked, and what it cost to know."""

    logprobs: Mapping[str, float]
    usage: Usage


@dataclass(frozen=True)
class Likelihood:
    """Log-probability of a given reply, all of its tokens together, and what it cost to know."""

    logprob: float
    usage: Usage


def paid(error: ModelError) -> Usage:
    """What a call cost that ended in this error: nothing where no reply came."""
    return Usage(1, *error.tokens) if any(error.tokens) else Usage()


class LanguageModel(Protocol):
    """What offline extraction and online reading both talk to.

    Every call raises PromptTooLongError when prompt and `max_tokens` exceed `window_tokens`,
    ModelTimeoutError at the deadline, EngineDeadError when the engine is gone, EmptyReplyError
    for a reply of white space (`complete`: or of a monologue alone), and ModelError for the rest.
    """

    @property
    def name(self) -> str:
        """The model's identity for fingerprints: name and revision."""

    @property
    def window_tokens(self) -> int:
        """The most tokens that prompt and reply may have together."""

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request."""

    def stream(self, request: Request) -> AsyncIterator[str]:
        """The reply in pieces, in order; joined they are the text of `complete`."""

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """The next token among `labels`; NoLogprobsError where the engine can't weigh them."""

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely this `reply` is; NoLogprobsError where the engine can't tell. Nothing is generated."""

    def count_tokens(self, text: str) -> int:
        """Tokens of bare `text`, as this model counts them."""

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered chat, the template's own included."""

    async def close(self) -> None:
        """Gives engine, connections and memory back; the model can't be used afterwards."""
