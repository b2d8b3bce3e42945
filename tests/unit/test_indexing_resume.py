"""`kill -9` at any moment: the next run asks for nothing that was validated, and ends like a first one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mrag.collection import Collection, known_documents
from tests.dying_run import USELESS

DOCUMENTS, UNITS = 6, 5  # Windows of three and two units, a gap each: four calls a document.
CALLS = 4 * DOCUMENTS
ALL_INDEXED = f"{{'indexed': {DOCUMENTS}}}"


class Case:
    """A folder of documents, and the runs over it."""

    def __init__(self, place: Path) -> None:
        self.folder, self.root, self.log = place / "in", place / "root", place / "calls"
        self.folder.mkdir(parents=True)
        for number in range(DOCUMENTS):
            units = (f"Unit {unit} of document {number}." for unit in range(UNITS))
            (self.folder / f"{number}.txt").write_text("\n\n".join(units))

    def run(self, *death: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.dying_run", str(self.folder), str(self.root), str(self.log)]
        return subprocess.run([*command, *death], capture_output=True, text=True, check=False)

    @property
    def calls(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    @property
    def entries(self) -> int:
        return len(list((self.root / "default" / "ledger").rglob("*.json")))

    def records(self) -> list[tuple[str, ...]]:
        opened = Collection.open(self.root, "default", legs=())
        try:
            return sorted(
                (unit.document_id, unit.text) for n in range(DOCUMENTS) for unit in opened.units(f"{n}.txt")
            )
        finally:
            opened.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Case:
    case = Case(tmp_path_factory.mktemp("undisturbed"))
    done = case.run()
    assert done.stdout.startswith(ALL_INDEXED), done.stderr
    assert (case.calls, case.entries) == (CALLS, CALLS)
    return case


@pytest.mark.parametrize(
    ("where", "moment"),
    [
        ("after an entry", 9),
        ("before publishing", 1),
        *(
            pytest.param(where, moment, marks=pytest.mark.slow)
            for where, moment in [
                ("asked", 1),
                ("asked", 13),
                ("asked", CALLS),
                ("before an entry", 1),
                ("before an entry", 15),
                ("before an entry", CALLS),
                ("after an entry", 1),
                ("after an entry", CALLS),
                ("after publishing", 1),
            ]
        ),
    ],
)
def test_what_was_validated_is_not_asked_again(
    where: str, moment: int, tmp_path: Path, undisturbed: Case
) -> None:
    case = Case(tmp_path)
    assert case.run(where, str(moment)).returncode == -9
    published = where == "after publishing"
    assert (known_documents(case.root, "default") != {}) is published
    asked, kept = case.calls, case.entries
    done = case.run()
    expected = f"{{'unchanged': {DOCUMENTS}}} 0" if published else f"{ALL_INDEXED} {kept}"
    assert done.stdout.strip() == expected, done.stderr
    assert case.calls - asked == CALLS - kept
    assert case.entries == CALLS
    assert case.records() == undisturbed.records()


def test_what_was_of_no_use_is_asked_again_until_it_is_published(tmp_path: Path) -> None:
    """No bad reply is kept: a document with fallbacks pays for these alone a second time, and once published
    for nothing."""
    case, useless = Case(tmp_path), 3  # Of the document's four calls, the last three.
    hopeless = case.folder / "3.txt"
    hopeless.write_text(hopeless.read_text().replace("Unit 4 of", f"Unit 4 {USELESS} of"))
    assert case.run("before publishing", "1").returncode == -9
    assert (case.calls, case.entries) == (CALLS, CALLS - useless)
    done = case.run()
    assert done.stdout.strip() == f"{ALL_INDEXED} {CALLS - useless}", done.stderr
    assert (case.calls, case.entries) == (CALLS + useless, CALLS - useless)
    assert len(case.records()) == DOCUMENTS * UNITS
    assert case.run().stdout.startswith(f"{{'unchanged': {DOCUMENTS}}}")
    assert case.calls == CALLS + useless


def test_a_changed_document_asks_for_its_changed_windows_only(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.run()
    changed = case.folder / "3.txt"
    changed.write_text(changed.read_text().replace("Unit 4 of document 3", "Another end"))
    before = case.calls
    assert case.run().stdout.strip() == f"{{'indexed': 1, 'unchanged': {DOCUMENTS - 1}}} 2"
    assert case.calls - before == 2
    assert case.entries == CALLS
    (case.folder / "2.txt").write_text("")
    assert case.run().stdout.startswith("{'unchanged': 5, 'empty': 1}")
    assert case.entries == CALLS - 4
