"""Who may: tokens of the settings, of a file and of the environment, their scopes and rates."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import Request
from typer.testing import CliRunner

from mrag.cli import app
from mrag.errors import SettingsError
from mrag.settings import parse_settings, token_hash
from serve.access import ALL_SCOPES, Guard, Key, Keyring, keyring_of
from serve.callers import caller_of
from serve.rates import Buckets
from tests.served import client, keyring, served

READ = {"name": "reader", "sha256": token_hash("r")}
ADMIN = {"name": "admin", "sha256": token_hash("a"), "scopes": ["read", "admin"], "collections": ["x"]}


def asking(host: str = "10.0.0.9", *passed: str) -> Request:
    headers = [(b"host", b"localhost"), *((b"x-forwarded-for", line.encode()) for line in passed)]
    return Request({"type": "http", "client": (host, 1), "headers": headers})


def bearing(token: str | None, request: Request) -> Request:
    """The same request with a token."""
    own = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return Request({**request.scope, "headers": [*request.scope["headers"], *own]})


@pytest.mark.parametrize("listed", [{**READ, "name": "A_TOKEN"}, {**READ, "sha256": token_hash("e")}])
def test_the_token_of_the_environment_has_a_name_of_its_own(
    listed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "e")
    with pytest.raises(SettingsError, match="one name or hash"):
        keyring_of(parse_settings({"serve": {"tokens": [listed], "token_env": "A_TOKEN"}}))


def test_tokens_come_from_the_settings_a_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokens.yaml").write_text(json.dumps([{**ADMIN, "requests_per_minute": 5}]))
    monkeypatch.setenv("A_TOKEN", "e")
    serve = {"tokens": [READ], "tokens_file": tmp_path / "tokens.yaml", "token_env": "A_TOKEN"}
    found = keyring_of(parse_settings({"serve": {**serve, "requests_per_minute": 60, "host": "0.0.0.0"}}))
    assert found.keys == {
        token_hash("r"): Key("reader", frozenset({"read"}), None, 60),
        token_hash("a"): Key("admin", frozenset({"read", "admin"}), frozenset({"x"}), 5),
        token_hash("e"): Key("A_TOKEN", ALL_SCOPES, None, 60),
    }


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (None, "Can't read serve.tokens_file"),
        ("", "must be a list"),
        ("a: 1", "must be a list"),
        ("[]", "holds no token"),
        ("- {name: x}", "token 1.sha256"),
        ("- {name: x, sha256: abc}", "token 1.sha256"),
        (f"- {{name: x, sha256: {token_hash('x')}, scopes: [root]}}", "scopes"),
        (f"- {{name: x, sha256: {token_hash('x')}, token: y}}", "token 1.token"),
        (f"- {{name: reader, sha256: {token_hash('x')}}}", "one name or hash"),
        (f"- {{name: x, sha256: {token_hash('r')}}}", "one name or hash"),
        ("- {", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_list_of_tokens_is_refused(tmp_path: Path, text: str | None, refusal: str) -> None:
    path = tmp_path / "tokens.yaml"
    if text is not None:
        path.write_text(text)
    tokens = [] if text == "[]" else [READ]
    with pytest.raises(SettingsError, match=refusal) as caught:
        keyring_of(parse_settings({"serve": {"tokens": tokens, "tokens_file": path}}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tokens", [[READ, {**ADMIN, "name": "reader"}], [READ, {**READ, "name": "x"}]])
def test_a_token_stands_once(tokens: list[dict[str, str]]) -> None:
    with pytest.raises(SettingsError, match="twice"):
        parse_settings({"serve": {"tokens": tokens}})


@pytest.mark.parametrize(
    ("serve", "refused"), [({}, True), ({"tokens": [READ]}, False), ({"tokens_file": "t.yaml"}, False)]
)
def test_an_open_address_needs_a_token(serve: dict[str, object], refused: bool) -> None:
    tree = {"serve": {"host": "0.0.0.0", **serve}}
    if refused:
        with pytest.raises(SettingsError, match="mrag token"):
            parse_settings(tree)
    else:
        parse_settings(tree)


def test_a_token_that_was_made_opens_the_door() -> None:
    made = CliRunner().invoke(app, ["token", "chat", "--collection", "docs", "--scope", "read"])
    assert made.exit_code == 0
    line = json.loads(made.stderr[made.stderr.index("{") :])
    assert made.stdout.strip() not in made.stderr
    found = keyring_of(parse_settings({"serve": {"tokens": [line]}}))
    visitor = Guard(found).admit(bearing(made.stdout.strip(), asking()), "read")
    assert visitor.key == Key("chat", frozenset({"read"}), frozenset({"docs"}))
    assert CliRunner().invoke(app, ["token", "chat", "--scope", "root"]).exit_code != 0


@pytest.mark.parametrize(
    ("token", "scope", "status"),
    [(None, "read", 401), ("x", "read", 401), ("t", "write", 403), ("", "read", 401)],
)
def test_a_wrong_token_or_scope_is_refused(token: str | None, scope: str, status: int) -> None:
    guard = Guard(keyring(t=Key("t", frozenset({"read"}))))
    with pytest.raises(HTTPException) as caught:
        guard.admit(bearing(token, asking("127.0.0.1")), scope)  # type: ignore[arg-type]
    assert caught.value.status_code == status
    assert ("WWW-Authenticate" in (caught.value.headers or {})) == (status == 401)


def test_a_bucket_holds_a_minute_and_fills_evenly() -> None:
    now = 0.0
    buckets = Buckets(lambda: now)
    assert [buckets.take("a", 3) for _ in range(4)] == [0, 0, 0, 20]
    assert buckets.take("b", 3) == 0
    now = 15.0
    assert buckets.take("a", 3) == pytest.approx(5)
    now = 20.0
    assert (buckets.take("a", 3), buckets.take("a", 3)) == (0, pytest.approx(20))
    now = 1e6
    assert [buckets.take("a", 3) for _ in range(4)] == [0, 0, 0, pytest.approx(20)]


async def test_a_token_that_asks_too_often_is_told_when_to_come_back() -> None:
    keys = {"t": Key("t", requests_per_minute=2), "u": Key("u")}
    async with client(keys=keys) as http:
        replies = [
            await http.get("/v1/collections", headers={"Authorization": f"Bearer {token}"})
            for token in "tttu"
        ]
    assert [reply.status_code for reply in replies] == [200, 200, 429, 200]
    assert 1 <= int(replies[2].headers["retry-after"]) <= 30
    assert replies[2].json()["error"]["code"] == "rate_limit"


# --------------------------------------------------------------------------- guessing


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def status_of(guard: Guard, request: Request, token: str | None) -> int:
    try:
        guard.admit(bearing(token, request), "read")
    except HTTPException as refused:
        return refused.status_code
    return 200


def guessed_at(clock: Clock, **options: object) -> Guard:
    keys = keyring(t=Key("t")).keys
    return Guard(Keyring(keys, wrong_per_minute=2, **options), clock)  # type: ignore[arg-type]


def test_who_sends_many_wrong_tokens_is_not_told_whether_the_next_is_right() -> None:
    clock = Clock()
    guard = guessed_at(clock)
    assert [status_of(guard, asking(), token) for token in "tab"] == [200, 401, 401]
    assert [status_of(guard, asking(), token) for token in "ct"] == [429, 429]
    assert status_of(guard, asking(), None) == 401  # which guesses nothing
    assert status_of(guard, asking("10.0.0.8"), "t") == 200
    clock.now = 30.0
    assert [status_of(guard, asking(), token) for token in "tttd"] == [200, 200, 200, 401]
    with pytest.raises(HTTPException) as caught:
        guard.admit(bearing("t", asking()), "read")
    assert (caught.value.headers or {})["Retry-After"] == "30"


def test_guesses_from_one_ipv6_site_count_together() -> None:
    guard = guessed_at(Clock())
    statuses = [status_of(guard, asking(f"2001:db8::{n}"), "x") for n in range(1, 4)]
    assert statuses == [401, 401, 429]
    assert status_of(guard, asking("2001:db8:0:1::1"), "x") == 401


@pytest.mark.parametrize(
    ("here", "passed", "caller"),
    [
        ("9.9.9.9", [], "9.9.9.9"),
        ("9.9.9.9", ["1.1.1.1"], "9.9.9.9"),
        ("10.0.0.1", ["1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6, 1.1.1.1, 10.0.0.2"], "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6", "1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6, "], "6.6.6.6"),
        ("10.0.0.1", ["10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["unknown"], "unknown"),
        ("::ffff:10.0.0.1", ["1.1.1.1"], "1.1.1.1"),
        ("", ["1.1.1.1"], ""),
    ],
)
def test_only_a_trusted_proxy_says_for_whom_it_asks(here: str, passed: list[str], caller: str) -> None:
    settings = parse_settings({"serve": {"trusted_proxies": ["10.0.0.0/8"]}})
    assert caller_of(asking(here, *passed), settings.serve.trusted_proxies) == caller


@given(names=st.lists(st.text("abcdef", min_size=1), max_size=30), most=st.integers(1, 4))
def test_buckets_keep_no_more_than_they_may(names: list[str], most: int) -> None:
    buckets = Buckets(lambda: 0.0, most)
    for name in names:
        buckets.take(name, 1)
    assert len(buckets) <= most
    last = list(dict.fromkeys(reversed(names)))[:most]
    assert all(buckets.wait_s(name, 1) for name in last)


async def test_a_guess_over_http_is_told_when_to_come_back() -> None:
    settings = parse_settings({"serve": {"tokens": [READ], "wrong_tokens_per_minute": 1}})
    api = served(settings=settings, keys=keyring_of(settings))
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        replies = [
            await http.post(path, headers={"Authorization": f"Bearer {token}"}, json={})
            for path, token in (
                ("/v1/query", "x"),
                ("/v1/query", "r"),
                ("/v1/chat/completions", "r"),
                ("/mcp", "r"),
            )
        ]
    assert [reply.status_code for reply in replies] == [401, 429, 429, 429]
    assert all(1 <= int(reply.headers["retry-after"]) <= 60 for reply in replies[1:])
    assert replies[1].json()["error"]["code"] == "rate_limit"


# --------------------------------------------------------------------------- scopes

SCOPES = ("read", "write", "admin")
GUARDED = {
    ("GET", "/v1/collections"): "read",
    ("GET", "/v1/collections/{name}"): "read",
    ("GET", "/v1/documents/{document_id}"): "read",
    ("POST", "/v1/query"): "read",
    ("POST", "/v1/retrieve"): "read",
    ("POST", "/v1/evidence"): "read",
    ("POST", "/v1/chat/completions"): "read",
    ("GET", "/v1/models"): "read",
    ("GET", "/v1/models/{model}"): "read",
    ("POST", "/v1/jobs"): "write",
    ("GET", "/v1/jobs"): "write",
    ("GET", "/v1/jobs/{job}"): "write",
    ("DELETE", "/v1/jobs/{job}"): "write",
    ("GET", "/v1/service"): "admin",
    ("POST", "/v1/collections/{name}/reload"): "admin",
}
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}


def test_every_route_is_guarded_by_the_scope_that_is_meant() -> None:
    paths = served().openapi()["paths"]
    there = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert there == {*GUARDED, *OPEN}


@pytest.mark.parametrize(("route", "scope"), GUARDED.items())
async def test_no_scope_stands_for_another(route: tuple[str, str], scope: str) -> None:
    method, path = route
    keys = {name: Key(name, frozenset({name})) for name in SCOPES}
    async with client(keys=keys) as http:
        statuses = {
            token: (
                await http.request(method, path, headers={"Authorization": f"Bearer {token}"}, json={})
            ).status_code
            for token in SCOPES
        }
    assert {token for token, status in statuses.items() if status != 403} == {scope}


async def test_who_looks_after_the_service_reloads_what_the_token_may_know_of() -> None:
    keys = {"t": Key("t", frozenset({"admin"}), frozenset({"default"}))}
    async with client(keys=keys) as http:
        http.headers["Authorization"] = "Bearer t"
        known, hidden, absent = [
            await http.post(f"/v1/collections/{name}/reload") for name in ("default", "secret", "nowhere")
        ]
        state = (await http.get("/v1/service")).json()
    assert known.json() == {"collection": "default", "generation": 7, "newest": 7}
    assert (hidden.status_code, hidden.content) == (404, absent.content)
    assert (state["status"], state["deployments"]) == ("ok", [])
