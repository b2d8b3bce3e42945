"""A language model whose replies are written beforehand: for tests and rehearsals."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from mrag.errors import (
    EmptyReplyError,
    EngineDeadError,
    ModelError,
    ModelTimeoutError,
    RefusedError,
    SettingsError,
)
from mrag.models.language_model import Choice, Completion, Likelihood, Message, Request
from mrag.models.skeleton import ModelSkeleton
from mrag.schema import Usage
from mrag.settings import ScriptedSettings

ERRORS: Mapping[str, type[ModelError]] = {
    "timeout": ModelTimeoutError,
    "dead": EngineDeadError,
    "empty": EmptyReplyError,
    "refused": RefusedError,
}
UNLIKELY = -20.0


@checked_dataclass(frozen=True, config={"extra": "forbid"})
class Rule:
    """One scripted reply, used for requests of `purpose` (None: any) that contain every string.

    `reply` is text, or a JSON value that is sent as its text. For `choose` it is one of the labels,
    or a mapping of labels to log-probabilities; for `likelihood` a number. `times` bounds how often the
    rule is used, so that a second one can answer the same prompt differently. `error` is raised in place
    of a reply.
    """

    reply: Any = None
    purpose: str | None = None
    contains: tuple[str, ...] = ()
    finish: Literal["stop", "length"] = "stop"
    error: Literal["timeout", "dead", "empty", "refused"] | None = None
    times: int | None = None
    delay_s: float = 0.0

    def fits(self, request: Request) -> bool:
        """Whether the rule answers this request."""
        prompt = prompt_of(request)
        return self.purpose in (None, request.purpose) and all(part in prompt for part in self.contains)


Replier = Callable[[Request], Any]


def prompt_of(request: Request) -> str:
    """The contents of all messages, one after the other, as rules look at them."""
    return "\n".join(message.content for message in request.messages)


class ScriptedModel(ModelSkeleton):
    """Answers by the first rule that fits, or by a callable; fails loudly where nothing does.

    A callable gets the request and returns what `Rule.reply` may be, a `Rule` or a `Completion`; an
    error that it raises goes to the caller, as a ModelError where it is none of mrag's.
    `asked` keeps every request in the order of the calls; a model from settings keeps none, since a job makes
    millions.
    Tokens are words between white space.
    """

    def __init__(
        self,
        replies: Iterable[Rule] | Replier,
        *,
        window_tokens: int = 8192,
        max_concurrency: int = 16,
        timeout_s: float = 60.0,
        name: str = "scripted",
        keep_asked: bool = True,
    ) -> None:
        super().__init__(window_tokens, max_concurrency, timeout_s)
        self._name = name
        self._script = replies if callable(replies) else _Script(tuple(replies))
        self._keep_asked = keep_asked
        self.asked: list[Request] = []

    @classmethod
    def from_settings(cls, settings: ScriptedSettings) -> ScriptedModel:
        """The model of a JSONL file of rules; raises SettingsError, naming the line at fault."""
        return cls(
            read_rules(settings.replies),
            window_tokens=settings.window_tokens,
            max_concurrency=settings.max_concurrency,
            name=f"scripted:{settings.replies.name}",
            keep_asked=False,
        )

    @property
    def name(self) -> str:
        """`scripted`, with the file's name where the replies come from one."""
        return self._name

    def count_tokens(self, text: str) -> int:
        """Number of words of `text`."""
        return len(text.split())

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Number of words of all messages; the template has none of its own."""
        return sum(self.count_tokens(message.content) for message in messages)

    async def _complete(self, request: Request) -> Completion:
        rule = await self._rule(request)
        if isinstance(rule, Completion):
            return rule
        text = rule.reply if isinstance(rule.reply, str) else json.dumps(rule.reply, ensure_ascii=False)
        usage = Usage(1, self.count_prompt_tokens(request.messages), self.count_tokens(text))
        return Completion(text, usage, rule.finish)

    async def _pieces(self, request: Request) -> AsyncGenerator[str, None]:
        completion = await self._complete(request)
        for piece in re.findall(r"\S+\s*|^\s+", completion.text):
            yield piece

    async def _choose(self, request: Request, labels: Sequence[str]) -> Choice:
        rule = await self._rule(request)
        reply = rule.text if isinstance(rule, Completion) else rule.reply
        given = reply if isinstance(reply, Mapping) else {reply: 0.0}
        if unknown := set(given) - set(labels):
            raise ModelError(f"The script for {request.purpose} names labels that were not asked: {unknown}.")
        logprobs = {label: float(given.get(label, UNLIKELY)) for label in labels}
        return Choice(logprobs, Usage(1, self.count_prompt_tokens(request.messages), 1))

    async def _likelihood(self, request: Request, reply: str) -> Likelihood:
        rule = await self._rule(request)
        told = rule.text if isinstance(rule, Completion) else rule.reply
        tokens = self.count_prompt_tokens(request.messages) + self.count_tokens(reply)
        return Likelihood(float(told), Usage(1, tokens, 1))

    async def _rule(self, request: Request) -> Rule | Completion:
        if self._keep_asked:
            self.asked.append(request)
        found = self._script(request)
        if isinstance(found, Completion):
            return found
        rule = found if isinstance(found, Rule) else Rule(reply=found)
        await asyncio.sleep(rule.delay_s)
        if rule.error:
            raise ERRORS[rule.error](f"{self.name} was told to fail at {request.purpose} ({rule.error}).")
        return rule


@dataclass
class _Script:
    """Rules in order, and how often each was used."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        self.used = [0] * len(self.rules)

    def __call__(self, request: Request) -> Rule:
        for i, rule in enumerate(self.rules):
            if rule.fits(request) and (rule.times is None or self.used[i] < rule.times):
                self.used[i] += 1
                return rule
        raise ModelError(
            f"No scripted reply for {request.purpose!r}, whose prompt begins "
            f"{prompt_of(request)[:200]!r}: add a rule."
        )


def read_rules(file: Path) -> list[Rule]:
    """One rule a line, as JSON objects with the fields of `Rule`; blank lines are passed over."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Can't read the scripted replies {file}: {error}.") from None
    return [_rule(f"{file}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _rule(place: str, line: str) -> Rule:
    try:
        return TypeAdapter(Rule).validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(map(str, fault["loc"]))
        raise SettingsError(f"{place} is no scripted reply: {path} {fault['msg']}.") from None
