"""Jobs as they are asked for and told, and the order that a job is carried out by."""

from __future__ import annotations

import base64
import contextlib
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serve.faults import Fault

Kind = Literal["index", "sync", "delete"]
State = Literal["pending", "running", "done", "failed", "cancelled"]


class _Asked(BaseModel):
    """What every job is asked with."""

    model_config = ConfigDict(extra="forbid")

    collection: str | None = Field(
        None, description="The collection that it writes; the configured one by default."
    )
    wait_s: float = Field(
        0, ge=0, le=86_400, description="How long it waits for another that writes the collection."
    )


class _Reading(_Asked):
    """A job that reads a folder."""

    folder: str = Field(
        description="Below one of the roots of `serve.jobs`: an absolute path, or one from a root on.",
        examples=["handbook"],
    )
    max_llm_tokens: int | None = Field(
        None, ge=0, description="Tokens that it may ask of the language model; what is left is pending."
    )


class IndexBody(_Reading):
    """Index what is new or changed in a folder."""

    kind: Literal["index"]


class SyncBody(_Reading):
    """The same, and remove what the folder no longer has."""

    kind: Literal["sync"]


class DeleteBody(_Asked):
    """Take documents out, by their ids or by a filter."""

    kind: Literal["delete"]
    ids: list[str] = Field(default_factory=list, description="Ids of documents, as answers name them.")
    filter: dict[str, Any] | None = Field(
        None, description="As of a question: documents that pass are deleted."
    )
    purge: bool = Field(False, description="Compact then, so that no file holds them any more.")


JobBody = Annotated[IndexBody | SyncBody | DeleteBody, Field(discriminator="kind")]


class Order(BaseModel):
    """What a job is to do: `asked` under `settings`, which name no token."""

    model_config = ConfigDict(extra="forbid")

    settings: dict[str, Any]
    asked: JobBody


def packed(order: str) -> str:
    """The JSON of an order as an environment variable holds it: letters, digits, `-`, `_` and `=` only.

    As it is, Ray would put variables of the cluster in the place of a caller's `$NAME`, and hand them back.
    """
    return base64.urlsafe_b64encode(order.encode()).decode()


def unpacked(value: str) -> Order:
    """The order of such a variable."""
    return Order.model_validate_json(base64.urlsafe_b64decode(value))


class Job(BaseModel):
    """One job. Of one that was listed, `progress`, `report` and `error` are left out."""

    id: str
    kind: Kind
    collection: str
    status: State = Field(description="`failed` also where a document did: the report then names it.")
    began: datetime | None = None
    ended: datetime | None = None
    progress: list[str] = Field(default_factory=list, description="The last lines of its log.")
    report: dict[str, Any] | None = Field(None, description="What came of it, when it has ended.")
    error: Fault | None = Field(None, description="Why there is no report.")


class Jobs(BaseModel):
    """The jobs over collections that the caller may see, the youngest first."""

    jobs: list[Job]


# --------------------------------------------------------------------------- the job's log

MARK = "mrag-job: "


class Line(BaseModel):
    """One line of a job's log that is meant for who asked for it: one of the three."""

    progress: str | None = None
    report: dict[str, Any] | None = None
    error: Fault | None = None

    def written(self) -> str:
        """The line, which bears the mark."""
        return MARK + self.model_dump_json(exclude_none=True)


def told_in(log: str) -> list[Line]:
    """The lines that bear the mark, in order. What else is in a log is not for callers.

    Standard error is in the same log, and may have written into a line: that one is left out.
    """
    told = []
    for line in log.split("\n")[:-1]:  # the last has not ended
        if line.startswith(MARK):
            with contextlib.suppress(ValidationError):
                told.append(Line.model_validate_json(line.removeprefix(MARK)))
    return told
