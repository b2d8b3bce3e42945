"""Who may: tokens of the settings, of a file and of the environment, their scopes and rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from typer.testing import CliRunner

from mrag.cli import app
from mrag.errors import SettingsError
from mrag.settings import parse_settings, token_hash
from serve.access import ALL_SCOPES, Buckets, Guard, Key, keyring_of
from tests.served import client, keyring

READ = {"name": "reader", "sha256": token_hash("r")}
ADMIN = {"name": "admin", "sha256": token_hash("a"), "scopes": ["read", "admin"], "collections": ["x"]}


def asking(host: str = "10.0.0.9") -> Request:
    return Request({"type": "http", "client": (host, 1), "headers": [(b"host", b"localhost")]})


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
    visitor = Guard(found).admit(asking(), made.stdout.strip(), "read")
    assert visitor.key == Key("chat", frozenset({"read"}), frozenset({"docs"}))
    assert CliRunner().invoke(app, ["token", "chat", "--scope", "root"]).exit_code != 0


@pytest.mark.parametrize(
    ("token", "scope", "status"),
    [(None, "read", 401), ("x", "read", 401), ("t", "write", 403), ("", "read", 401)],
)
def test_a_wrong_token_or_scope_is_refused(token: str | None, scope: str, status: int) -> None:
    guard = Guard(keyring(t=Key("t", frozenset({"read"}))))
    with pytest.raises(HTTPException) as caught:
        guard.admit(asking("127.0.0.1"), token, scope)  # type: ignore[arg-type]
    assert caught.value.status_code == status
    assert ("WWW-Authenticate" in (caught.value.headers or {})) == (status == 401)


def test_a_bucket_holds_a_minute_and_fills_evenly() -> None:
    now = 0.0
    buckets = Buckets(lambda: now)
    assert [buckets.wait_s("a", 3) for _ in range(4)] == [0, 0, 0, 20]
    assert buckets.wait_s("b", 3) == 0
    now = 15.0
    assert buckets.wait_s("a", 3) == pytest.approx(5)
    now = 20.0
    assert (buckets.wait_s("a", 3), buckets.wait_s("a", 3)) == (0, pytest.approx(20))
    now = 1e6
    assert [buckets.wait_s("a", 3) for _ in range(4)] == [0, 0, 0, pytest.approx(20)]


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
