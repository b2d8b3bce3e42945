"""`mrag inspect`: the table, the JSON and the page say the same, and text of documents stays text."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mrag.cli import app
from mrag.collection import Collection, Histogram
from mrag.errors import InputError, NotFoundError
from mrag.evaluation.index_report import IndexReport, inspected
from mrag.evaluation.page import page
from mrag.evaluation.plots import svg
from mrag.evaluation.sections import Plot, Section, excerpt, number, percent
from mrag.schema import RecordKind, Usage
from mrag.settings import parse_settings
from tests.collection_corpus import STAMP, add, built_entry
from tests.word_tokenizer import word_tokenizer

M, F = RecordKind.MARKER, RecordKind.FALLBACK
HOSTILE = '</style><script>alert("&")</script>[red]\x1b[31m'
VOID = {"meta", "link", "img", "br", "hr", "input"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    long = built_entry(
        HOSTILE,
        [f"unit {number} of it" for number in range(1, 15)],
        [
            (M, (1,), [f"what of {HOSTILE}", "and what else"], "value one of the first"),
            (M, (2, 3), ["key two"], "value two"),
            (M, (3, 14), [HOSTILE], f"far {HOSTILE}"),
            *((F, (number,), [f"unit {number} of it"], f"unit {number} of it") for number in range(4, 14)),
        ],
        Usage(7, 1200, 300),
        {f"no key {HOSTILE}": 3, "no unit": 1},
    )
    short = built_entry("short", ["one", "two"], [(M, (1, 2), ["one key"], "a value")], Usage(1, 100, 20))
    tokenizer = word_tokenizer(root / "tokenizer")
    stamp = replace(STAMP, builder_settings={"name": "markers", "tokenizer": str(tokenizer)})
    add(root, "c", [long, short], stamp=stamp)
    return root


@pytest.fixture(scope="module")
def report(root: Path) -> IndexReport:
    return inspected(parse_settings({"collection": {"root": str(root), "name": "c"}}))


class Parsed(HTMLParser):
    """The elements of a page, which must be closed in the order they were opened, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def table(report: IndexReport, title: str) -> dict[str, tuple[str, ...]]:
    [section] = [section for section in report.sections() if section.title == title]
    return {row[0]: row[1:] for row in section.rows}


# --------------------------------------------------------------------------- table and JSON


def test_the_numbers_are_those_of_the_collection(report: IndexReport) -> None:
    assert table(report, "Coverage and fallback") == {
        "average coverage of a document": (percent((4 / 14 + 1) / 2),),
        "variance, of the percentages": (f"{(100 * 10 / 14 / 2) ** 2:.4f}",),
        "fallback, of the source units": (percent(10 / 16),),
        "coverage of all units before the repair": (percent(6 / 16),),
        "coverage of all units after it": ("100.00%",),
    }
    assert table(report, "Marker granularity") == {
        "single unit": ("1", "25.00%"),
        "consecutive units": ("2", "50.00%"),
        "scattered units": ("1", "25.00%"),
        "total": ("4", "100.00%"),
    }
    assert table(report, "Gaps") == {
        "gaps": ("1",),
        "gaps above 10 units": ("1 (100.00%)",),
        "longest gap, in units": ("11",),
        "widest span of a record, in units": ("11",),
    }
    assert table(report, "Cost")["tokens in"] == ("1,300", "650.00", f"{1300 / 58:.4f}")
    assert table(report, "Rejected")["total"] == ("4",)


def test_the_json_equals_the_table(report: IndexReport) -> None:
    tree = json.loads(json.dumps(report.as_dict()))
    coverage, pointers, lengths = tree["coverage"], tree["pointers"], tree["lengths"]
    assert table(report, "Coverage and fallback") == {
        "average coverage of a document": (percent(coverage["average"]),),
        "variance, of the percentages": (f"{coverage['variance']:.4f}",),
        "fallback, of the source units": (percent(coverage["fallback"]),),
        "coverage of all units before the repair": (percent(coverage["extracted"] / coverage["units"]),),
        "coverage of all units after it": (percent(coverage["reached"] / coverage["units"]),),
    }
    for name, words in (("single", "single unit"), ("consecutive", "consecutive units"), ("total", "total")):
        assert table(report, "Marker granularity")[words][0] == number(pointers[name])
    assert table(report, "Gaps")["longest gap, in units"] == (number(pointers["gaps"]["greatest"]),)
    for name, row in table(report, "Token lengths").items():
        one = lengths[name.removeprefix("source ")]
        assert row[:4] == tuple(number(one[part]) for part in ("count", "mean", "deviation", "median"))
        assert sum(one["seen"].values()) == one["count"]
    contents = table(report, "Contents")
    assert contents["records"] == (number(tree["counts"]["records"]),)
    assert contents["source tokens"] == (number(lengths["units"]["total"]),)
    usage = tree["usage"]
    assert [row[0] for row in table(report, "Cost").values()] == [
        number(usage[name]) for name in ("calls", "prompt_tokens", "completion_tokens")
    ]
    assert list(tree["rejected"].values()) == [3, 1]


# --------------------------------------------------------------------------- the page


def test_the_page_is_whole_and_needs_nothing_else(report: IndexReport) -> None:
    text = page("Collection c", report.sections())
    parsed = Parsed(text)
    assert parsed.open == []
    assert not {tag for tag, _ in parsed.tags} & {"script", "link", "img", "iframe", "object", "base"}
    assert not [
        name for _, attributes in parsed.tags for name in attributes if name.startswith(("on", "src"))
    ]
    assert not [name for _, attributes in parsed.tags for name in attributes if "href" in name]
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    for cell in (cell for section in report.sections() for row in section.rows for cell in row):
        assert cell in parsed.texts or not cell


def test_the_plots_have_labelled_axes(report: IndexReport) -> None:
    parsed = Parsed(page("Collection c", report.sections()))
    pictures = [attributes["aria-label"] for tag, attributes in parsed.tags if tag == "svg"]
    assert pictures == [
        "Gaps of scattered records",
        "Length of keys",
        "Length of values",
        "Length of source units",
    ]
    for label in ("gap (source units)", "gaps", "keys", "values", "source units"):
        assert label in parsed.texts


@pytest.mark.parametrize("where", ["title", "about", "cell", "plot"])
def test_hostile_text_stays_text_wherever_it_stands(where: str) -> None:
    text = {name: HOSTILE if name == where else "plain" for name in ("title", "about", "cell", "plot")}
    plot = Plot(text["plot"], text["plot"], text["plot"], Histogram([1, 2]))
    section = Section(text["title"], text["about"], (text["cell"],), ((text["cell"],),), (plot,))
    parsed = Parsed(page(text["title"], [section]))
    assert parsed.open == []
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert HOSTILE in parsed.texts


@given(st.lists(st.integers(0, 5000), min_size=1), st.none() | st.integers(0, 5000))
def test_bars_stand_within_the_picture_and_stand_for_every_number(
    numbers: list[int], limit: int | None
) -> None:
    picture = svg(Plot("title", "x", "y", Histogram(numbers), limit))
    bars = picture.findall("rect")
    seen = [str(bar.findtext("title")).rpartition(": ")[2].replace(",", "") for bar in bars]
    assert sum(map(int, seen)) == len(numbers)
    for bar in bars:
        x, y, width, height = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
        assert min(x, y, width, height) >= 0
        assert x + width <= 640
        assert y + height <= 280
    highest = min(bars, key=lambda bar: float(bar.attrib["y"]))
    assert seen[bars.index(highest)] == max(seen, key=int)


@given(st.text())
def test_an_excerpt_is_one_line_that_a_terminal_can_show(text: str) -> None:
    assert len(excerpt(text)) <= 160
    assert excerpt(text).isprintable()


# --------------------------------------------------------------------------- the command


def run(root: Path, *arguments: str) -> Any:
    place = ("--set", f"collection.root={root}", "--set", "collection.name=c")
    return CliRunner().invoke(app, ["inspect", *place, *arguments], env={"COLUMNS": "160"})


def test_the_command_shows_and_writes_all_three(root: Path, report: IndexReport, tmp_path: Path) -> None:
    ended = run(root, "--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html"))
    assert ended.exit_code == 0, ended.output
    for section in report.sections():
        assert section.title in ended.output
    assert percent(10 / 16) in ended.output
    assert "\x1b" not in ended.output
    assert "[red]" in ended.output
    assert json.loads((tmp_path / "r.json").read_text("utf-8")) == json.loads(json.dumps(report.as_dict()))
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_an_earlier_generation_is_inspected(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "r")
    stamp = Collection.open(root, "c").manifest.stamp
    add(tmp_path / "r", "c", [built_entry("third", ["one"], [(M, (1,), ["a key"], "a value")])], stamp=stamp)
    for options, generation, documents in (((), 2, 3), (("--generation", "1", "--verify", "full"), 1, 2)):
        tree = json.loads(run(tmp_path / "r", "--json", "-", *options).stdout)
        assert (tree["generation"], tree["counts"]["documents"]) == (generation, documents)
    ended = run(root, "--generation", "9")
    assert isinstance(ended.exception, NotFoundError)


def test_json_on_standard_output_is_all_that_is_there(root: Path) -> None:
    assert json.loads(run(root, "--json", "-").stdout)["collection"] == "c"


def test_a_file_that_can_not_be_written_is_named(root: Path, tmp_path: Path) -> None:
    ended = run(root, "--html", str(tmp_path / "missing" / "r.html"))
    assert isinstance(ended.exception, InputError)
    assert "missing/r.html" in str(ended.exception)
