"""What Ray costs: extraction by the job's stages against the bare engine with the same prompts in one batch.

`python -m jobs.benchmark FOLDER --config FILE`, on the machine that holds the engine.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jobs.index import documents, holds, pool, quietly
from jobs.progress import reported
from jobs.rows import Batch, unpack_column
from jobs.stages import Extract
from mrag.errors import MragError, SettingsError
from mrag.indexing.builders import make_builder
from mrag.indexing.diff import Input
from mrag.indexing.plan import Plan
from mrag.indexing.stages import read_wanted, scan
from mrag.models.chat import ChatTokenizer
from mrag.models.language_model import Request
from mrag.models.opening import counting_model
from mrag.models.tokens import load_tokenizer
from mrag.models.vllm_engine import CLOSE_S, decoding, engine_arguments, set_environment, threads
from mrag.models.weights import ensure_weights
from mrag.schema import Outcome, Usage
from mrag.settings import Settings, VllmSettings, load_settings
from serve.connection import connect


@dataclass(frozen=True)
class Throughput:
    """What one side did, from its first request to its last reply: loading is not in `seconds`."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Read and written together."""
        return (self.prompt_tokens + self.completion_tokens) / self.seconds


def benchmark(settings: Settings, folder: Path, limit: int) -> tuple[Throughput, Throughput]:
    """The bare engine, then the job, over the first `limit` documents of the folder; one engine each.

    Nothing is asked a second time, so that the prompts do not depend on the replies, and nothing comes from
    a ledger. Raises MragError.
    """
    inputs = [item for item in scan(folder)[0] if not item.is_empty][:limit]
    with tempfile.TemporaryDirectory() as root:
        settings = once(settings, Path(root))
        asked = requests(settings, folder, inputs)
        bare = bare_engine(settings, asked)
        connect()
        plan = Plan(len(inputs), left=Usage(calls=len(asked)))
        return bare, extraction_job(settings, folder, inputs, plan)


def once(settings: Settings, root: Path) -> Settings:
    """The settings with no second round, one actor, and a ledger of its own below `root`."""
    extractors = settings.job.extractors.model_copy(update={"min_actors": 1, "max_actors": 1})
    return settings.model_copy(
        update={
            "extraction": settings.extraction.model_copy(update={"retries": 0}),
            "job": settings.job.model_copy(update={"extractors": extractors}),
            "collection": settings.collection.model_copy(update={"root": root}),
        }
    )


# --------------------------------------------------------------------------- the bare engine


def requests(settings: Settings, folder: Path, inputs: Sequence[Input]) -> list[Request]:
    """What the builder asks for these documents. Raises SettingsError for a method that asks nothing."""
    builder = make_builder(settings, load_tokenizer(settings.encoder.model))
    model = asyncio.run(counting_model(settings.indexing_model))
    asked = [
        estimate.request
        for _, document in read_wanted(folder, inputs)
        for estimate in builder.estimates(document, model)
    ]
    if not asked:
        raise SettingsError(f"The builder {builder.name} asks no model: set method to ours or m-rag.")
    return asked


def bare_engine(settings: Settings, asked: Sequence[Request]) -> Throughput:
    """vLLM's own offline engine, given every prompt at once. Raises SettingsError for another engine."""
    model = settings.indexing_model
    if not isinstance(model, VllmSettings):
        raise SettingsError("The benchmark is against the bare engine: set language_model.engine to vllm.")
    set_environment(model)
    from vllm import LLM, SamplingParams

    folder = ensure_weights(model.model)
    chat = ChatTokenizer(folder)
    prompts = [{"prompt_token_ids": chat.prompt_ids(request.messages)} for request in asked]
    decodings = [SamplingParams(**decoding(request)) for request in asked]
    with threads(model):
        engine = LLM(**engine_arguments(model, folder))
    started = time.time()
    outputs = engine.generate(prompts, decodings, use_tqdm=False)
    seconds = time.time() - started
    engine.llm_engine.engine_core.shutdown(CLOSE_S)
    read = sum(len(output.prompt_token_ids) for output in outputs)
    written = sum(len(output.outputs[0].token_ids) for output in outputs)
    return Throughput(len(outputs), read, written, seconds)


# --------------------------------------------------------------------------- the job


class TimedExtract(Extract):
    """The job's stage, with the times between which it worked on each document."""

    async def __call__(self, batch: Batch) -> AsyncIterator[Batch]:
        """One row a document; the clock starts when the engine is there."""
        await self._model()
        started = time.time()
        async for rows in super().__call__(batch):
            ended = time.time()
            for built in unpack_column(rows, "built"):
                if isinstance(built, Outcome):
                    raise MragError(f"{built.id} failed, and the benchmark with it: {built.detail}")
                usage = asdict(built.usage)
                yield {"started": [started], "ended": [ended], **{name: [n] for name, n in usage.items()}}


def extraction_job(settings: Settings, folder: Path, inputs: Sequence[Input], plan: Plan) -> Throughput:
    """Reading and extracting as `jobs.index` does it, without what comes after."""
    job = settings.job
    with reported(plan) as counter:
        rows = (
            documents(settings, folder, inputs)
            .map_batches(
                TimedExtract,
                fn_constructor_args=(settings, counter),
                batch_size=1,
                compute=pool(job.extractors, settings.indexing_model.max_concurrency),
                **holds(job.extractors),
            )
            .take_all()
        )
    seconds = max(row["ended"] for row in rows) - min(row["started"] for row in rows)
    calls, read, written = (
        sum(row[name] for row in rows) for name in ("calls", "prompt_tokens", "completion_tokens")
    )
    return Throughput(calls, read, written, seconds)


# --------------------------------------------------------------------------- the command


def show(bare: Throughput, job: Throughput, as_json: Path | None) -> None:
    """Both sides, and the share of the engine's speed that is left in the job."""
    share = job.tokens_per_s / bare.tokens_per_s
    table = Table("", "requests", "tokens in", "tokens out", "seconds", "tokens/s")
    for name, side in (("bare engine", bare), ("Ray job", job)):
        cells = (side.requests, side.prompt_tokens, side.completion_tokens)
        table.add_row(name, *map(str, cells), f"{side.seconds:.1f}", f"{side.tokens_per_s:.1f}")
    console = Console(width=110, highlight=False)
    console.print(table)
    console.print(f"The job runs at {share:.2f} of the bare engine.")
    if as_json:
        tree = {"bare": asdict(bare), "job": asdict(job), "share": share}
        as_json.write_text(json.dumps(tree, indent=2), "utf-8")


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of documents.")],
    config: Annotated[Path | None, typer.Option(help="Settings file; its engine must be vllm.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many documents are extracted.")] = 20,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the numbers there too.")] = None,
) -> None:
    """Measure extraction by the Ray job against the bare engine."""
    try:
        quietly()
        bare, job = benchmark(load_settings(config, tuple(overrides or ())), folder.resolve(), limit)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    show(bare, job, as_json)


if __name__ == "__main__":
    typer.run(main)
