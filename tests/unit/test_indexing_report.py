"""The report of an indexing run: its counts, its table and its exit code."""

from __future__ import annotations

import json

from mrag.indexing.report import Published, report
from mrag.schema import Coverage, Outcome, Status, Usage

OUTCOMES = [
    Outcome("a", Status.INDEXED, "", 5, Coverage(4, 3, 1), Usage(2, 10, 5), {"no key": 1}, source_tokens=12),
    Outcome(
        "b",
        Status.INDEXED,
        records=4,
        coverage=Coverage(4, 4, 0),
        usage=Usage(1, 6, 4),
        rejected={"no key": 1, "no unit": 3},
        reused=Usage(1, 4, 3),
        source_tokens=8,
    ),
    Outcome("c", Status.UNCHANGED),
    Outcome("e", Status.DUPLICATE, "It has the same text as a."),
    Outcome("d", Status.EMPTY),
]
FAILURE = Outcome("f#3", Status.FAILED, "No reply.", usage=Usage(1, 100, 0))


def test_the_counts_add_up_to_the_inputs() -> None:
    found = report(
        [*OUTCOMES, FAILURE], seconds=1.5, done=Published(7, "", ("p",), ("q",)), removed=("g", "h")
    )
    assert found.inputs == 6
    assert found.as_dict() == {
        "inputs": 6,
        "counts": {
            "indexed": 2, "unchanged": 1, "empty": 1, "duplicate": 1, "unsupported": 0,
            "pending": 0, "failed": 1,
        },
        "removed": ["g", "h"],
        "withheld": "",
        "promoted": ["p"],
        "bared": ["q"],
        "units": 8,
        "records": 9,
        "rejected": {"no unit": 3, "no key": 2},
        "coverage_before_repair": 7 / 8,
        "coverage_after_repair": 1.0,
        "fallback_share": 1 / 8,
        "record_shares": {"validated": 8 / 14, "rejected": 5 / 14, "fallback": 1 / 14},
        "source_tokens": 20,
        "tokens_read_per_source_token": 1.0,
        "tokens_written_per_source_token": 0.6,
        "llm_calls": 4,
        "llm_prompt_tokens": 116,
        "llm_completion_tokens": 9,
        "reused_calls": 1,
        "reused_tokens": 7,
        "seconds": 1.5,
        "generation": 7,
        "compaction": "",
        "left": None,
        "named": [
            {"id": "f#3", "status": "failed", "detail": "No reply."},
            {"id": "e", "status": "duplicate", "detail": "It has the same text as a."},
            {"id": "d", "status": "empty", "detail": ""},
        ],
    }  # fmt: skip
    json.dumps(found.as_dict())


def test_the_table_names_what_was_not_indexed() -> None:
    rows = report([*OUTCOMES, FAILURE], 1.5, Published(7, "", ("p",), ("q",)), ("g", "h"), "Not now.").table()
    assert ("failed", "f#3: No reply.") in rows
    assert ("duplicate", "e: It has the same text as a.") in rows
    assert ("empty", "d") in rows
    assert [value for name, value in rows if name == "removed"] == ["2", "g", "h"]
    assert ("not removed", "Not now.") in rows
    assert ("indexed in its place", "p") in rows
    assert ("same text, not indexed", "q") in rows
    assert ("records", "9 (5 rejected)") in rows
    assert ("shares", "57.1% validated, 35.7% rejected, 7.1% fallback") in rows
    assert ("for each source token", "1.00 LLM tokens read, 0.60 written") in rows
    assert ("coverage", "87.5% before repair, 100.0% after") in rows
    assert ("from the ledger", "1 calls, 7 tokens not asked again") in rows


def test_only_a_failure_makes_the_exit_code_other_than_zero() -> None:
    assert report(OUTCOMES, 0, Published(0)).exit_code == 0
    assert report([FAILURE], 0, Published(0)).exit_code == 1
    assert report([], 0, Published(0)).exit_code == 0
