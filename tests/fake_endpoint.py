"""An OpenAI-compatible endpoint on loopback, whose answers are written beforehand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the endpoint does with one request: status, headers, body, or a way to misbehave."""

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    finish: str = "stop"
    logprobs: dict[str, float] | None = None
    delay_s: float = 0.0
    cut_after: int | None = None


Script = Callable[[dict[str, Any], int], Reply]


@dataclass
class FakeEndpoint:
    """`asked` keeps the bodies, `keys` the Authorization headers; `script` gets a body and its number."""

    script: Script
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def fake_endpoint(script: Script) -> Iterator[FakeEndpoint]:
    endpoint = FakeEndpoint(script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(endpoint))
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


def _handler(endpoint: FakeEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.asked.append(body)
            endpoint.keys.append(self.headers["Authorization"])
            reply = endpoint.script(body, len(endpoint.asked))
            time.sleep(reply.delay_s)
            streamed = body.get("stream") and reply.status == 200
            with suppress(BrokenPipeError, ConnectionResetError):  # The client may give up.
                self._stream(reply) if streamed else self._whole(body, reply)

        def _head(self, reply: Reply, kind: str) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Type": kind, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def _whole(self, body: dict[str, Any], reply: Reply) -> None:
            self._head(reply, "application/json" if not isinstance(reply.body, str) else "text/html")
            shown = reply.body if reply.body is not None else _completion(body, reply)
            raw = (
                shown
                if isinstance(shown, bytes)
                else (shown if isinstance(shown, str) else json.dumps(shown)).encode()
            )
            self.wfile.write(raw)

        def _stream(self, reply: Reply) -> None:
            self._head(reply, "text/event-stream")
            for number, word in enumerate(reply.text.split(" ")):
                if number == reply.cut_after:
                    self.wfile.write(b"data: {")
                    return
                delta = {"content": (" " if number else "") + word}
                self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, event: dict[str, Any]) -> None:
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", **event}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Says nothing: a test looks at `asked`."""

    return Handler


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    words = sum(len(message["content"].split()) for message in body["messages"])
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": reply.finish,
        "message": {"role": "assistant", "content": reply.text},
        "logprobs": None,
    }
    if reply.logprobs:
        top = [{"token": token, "logprob": value, "bytes": None} for token, value in reply.logprobs.items()]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    done = len(reply.text.split())
    usage = {"prompt_tokens": words, "completion_tokens": done, "total_tokens": words + done}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**head, "choices": [choice], "usage": usage}
