"""What OpenAPI says of the service is true: requests made from it get no other answers than it describes.

schemathesis makes them, such as it allows and such as it does not. The stages behind are scripted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given
from hypothesis import settings as examples

from mrag.collection import no_collection
from mrag.query.question import Question
from mrag.schema import Pool
from mrag.settings import parse_settings
from tests.noted_jobs import Cluster
from tests.served import LISTED, Stages, keyring, served

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: `make venv`")
known_checks = pytest.importorskip("schemathesis.checks")

TOKEN = {"Authorization": "Bearer t"}
PATHS = {
    "/healthz": ("GET",),
    "/readyz": ("GET",),
    "/v1/chat/completions": ("POST",),
    "/v1/collections": ("GET",),
    "/v1/collections/{name}": ("GET",),
    "/v1/collections/{name}/reload": ("POST",),
    "/v1/documents/{document_id}": ("GET",),
    "/v1/evidence": ("POST",),
    "/v1/jobs": ("GET", "POST"),
    "/v1/jobs/{job}": ("DELETE", "GET"),
    "/v1/models": ("GET",),
    "/v1/models/{model}": ("GET",),
    "/v1/query": ("POST",),
    "/v1/retrieve": ("POST",),
    "/v1/service": ("GET",),
}
OPERATIONS = [(method, path) for path, methods in PATHS.items() for method in methods]
MODES = ("positive", "negative")
NOTHING_TO_GET_WRONG = [(("GET", path), "negative") for path in ("/healthz", "/readyz")]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


class Known(Stages):
    """Stages over the collections of the library, and no others."""

    async def retrieve(self, question: Question, w: int) -> Pool:
        if question.collection not in {one.name for one in LISTED}:
            raise no_collection(Path("root"), question.collection)
        return await super().retrieve(question, w)


@pytest.fixture
def api(tmp_path: Path) -> FastAPI:
    """One for each test: schemathesis ends what it has begun with a test, and an application begins once."""
    jobs = {"roots": [tmp_path], "at_once": 1_000_000}
    settings = parse_settings({"collection": {"root": tmp_path / "root"}, "serve": {"jobs": jobs}})
    return served(Known(), settings, keyring("t"), runner=Cluster())


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(served().openapi())


def wanted() -> list[Any]:
    known_checks.load_all_checks()
    return list(known_checks.CHECKS.get_by_names(CHECKS))


def test_every_operation_is_tried(schema: Any) -> None:
    there = {(found.ok().method.upper(), found.ok().path) for found in schema.get_all_operations()}
    assert there == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [(*one, mode) for one in OPERATIONS for mode in MODES if (one, mode) not in NOTHING_TO_GET_WRONG],
)
def test_no_answer_is_undocumented(api: FastAPI, schema: Any, method: str, path: str, mode: str) -> None:
    operation = schema[path][method]
    checks = wanted()
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @given(case=cases)
    @examples(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
    def answered(case: Any) -> None:
        case.call_and_validate(app=api, headers=TOKEN, checks=checks)

    answered()


@pytest.mark.parametrize(
    ("method", "path"), [one for one in OPERATIONS if one[1] not in ("/healthz", "/readyz")]
)
def test_without_a_token_the_answer_is_documented_too(
    api: FastAPI, schema: Any, method: str, path: str
) -> None:
    checks = wanted()

    @given(case=schema[path][method].as_strategy())
    @examples(max_examples=1, suppress_health_check=list(HealthCheck), database=None)
    def refused(case: Any) -> None:
        assert case.call_and_validate(app=api, checks=checks).status_code in (401, 422)

    refused()
