"""What documents and models wrote never controls the terminal that shows it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from mrag import cli
from mrag.cli.answers import SAME, evidence_table, show_answer
from mrag.errors import InputError
from mrag.schema import Answer, EvidenceRow, EvidenceTable, Source, Verdict

HOSTILE = "red\x1b[31m \x1b]0;title\x07 \x9b2J \x08\x08 \r\x7f"
SHOWN = "red[31m ]0;title 2J"


def answer() -> Answer:
    row = EvidenceRow({"fact": HOSTILE}, HOSTILE, Verdict.VERIFIED, Source(HOSTILE, HOSTILE, (1,)))
    table = EvidenceTable("ATOMIC", ("fact",), (row,))
    source = Source(HOSTILE, HOSTILE, (1,))
    return Answer(HOSTILE, HOSTILE, (source,), table, None, 1, (), (HOSTILE,))


def controls(text: str) -> set[str]:
    return {c for c in text if not c.isprintable() and c != "\n"}


def test_an_answer_and_its_table_are_shown_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_answer(cli.console, asdict(answer()))
    cli.console.print(cli.two_columns([(HOSTILE, HOSTILE)], HOSTILE))
    out = capsys.readouterr().out
    assert not controls(out)
    assert SHOWN in out


def test_a_quote_that_is_the_fact_is_not_written_twice() -> None:
    source = asdict(Source("a.md", "A", (1,)))
    rows = [
        {"verdict": "verified", "cells": {"fact": fact}, "quote": "Ada came.", "source": source}
        for fact in ("Ada came.", "She came.")
    ]
    quotes = list(evidence_table({"schema": "ATOMIC", "rows": rows}).columns[2].cells)
    assert quotes == [SAME, "Ada came."]


def test_an_error_is_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), cli.one_sentence():
        raise InputError("file", HOSTILE)
    err = capsys.readouterr().err
    assert not controls(err)
    assert SHOWN in err


def test_json_spells_control_characters_out(capsys: pytest.CaptureFixture[str]) -> None:
    cli.print_json({"text": HOSTILE})
    out = capsys.readouterr().out
    assert not controls(out)
    assert json.loads(out) == {"text": HOSTILE}
