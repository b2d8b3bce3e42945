"""Ray: the actors of the job, and the deployments of the service."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from mrag.settings.access import TokenSettings, check_tokens
from mrag.settings.strict import Strict

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PoolSettings(Strict):
    """One pool of Ray Data actors: its bounds, and what each actor holds."""

    min_actors: int = Field(1, ge=1)
    max_actors: int = Field(1, ge=1)
    num_cpus: float = Field(0.5, ge=0)
    num_gpus: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> PoolSettings:
        if self.min_actors > self.max_actors:
            raise ValueError("min_actors must not exceed max_actors")
        return self


class JobSettings(Strict):
    """`jobs/index.py`: its two pools, and the share of a CPU of each reading or writing task.

    A job that is `served` loads no model: it asks those of the service on its cluster, for `served_at_once`
    documents at a time, so that questions need not wait behind all of them; the rest it does in one process.
    """

    extractors: PoolSettings = PoolSettings(num_cpus=1.0)
    encoders: PoolSettings = PoolSettings()
    task_num_cpus: float = Field(0.25, gt=0)
    served: bool = False
    served_at_once: int = Field(8, ge=1)


class DeploymentSettings(Strict):
    """One Ray Serve deployment: autoscaling bounds and what each replica holds.

    `max_ongoing` is the number of requests that one replica works on at once; `max_queued` may wait with each
    that asks, and the next is turned away. Replicas are added where each has more than `target_ongoing`.
    """

    min_replicas: int = Field(1, ge=0)
    max_replicas: int = Field(1, ge=1)
    target_ongoing: float = Field(16.0, gt=0)
    max_ongoing: int = Field(64, ge=1)
    max_queued: int = Field(128, ge=1)
    num_cpus: float = Field(0.1, ge=0)
    num_gpus: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> DeploymentSettings:
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas must not exceed max_replicas")
        return self


class StageSettings(DeploymentSettings):
    """One that others ask, for at most `timeout_s` each time; without it as long as the question has."""

    timeout_s: float | None = Field(None, gt=0)


class EngineSettings(StageSettings):
    """The language model, which a question may ask for each of its candidates at once."""

    max_queued: int = Field(4096, ge=1)
    num_cpus: float = Field(1.0, ge=0)


class AskedJobSettings(Strict):
    """Jobs that are asked for over HTTP: the `roots` below which they may read, and how many run at once.

    They ask the models of the service (`served`), so that none waits for CPUs that it holds; or they load
    their own, by the bounds of `job`, as they do in any case where `extractor` is another model.
    """

    roots: tuple[Path, ...] = ()
    served: bool = True
    at_once: int = Field(4, ge=1)

    @field_validator("roots")
    @classmethod
    def _absolute(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        for root in roots:
            if not root.is_absolute():
                raise ValueError(f"{root} must be an absolute path, which every node sees")
        return roots


class ServeSettings(Strict):
    """The HTTP service. Without `tokens`, `tokens_file` or `token_env` it answers on a loopback address only.

    With `parts` above 1 that many deployments search a part of every collection each (whole shards; `part`
    says what a replica holds), and the retriever asks them all. One that fails, or is later than
    `part_timeout_s`, is left out of the answer, which says that it is partial; or, without `partial`, there
    is an error and no answer.

    `requests_per_minute` is for each token (without tokens, for all callers together) and gateway replica;
    `wrong_tokens_per_minute` for each address: beyond it no token is looked at. The `trusted_proxies` are
    believed when they say for whom they ask.
    `public_url` is what callers reach it by, where that is not what their requests say. `log_questions` puts
    the question into the line that is logged of each request. Of the `traced_share` of requests there is a
    trace.
    """

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)
    public_url: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    token_env: str | None = None
    tokens: tuple[TokenSettings, ...] = ()
    tokens_file: Path | None = None
    requests_per_minute: int | None = Field(None, ge=1)
    wrong_tokens_per_minute: int | None = Field(30, ge=1)
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    log_questions: bool = False
    traced_share: float = Field(0.0, ge=0, le=1)
    jobs: AskedJobSettings = AskedJobSettings()
    timeout_s: float = Field(300.0, gt=0)
    gateway: DeploymentSettings = DeploymentSettings()
    parts: int = Field(1, ge=1, le=1024)
    part_timeout_s: float = Field(30.0, gt=0)
    partial: bool = True
    part: DeploymentSettings = DeploymentSettings()
    retriever: StageSettings = StageSettings()
    encoder: StageSettings = StageSettings()
    selector: StageSettings = StageSettings()
    extractor: StageSettings = StageSettings()
    generator: StageSettings = StageSettings()
    language_model: EngineSettings = EngineSettings()

    @model_validator(mode="after")
    def _open_only_with_a_token(self) -> ServeSettings:
        check_tokens(self.tokens)
        if self.host not in LOOPBACK and not (self.token_env or self.tokens or self.tokens_file):
            raise ValueError(
                f"host {self.host} can be reached from other machines: make a token by `mrag token`, or set "
                "token_env to the name of an environment variable that holds a bearer token"
            )
        return self
