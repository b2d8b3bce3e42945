"""An S3 server on loopback, and a line to it that can be cut."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """Its host and port. Moto looks at a condition first and writes then: here nobody comes between."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    app, one = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def serve(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        with one:
            return list(app(environ, start))

    server = make_server("127.0.0.1", 0, serve, threaded=True, request_handler=Quiet)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def new_root(host: str, parameters: str = "") -> Path:
    """The address of a prefix in a new bucket."""
    bucket = f"b-{secrets.token_hex(6)}"
    httpx.put(f"http://{host}/{bucket}").raise_for_status()
    query = f"region=us-east-1&scheme=http&endpoint_override={host}{parameters}"
    return Path(f"s3://{bucket}/pre/fix?{query}")


def through(root: Path, host: str, proxy: Proxy) -> Path:
    """The same by way of the proxy."""
    return Path(str(root).replace(host, proxy.host))


# --------------------------------------------------------------------------- a line that is cut


@dataclass
class Cut:
    """The connection on which these bytes are sent ends `after` so many of what follows, so many `times`.

    `up`: what is sent, they included; `down`: what comes back.
    """

    seen: bytes
    way: str = "up"
    after: int = 0
    times: int = 1


@dataclass
class _Line:
    client: socket.socket
    server: socket.socket
    left: dict[str, int] = field(default_factory=dict)

    def end(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Passes bytes on to a server, and cuts where it is told to."""

    def __init__(self, server: str) -> None:
        host, port = server.split(":")
        self._server = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts: list[Cut] = []
        self.changed: dict[bytes, bytes] = {}  # of what is sent
        self._turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # Wakes the thread that waits for a client.
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            line = _Line(client, socket.create_connection(self._server))
            for way in ("up", "down"):
                threading.Thread(target=self._pass, args=(line, way), daemon=True).start()

    def _pass(self, line: _Line, way: str) -> None:
        source, target = (line.client, line.server) if way == "up" else (line.server, line.client)
        try:
            while content := source.recv(1 << 16):
                if way == "up":
                    self._look(line, content)
                    for one, other in self.changed.items():
                        content = content.replace(one, other)
                if way in line.left:
                    content = content[: line.left[way]]
                    line.left[way] -= len(content)
                target.sendall(content)
                if line.left.get(way, 1) <= 0:
                    break
        except OSError:
            pass
        line.end()

    def _look(self, line: _Line, content: bytes) -> None:
        with self._turn:
            for cut in self.cuts:
                if cut.times and cut.seen in content:
                    cut.times -= 1
                    line.left[cut.way] = cut.after
                    return


@contextmanager
def proxy_to(server: str) -> Iterator[Proxy]:
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()


def environment(home: Path) -> dict[str, str]:
    """What a process of another machine has."""
    return {**os.environ, "MRAG_HOME": str(home)}
