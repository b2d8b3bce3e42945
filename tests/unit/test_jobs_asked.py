"""What the process of a job over HTTP does with its order and tells of it, and how Ray is asked to run it."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.job_submission import JobStatus

import jobs.asked
import serve.ray_jobs
from jobs.asked import Told, carried_out
from jobs.served import Lines
from mrag.collection import known_documents
from mrag.errors import CollectionError
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.settings import Settings, parse_settings
from serve.calls import JobsMissingError, StageDownError
from serve.job_desk import Known, ordered
from serve.job_values import DeleteBody, IndexBody, Line, Order, SyncBody, packed, told_in, unpacked
from serve.ray_jobs import ENTRYPOINT, ORDER, RayJobs, runtime_environment
from tests.synced_folder import ALMA, TOVE, settings, write


@pytest.fixture
def served(place: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a service that may read `in`; its jobs run here, by their own models."""

    def index(settings: Settings, folder: Path, cap: int | None, sync: bool, wait_s: float) -> Report:
        return asyncio.run(index_folder(settings, folder, Lines(), cap, sync, wait_s))

    monkeypatch.setattr(jobs.asked, "index_served", index)
    monkeypatch.setattr(jobs.asked, "connect", lambda: None)
    tree = settings(place).model_dump(mode="json")
    return parse_settings({**tree, "serve": {"jobs": {"roots": [place / "in"]}}})


def run(settings: Settings, body: IndexBody | SyncBody | DeleteBody) -> tuple[int, list[Line], str]:
    order = ordered(settings, settings.collection.name, body)
    out = io.StringIO()
    code = carried_out(Order.model_validate_json(order), out)
    return code, told_in(out.getvalue()), out.getvalue()


def known(settings: Settings) -> set[str]:
    return set(known_documents(settings.collection.root, settings.collection.name))


def test_a_folder_is_indexed_synced_and_deleted_from(tmp_path: Path, served: Settings) -> None:
    write(tmp_path, {"a": ALMA, "b": TOVE})
    code, lines, _ = run(served, IndexBody(kind="index", folder="."))
    assert (code, lines[-1].report and lines[-1].report["counts"]["indexed"]) == (0, 2)
    assert any(line.progress and "2/2 documents" in line.progress for line in lines)
    (tmp_path / "in" / "b.txt").unlink()
    code, lines, _ = run(served, SyncBody(kind="sync", folder="."))
    assert (code, lines[-1].report and lines[-1].report["removed"]) == (0, ["b.txt"])
    code, lines, _ = run(served, DeleteBody(kind="delete", ids=["a.txt", "/etc/x"]))
    assert (code, lines[-1].report and lines[-1].report["unknown"]) == (1, ["/etc/x"])
    assert known(served) == set()


def test_a_document_that_fails_is_named_and_the_job_has_failed(tmp_path: Path, served: Settings) -> None:
    write(tmp_path, {"a": ALMA})
    (tmp_path / "in" / "b.pdf").write_bytes(b"no pdf")
    code, lines, _ = run(served, IndexBody(kind="index", folder="."))
    report = lines[-1].report
    assert report
    assert (code, [one["id"] for one in report["named"]]) == (1, ["b.pdf"])
    assert known(served) == {"a.txt"}


def test_what_goes_wrong_is_one_sentence_without_a_path_of_the_server(
    tmp_path: Path, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, (line,), written = run(served, IndexBody(kind="index", folder="."))
    assert line.error
    assert (code, line.error.field) == (2, "folder")
    assert str(tmp_path / "in") in line.error.message

    def damaged(*_: Any) -> Report:
        print(f"reading {tmp_path}/elsewhere/x")
        raise CollectionError(f"{served.collection.root}/c/1.json is damaged: see /etc/passwd.")

    monkeypatch.setattr(jobs.asked, "index_served", damaged)
    code, lines, written = run(served, IndexBody(kind="index", folder="."))
    assert (code, [bool(line.progress) for line in lines]) == (2, [True, False])
    assert lines[1].error
    assert "is damaged" in lines[1].error.message
    assert not any(path in written for path in (str(tmp_path), "/etc"))


def test_a_folder_that_became_a_way_out_since_it_was_asked_for_is_not_read(
    tmp_path: Path, served: Settings
) -> None:
    write(tmp_path, {"a": ALMA})
    (tmp_path / "in" / "sub").mkdir()
    order = ordered(served, "new", IndexBody(kind="index", folder="sub"))
    (tmp_path / "in" / "sub").rmdir()
    (tmp_path / "in" / "sub").symlink_to("/etc")
    out = io.StringIO()
    assert carried_out(Order.model_validate_json(order), out) == 2
    assert '"folder"' in out.getvalue()
    assert not (served.collection.root / "new").exists()


def test_lines_are_told_whole_and_the_unfinished_is_not(served: Settings) -> None:
    out = io.StringIO()
    told = Told(out, served)
    print("1 of", "2", file=told)
    print("half", end="", file=told)
    assert [line.progress for line in told_in(out.getvalue())] == ["1 of 2"]


# --------------------------------------------------------------------------- Ray's job API


class Client:
    """Ray's client, as far as it is used; `fails` is raised by whatever it is asked."""

    made: list[str]

    def __init__(self, address: str) -> None:
        self.made.append(address)
        self.fails: Exception | None = None
        self.submitted: list[dict[str, Any]] = []

    def submit_job(self, **options: Any) -> str:
        self.submitted.append(options)
        return str(options["submission_id"])

    def list_jobs(self) -> list[Any]:
        if self.fails:
            raise self.fails
        job = {"status": JobStatus.SUCCEEDED, "start_time": 1000, "end_time": None}
        about = {"mrag_kind": "sync", "mrag_collection": "a"}
        return [
            SimpleNamespace(**job, submission_id="mrag-1", metadata=about),
            SimpleNamespace(**job, submission_id="raysubmit_1", metadata={"x": "y"}),
            SimpleNamespace(**job, submission_id=None, metadata=None),
        ]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    about = SimpleNamespace(page="127.0.0.1:8265", runtime_env={})
    Client.made = []
    monkeypatch.setattr(serve.ray_jobs, "JobSubmissionClient", Client)
    monkeypatch.setattr(serve.ray_jobs, "get_webui_url_from_internal_kv", lambda: about.page)
    monkeypatch.setattr(serve.ray_jobs.ray, "get_runtime_context", lambda: about)
    return about


async def test_an_order_reaches_ray_as_a_value_and_no_command(cluster: SimpleNamespace) -> None:
    runner = RayJobs()
    order = Order(settings={}, asked=DeleteBody(kind="delete", ids=["; rm -rf /", "$PATH", "a ${PATH}.md"]))
    await runner.submit(Known("mrag-1", "index", "a", "pending"), order.model_dump_json())
    assert runner._client
    (job,) = runner._client.submitted
    assert (job["entrypoint"], job["submission_id"]) == (ENTRYPOINT, "mrag-1")
    value = job["runtime_env"]["env_vars"][ORDER]
    # Ray expands `$NAME` of the node's environment in it, and `unknown` of the report hands ids back.
    assert os.path.expandvars(value) == value
    assert "$" not in value
    assert unpacked(value) == order
    (known,) = await runner.jobs()
    assert (known.id, known.kind, known.collection, known.status, known.ended) == (
        "mrag-1",
        "sync",
        "a",
        "done",
        None,
    )
    assert known.began
    assert known.began.timestamp() == 1
    assert Client.made == ["http://127.0.0.1:8265"]


def test_every_state_of_ray_has_a_word() -> None:
    assert set(serve.ray_jobs.STATES) == {status.value for status in JobStatus}


def test_a_job_has_the_modules_of_the_service(
    cluster: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/a{os.pathsep}")
    path = runtime_environment("{}")["env_vars"]["PYTHONPATH"].split(os.pathsep)
    assert (Path(path[0]) / "jobs" / "asked.py").exists()
    assert path[1:] == ["/a"]
    mine = {"A": "b", "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}  # the last is added by the job itself
    cluster.runtime_env = {"working_dir": "gcs://x.zip", "env_vars": mine}
    assert runtime_environment("{}") == {
        "working_dir": "gcs://x.zip",
        "env_vars": {"A": "b", ORDER: packed("{}")},
    }


@pytest.mark.parametrize("page", ["", None])
async def test_a_ray_without_a_dashboard_has_no_job_api(cluster: SimpleNamespace, page: str | None) -> None:
    cluster.page = page
    with pytest.raises(JobsMissingError, match="dashboard"):
        await RayJobs().jobs()


@pytest.mark.parametrize("error", [ConnectionError("http://x"), RuntimeError("500: /srv"), ValueError("x")])
async def test_a_job_api_that_is_down_is_asked_anew_the_next_time(
    cluster: SimpleNamespace, error: Exception
) -> None:
    runner = RayJobs()
    await runner.jobs()
    assert runner._client
    runner._client.fails = error
    with pytest.raises(StageDownError) as caught:
        await runner.jobs()
    assert str(error) not in str(caught.value)
    assert len(await runner.jobs()) == 1
    assert len(Client.made) == 2


def test_what_standard_error_writes_between_costs_its_line_alone() -> None:
    out = io.StringIO()
    told = Told(out, Settings())
    told.say(Line(progress="one"))
    out.write("WARNING: no end of line")
    told.say(Line(progress="two"))
    out.write('mrag-job: {"progress":"three"}WARNING: something\nmrag-job: {"progress": 4}\n')
    told.say(Line(report={"counts": {}}))
    assert told_in(out.getvalue()) == [
        Line(progress="one"),
        Line(progress="two"),
        Line(report={"counts": {}}),
    ]
