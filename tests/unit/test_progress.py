"""What a person is told while a run goes on: by its job, and by the bar of the command line."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from jobs.progress import Done, built_one
from mrag.cli import IndexingBar
from mrag.indexing.plan import Plan
from mrag.schema import Outcome, Status, Usage

ASKING = Plan(documents=12, planned=12, units=109, left=Usage(109, 48_000, 10_000))
SILENT = Plan(documents=12, planned=12, units=109)


@pytest.mark.parametrize(
    ("done", "plan", "seconds", "line"),
    [
        (
            Done(3, 45, 40, 8000),
            ASKING,
            20.0,
            "3/12 documents, 45 records, 40 of about 109 LLM calls, 8000 tokens (400/s), "
            "about 36716 left, 20 s, about 34 s left",
        ),
        (Done(3, 45), SILENT, 2.0, "3/12 documents, 45 records, 2 s, about 6 s left"),
        (
            Done(11, 180, 112, 8000),  # Gaps were asked again.
            ASKING,
            40.0,
            "11/12 documents, 180 records, 112 of about 109 LLM calls, 8000 tokens (200/s), 40 s",
        ),
        (
            Done(0, 0, 1, 100),
            ASKING,
            0.0,
            "0/12 documents, 0 records, 1 of about 109 LLM calls, 100 tokens (0/s), about 57468 left, 0 s",
        ),
    ],
)
def test_a_job_says_how_far_its_calls_are(done: Done, plan: Plan, seconds: float, line: str) -> None:
    assert done.line(plan, seconds) == line


def test_a_document_that_failed_counts_as_done() -> None:
    failed = Outcome("a", Status.FAILED, "damaged")
    assert built_one(failed) + Done(calls=2, tokens=30) == Done(documents=1, calls=2, tokens=30)


@pytest.mark.parametrize("plan", [ASKING, SILENT])
def test_the_bar_is_full_at_the_end_and_not_before(plan: Plan) -> None:
    console = Console(file=io.StringIO(), width=200)
    with Progress(TextColumn("{task.fields[counts]}"), console=console, auto_refresh=False) as progress:
        bar, shares = IndexingBar(progress), []
        bar.planned(plan)
        for document in range(plan.documents):
            for _ in range(10 if plan.left.calls else 0):
                bar.replied(bar._calls + 1, 50)
                shares.append(progress.tasks[0].percentage)
            bar.done(document + 1, 3)
            shares.append(progress.tasks[0].percentage)
    assert shares[-1] == 100
    assert all(a <= b for a, b in pairwise(shares))
    assert shares[len(shares) // 2] < 60


def test_the_bar_says_how_fast_tokens_go_and_how_many_are_left() -> None:
    now = 0.0
    with Progress(
        TextColumn(""), console=Console(file=io.StringIO()), auto_refresh=False, get_time=lambda: now
    ) as progress:
        bar = IndexingBar(progress)
        bar.planned(ASKING)
        now = 40.0  # The model is loaded.
        bar.replied(1, 500)
        now = 60.0
        bar.replied(40, 8500)
        assert (
            "40 of about 109 LLM calls  8,500 tokens (400/s), about 36,716 left"
            in (progress.tasks[0].fields["counts"])
        )
        bar.replied(112, 60_000)
        assert progress.tasks[0].fields["counts"].endswith("(2975/s)")
