"""One line of JSON for each request, and its metrics; what was asked is not in it unless that is wanted."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrag.query.pipeline import Evidence
from mrag.query.question import Question
from mrag.schema import Answer, Pool, Usage, Verdict
from serve.metrics import Meters, outcome_of
from serve.tracing import end_request, request_span

LOGGER = "mrag.requests"
REQUEST_ID = "x-request-id"
LEFT = 499  # the caller did not wait for the reply; no such status is ever sent


class RequestLog:
    """Around the whole application: every request ends in one line, however it ends."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app = app
        self._meters = meters
        self._log = _logger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, with an id in its reply's headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = uuid.uuid4().hex
        line: dict[str, Any] = {"request": state["request_id"], "method": scope["method"], "status": 500}
        started = time.monotonic()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                line["status"] = message["status"]
                header = (REQUEST_ID.encode(), line["request"].encode())
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        with request_span(scope["headers"]) as span:
            try:
                await self._app(scope, receive, sent)
            except asyncio.CancelledError:
                line["status"] = LEFT
                raise
            finally:
                end_request(span, self._end(line, scope, state, time.monotonic() - started))

    def _end(
        self, line: dict[str, Any], scope: Scope, state: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        route = _route(scope)
        self._meters.requested(line["method"], route, line["status"], seconds)
        told = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **line}
        told |= {"route": route, "seconds": round(seconds, 4)}
        if visitor := state.get("visitor"):
            told |= {"token": visitor.key.name, **visitor.told}
        self._log.info("%s", json.dumps(told))
        return told


def told_of(question: Question, result: Pool | Evidence | Answer, with_question: bool) -> dict[str, Any]:
    """What the line says of a question; its text only where that is wanted."""
    told: dict[str, Any] = {"collection": question.collection, "generation": result.generation}
    if with_question:
        told["question"] = question.text
    if isinstance(result, Pool):
        return {**told, "candidates": len(result.candidates)}
    used = sum((stage.usage for stage in result.trace), Usage())
    rows = result.evidence.rows if result.evidence else ()
    told |= {
        "reader": question.reader.name,
        "stages": {stage.stage: round(stage.seconds, 4) for stage in result.trace},
        "tokens_in": used.prompt_tokens,
        "tokens_out": used.completion_tokens,
        "rows": len(rows),
        "verified": sum(row.verdict is Verdict.VERIFIED for row in rows),
    }
    return {**told, "outcome": outcome_of(result)} if isinstance(result, Answer) else told


def _route(scope: Scope) -> str:
    """The path with its parameters' names in place of them; `other` where there is none."""
    if route := scope.get("route"):
        return str(route.path)
    return str(scope["path"]) if "endpoint" in scope and not scope.get("path_params") else "other"


def _logger() -> logging.Logger:
    """One that writes lines to standard error, whatever else logs in this process."""
    log = logging.getLogger(LOGGER)
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(logging.INFO)
    return log
