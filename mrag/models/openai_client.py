"""The language model behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from mrag.errors import (
    ModelError,
    ModelTimeoutError,
    NoLogprobsError,
    PromptTooLongError,
    RefusedError,
)
from mrag.models.chat import ChatTokenizer
from mrag.models.language_model import Choice, Completion, Message, Request
from mrag.models.retrying import Rate, Retries
from mrag.models.skeleton import ModelSkeleton, final
from mrag.models.tokens import ByteTokenizer, without_surrogates
from mrag.models.weights import ensure_tokenizer
from mrag.schema import Usage
from mrag.settings import OpenAISettings

# More than the templates in use add around a message, and around a chat with its own system prompt.
MESSAGE_TOKENS = 16
CHAT_TOKENS = 64
TOP_LOGPROBS = 20
NO_KEY = "none"
# How endpoints say that it is the text which they will not have, and not the request.
FILTERED = "content_filter"
_FILTERED_CODES = frozenset((FILTERED, "content_policy_violation", "data_inspection_failed"))
_FILTERED_TEXT = re.compile(r"content management policy|content exists risk", re.IGNORECASE)


class OpenAIModel(ModelSkeleton):
    """`LanguageModel` over the official client; what a busy or failing endpoint refused is asked again.

    Waiting is what the endpoint asks for (Retry-After), or grows (`Retries`). All tries together end at a
    request's own deadline. Rates in the settings are kept before a request's turn. The key is in no error
    and no log.
    """

    def __init__(self, settings: OpenAISettings) -> None:
        from openai import AsyncOpenAI

        super().__init__(
            settings.window_tokens, settings.max_concurrency, settings.timeout_s + settings.max_wait_s
        )
        self.settings = settings
        self._key = os.environ.get(settings.api_key_env) or NO_KEY
        self._place = re.sub(r"//[^/@]*@", "//", settings.base_url)
        self._bytes = ByteTokenizer()
        self._chat: ChatTokenizer | None = None
        self._client = AsyncOpenAI(
            api_key=self._key,
            base_url=settings.base_url,
            timeout=settings.timeout_s,
            max_retries=0,
        )
        self._retries = Retries(settings.max_retries, settings.max_wait_s)
        self._requests, self._tokens = (
            Rate(rate) if rate else None
            for rate in (settings.requests_per_minute, settings.tokens_per_minute)
        )

    async def load(self) -> None:
        """Fetches the tokenizer where one is named. Raises ModelError."""
        if self.settings.tokenizer and self._chat is None:
            folder = await asyncio.to_thread(ensure_tokenizer, self.settings.tokenizer)
            self._chat = ChatTokenizer(folder)

    @property
    def name(self) -> str:
        """The model and its endpoint, which is all that is known of its revision."""
        return f"{self.settings.model}@{self._place}"

    def count_tokens(self, text: str) -> int:
        """Tokens of the tokenizer in the settings, or UTF-8 bytes."""
        tokenizer = self._chat.plain if self._chat else self._bytes
        return tokenizer.count(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """The same of a chat; without a tokenizer its template is taken to be long."""
        if self._chat:
            return len(self._chat.prompt_ids(messages))
        return CHAT_TOKENS + sum(MESSAGE_TOKENS + self.count_tokens(message.content) for message in messages)

    async def close(self) -> None:
        """Closes the connections."""
        await super().close()
        await self._client.close()

    async def _complete(self, request: Request) -> Completion:
        reply = await self._create(request, **self._limits(request))
        choice = self._first_choice(reply)
        usage = self._usage(request, reply)
        self._check_finish(request, choice.finish_reason, usage)
        if self._tokens:
            self._tokens.correct(self._most_tokens(request), usage.tokens)
        return Completion(choice.message.content or "", usage, choice.finish_reason)

    async def _pieces(self, request: Request) -> AsyncGenerator[str, None]:
        chunks = await self._create(request, stream=True, **self._limits(request))
        finish = None
        with self._refusals(request):
            async with chunks:
                async for chunk in chunks:
                    for choice in chunk.choices[:1]:
                        finish = choice.finish_reason or finish
                        yield choice.delta.content or ""
        self._check_finish(request, finish)

    async def _choose(self, request: Request, labels: Sequence[str]) -> Choice:
        reply = await self._create(
            request, **self._limit(1), temperature=0.0, logprobs=True, top_logprobs=TOP_LOGPROBS
        )
        given = self._first_choice(reply).logprobs
        usage = self._usage(request, reply)
        try:
            return Choice(label_logprobs(self._top(given), labels), usage)
        except ModelError as error:
            error.tokens = (usage.prompt_tokens, usage.completion_tokens)
            raise

    def _top(self, logprobs: Any) -> list[tuple[str, float]]:
        """The likeliest first tokens of a reply."""
        if not logprobs or not logprobs.content or not logprobs.content[0].top_logprobs:
            raise NoLogprobsError(f"{self.name} gives no log-probabilities: use a selection that needs none.")
        return [(entry.token.strip(), entry.logprob) for entry in logprobs.content[0].top_logprobs]

    async def _create(self, request: Request, **options: Any) -> Any:
        messages: list[Any] = [
            {"role": message.role, "content": without_surrogates(message.content)}
            for message in request.messages
        ]
        with self._refusals(request):
            return await self._asked(
                lambda: self._client.chat.completions.create(
                    model=self.settings.model, messages=messages, **options
                )
            )

    async def _asked(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Again and again, as long as that may help."""
        import openai

        tried, waited_s = 0, 0.0
        while True:
            try:
                async with asyncio.timeout(self.settings.timeout_s):
                    return await ask()
            except openai.APITimeoutError:
                raise
            except openai.APIConnectionError:
                wait_s = self._retries.wait_s(None, {}, tried, waited_s)
                if wait_s is None:
                    raise
            except openai.APIStatusError as error:
                wait_s = self._retries.wait_s(error.status_code, error.response.headers, tried, waited_s)
                if wait_s is None:
                    raise
            await asyncio.sleep(wait_s)
            tried, waited_s = tried + 1, waited_s + wait_s

    async def _wait_for_room(self, request: Request) -> None:
        if self._requests:
            await self._requests.take(1)
        if self._tokens:
            await self._tokens.take(self._most_tokens(request))

    def _most_tokens(self, request: Request) -> int:
        return self.count_prompt_tokens(request.messages) + request.max_tokens

    def _limits(self, request: Request) -> dict[str, Any]:
        limits = {**self._limit(request.max_tokens), "temperature": request.temperature}
        if request.temperature > 0:
            limits["seed"] = request.seed
        if request.schema is not None and self.settings.structured_output:
            limits["response_format"] = response_format(request.purpose, request.schema)
        return limits

    def _limit(self, tokens: int) -> dict[str, Any]:
        """The most tokens of a reply, under the name that the endpoint knows."""
        return {self.settings.token_limit: tokens}

    def _check_finish(self, request: Request, finish: str | None, paid: Usage | None = None) -> None:
        """A stream that breaks off has no reason for its end: the client itself passes over that."""
        if finish is None:
            raise ModelError(f"The reply of {self.name} to {request.purpose} broke off: ask again.")
        if finish == FILTERED:
            refused = self._filtered(request, f"its reply ended as {FILTERED}")
            refused.tokens = (paid.prompt_tokens, paid.completion_tokens) if paid else (0, 0)
            raise refused
        if finish not in ("stop", "length"):
            raise final(f"{self.name} did not finish {request.purpose} ({finish}).")

    def _first_choice(self, reply: Any) -> Any:
        choices = getattr(reply, "choices", None)
        if not choices:
            raise ModelError(f"{self._place} does not answer as an OpenAI endpoint does: look at base_url.")
        return choices[0]

    def _usage(self, request: Request, reply: Any) -> Usage:
        """As the endpoint counts, or as we do where it does not."""
        if reply.usage:
            return Usage(1, reply.usage.prompt_tokens, reply.usage.completion_tokens)
        text = reply.choices[0].message.content or ""
        return Usage(1, self.count_prompt_tokens(request.messages), self.count_tokens(text))

    @contextlib.contextmanager
    def _refusals(self, request: Request) -> Iterator[None]:
        import httpx2
        import openai

        try:
            yield
        except (openai.APITimeoutError, TimeoutError):
            raise ModelTimeoutError(f"{self.name} did not answer {request.purpose} in time.") from None
        except openai.APIStatusError as error:
            said = self._said(error)
            if error.status_code in (400, 422) and is_filtered(error):
                raise self._filtered(request, said) from None
            raise self._refusal(request, error.status_code, said) from None
        except (openai.APIError, httpx2.HTTPError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ModelError(
                f"The connection to {self._place} failed at {request.purpose} ({self._said(error)}): "
                "see that the endpoint is up and base_url is right."
            ) from None

    def _filtered(self, request: Request, said: str) -> RefusedError:
        return RefusedError(f"{self.name} will not have the text of {request.purpose}: {said}.")

    def _refusal(self, request: Request, status: int, said: str) -> ModelError:
        """One sentence for a status; what the endpoint said of a key is left out, for it may repeat it."""
        variable = self.settings.api_key_env
        match status:
            case 401 | 403:
                return final(
                    f"{self._place} refuses the key ({status}): set {variable} to one that it takes."
                )
            case 404:
                return final(f"{self._place} has no model {self.settings.model!r} there (404): {said}.")
            case 400 | 422 if re.search(r"context.length|maximum context|too long", said, re.IGNORECASE):
                return PromptTooLongError(
                    f"{self.name} finds {request.purpose} too long for its window: {said}."
                )
            case 400 | 422 if "logprob" in said.lower():
                return NoLogprobsError(f"{self.name} refuses log-probabilities ({status}): {said}.")
            case 400 | 422:
                return final(f"{self.name} refuses the request of {request.purpose} ({status}): {said}.")
        return ModelError(f"{self.name} still answers {status} after every retry: {said}.")

    def _said(self, error: Exception) -> str:
        said = " ".join(str(error).split())
        blotted = said if self._key == NO_KEY else said.replace(self._key, "***")
        return blotted[:300].rstrip(".")


def is_filtered(error: Any) -> bool:
    """Whether a status says that a filter of contents stopped the text, by its code or by known words."""
    return bool({str(error.code), str(error.type)} & _FILTERED_CODES or _FILTERED_TEXT.search(str(error)))


def response_format(purpose: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The request's schema as the endpoint wants it; strict where the schema is closed throughout."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", purpose)[:64] or "reply"
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": dict(schema), "strict": is_closed(schema)},
    }


def is_closed(schema: Any) -> bool:
    """Whether every object requires all its properties and allows no others, as strict mode demands."""
    if isinstance(schema, Mapping):
        names = set(schema.get("properties", ()))
        if schema.get("type") == "object" and (
            schema.get("additionalProperties") is not False or set(schema.get("required", ())) != names
        ):
            return False
        return all(map(is_closed, schema.values()))
    return all(map(is_closed, schema)) if isinstance(schema, list | tuple) else True


def label_logprobs(top: Sequence[tuple[str, float]], labels: Sequence[str]) -> dict[str, float]:
    """Log-probabilities among `labels` alone, from the likeliest tokens of any kind.

    A label that is not among these is at most as likely as the last of them, and is taken to be so.
    """
    if not {token for token, _ in top} & set(labels):
        raise ModelError(
            f"None of the labels is among the {len(top)} likeliest tokens: ask again more clearly."
        )
    last = min(logprob for _, logprob in top)
    weights = {
        label: sum(math.exp(logprob) for token, logprob in top if token == label) or math.exp(last)
        for label in labels
    }
    total = sum(weights.values())
    return {label: math.log(weight / total) for label, weight in weights.items()}
