"""A megabyte of anything is read and split in linear work: what is not would take hours here."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mrag.documents.loaders import read_input
from mrag.documents.units import split_units
from mrag.schema import Document

MEGABYTE = 1_000_000
LIMIT = 240


class CountingTokenizer:
    """Four characters are a token; `work` is how many characters were counted."""

    def __init__(self) -> None:
        self.work = 0

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, min(at + 4, len(text))) for at in range(0, len(text), 4)]

    def count(self, text: str) -> int:
        self.work += len(text)
        return (len(text) + 3) // 4


KINDS = {
    "words on one line": "word " * 200_000,
    "one word": "x" * MEGABYTE,
    "dots": "." * MEGABYTE + "x",
    "dots and spaces": ". " * 500_000,
    "stops and quotes": ('."' * 400 + "x") * 1200,
    "superscripts": "." + "¹" * 900_000 + "x",
    "sentences without spaces": "这是一个句子。" * 140_000,
    "no stop at all": "这是一个没有句号的句子" * 90_000,
    "right to left": "שלום עולם، مرحبا بالعالم " * 40_000,
    "spaces": " " * MEGABYTE + "x",
    "line feeds": "\n" * MEGABYTE + "x",
    "carriage returns": "a\r\n\r" * 250_000,
    "fences that are never closed": "\n".join("`" * n for n in range(700, 3, -1)) + "\n" * 700_000,
    "fences of all lengths": "\n".join("~" * n for n in range(3, 1400)),
    "zero width": "ab\u200b\u200d" * 250_000,
    "marks upon marks": "a" + "\u0301" * 900_000,
    "control": "\x01" * MEGABYTE,
    "pipes": "|" * MEGABYTE,
    "headings": "# a\n" * 100_000,
}


def split(folder: Path, text: str, suffix: str) -> tuple[Document, int]:
    (folder / f"a{suffix}").write_text(text, newline="")
    [document] = read_input(folder, folder / f"a{suffix}")
    assert isinstance(document, Document), document
    tokenizer = CountingTokenizer()
    units = split_units(document, tokenizer, LIMIT)
    assert units
    assert all(len(unit.text) <= 4 * LIMIT for unit in units)
    assert all(one.end <= other.start for one, other in pairwise(units))
    return document, tokenizer.work


@pytest.mark.parametrize("kind", KINDS)
def test_a_megabyte_is_split_in_linear_work(tmp_path: Path, kind: str) -> None:
    document, work = split(tmp_path, KINDS[kind], ".txt")
    assert work <= 20 * len(document.text)


@pytest.mark.parametrize(
    "text",
    [
        "# " + "[" * 100_000,
        "# " + "![" * 50_000,
        "# " + "**a*_b_" * 15_000,
        "> " * 50_000 + "x",
        "|a|b|\n|-|-|\n" + "|1|2|\n" * 30_000,
        "a\n" * 50_000 + "===",
        "---\na: b\n" + "x: y\n" * 30_000,
    ],
)
def test_markdown_that_is_hard_to_parse(tmp_path: Path, text: str) -> None:
    split(tmp_path, text, ".md")


@pytest.mark.parametrize(
    "page",
    [
        "word " * 200_000,
        "<p>a" * 100_000,
        "<b><i><p>x" * 20_000,
        "<table>" + "<tr><td>a<td>1" * 20_000,
        "<table>" + "<tr>" + "<td>1" * 40_000 + "</table>x",
        "<ul><li>" * 900 + "x",
        "&amp;" * 200_000,
        "<" * 200_000 + "x",
        "<p style='display:" + " " * 500_000 + "'>x",
        "<table><tr><td>x<td>" + "-" * 500_000 + "x<tr><td>y<td>1",
    ],
)
def test_pages_that_are_hard_to_parse(tmp_path: Path, page: str) -> None:
    split(tmp_path, page, ".html")
