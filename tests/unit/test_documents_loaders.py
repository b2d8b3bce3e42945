from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mrag.documents import loaders
from mrag.documents.loaders import list_inputs, read_input
from mrag.documents.units import split_units
from mrag.errors import InputError
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Document, Outcome, Status


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder: Path, name: str, content: str | bytes) -> Document | Outcome:
    [item] = read_input(folder, write(folder, name, content))
    return item


def document(folder: Path, name: str, content: str | bytes) -> Document:
    item = read(folder, name, content)
    assert isinstance(item, Document), item
    return item


def outcome(folder: Path, name: str, content: str | bytes) -> Outcome:
    item = read(folder, name, content)
    assert isinstance(item, Outcome), item
    return item


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in list_inputs(folder)]


# --------------------------------------------------------------------------- listing


def test_all_files_below_the_folder_in_order_hidden_ones_apart(tmp_path: Path) -> None:
    for name in ("b.txt", "a/README.md", "b/README.md", "a.pdf", ".git/x.txt", "b/.hidden.md", "LICENSE"):
        write(tmp_path, name, "x")
    assert names(tmp_path) == ["LICENSE", "a/README.md", "a.pdf", "b/README.md", "b.txt"]


def test_links_stay_when_they_point_inside(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    write(outside, "secret.txt", "s")
    write(folder, "a.txt", "a")
    (folder / "same.txt").symlink_to("a.txt")
    (folder / "secret.txt").symlink_to(outside / "secret.txt")
    (folder / "up").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "gone.txt").symlink_to("b.txt")
    assert names(folder) == ["a.txt", "gone.txt", "same.txt"]
    [gone] = read_input(folder, folder / "gone.txt")
    assert isinstance(gone, Outcome)
    assert gone.status is Status.FAILED


@pytest.mark.parametrize("make", ["missing", "file", "empty", "only hidden"])
def test_a_folder_without_inputs_is_refused(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "docs"
    if make == "file":
        folder.write_text("x")
    if make in ("empty", "only hidden"):
        folder.mkdir()
    if make == "only hidden":
        write(folder, ".x.txt", "x")
    with pytest.raises(InputError) as refused:
        list_inputs(folder)
    assert refused.value.field == "folder"
    assert str(folder) in str(refused.value)


def refuse_listing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    scandir = os.scandir

    def scan(folder: Path) -> Any:
        if folder.name == name:
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)


def test_a_subfolder_that_cannot_be_listed_fails_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.txt", "a")
    write(tmp_path, "shut/b.txt", "b")
    refuse_listing(monkeypatch, "shut")
    assert names(tmp_path) == ["a.txt", "shut"]
    [shut] = read_input(tmp_path, tmp_path / "shut")
    assert shut == Outcome("shut", Status.FAILED, "The folder can't be listed; check its permissions.")


def failure(folder: Path, path: Path) -> Outcome:
    [item] = read_input(folder, path)
    assert isinstance(item, Outcome)
    assert item.status is Status.FAILED
    return item


def test_links_in_a_circle_and_in_a_long_chain_fail_by_name(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "a")
    for name, target in (("loop.txt", "loop.txt"), ("one.md", "two.md"), ("two.md", "one.md")):
        (tmp_path / name).symlink_to(target)
    for number in range(1200):
        (tmp_path / f"c{number:04}.txt").symlink_to(f"c{number + 1:04}.txt")
    (tmp_path / "c1200.txt").write_text("x")
    assert len(names(tmp_path)) == 4 + 1201
    for name in ("loop.txt", "one.md", "c0000.txt"):
        assert "symbolic links" in failure(tmp_path, tmp_path / name).detail
    [end] = read_input(tmp_path, tmp_path / "c1190.txt")
    assert isinstance(end, Document)


def test_a_subfolder_whose_entries_cannot_be_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder may be listed and not entered: every question about what lies in it is refused."""
    write(tmp_path, "a.txt", "a")
    write(tmp_path, "shut/b.txt", "b")
    write(tmp_path, "shut/deep/c.txt", "c")
    (tmp_path / "shut" / "link.txt").symlink_to("b.txt")
    ask = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if isinstance(path, int) or "/shut/" not in str(path):
            return ask(path, **options)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    refuse_listing(monkeypatch, "deep")
    assert names(tmp_path) == ["a.txt", "shut/b.txt", "shut/deep", "shut/link.txt"]
    for name in names(tmp_path)[1:]:
        assert failure(tmp_path, tmp_path / name).detail == "It can't be read: Permission denied."


Nest = Callable[[str, int], None]


@pytest.fixture
def nest(tmp_path: Path) -> Iterator[Nest]:
    """Makes folders below each other, and `a.txt` in the last: step by step, for no path may be so long."""
    made: list[Path] = []

    def make(name: str, depth: int) -> None:
        made.append(tmp_path / name)
        here = os.open(tmp_path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        file = os.open("a.txt", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
        os.write(file, b"deep")
        os.close(file)
        os.close(here)

    yield make
    # Python's own removal is recursive.
    subprocess.run(["rm", "-r", *made], check=True)


def test_a_thousand_folders_below_each_other_are_read(tmp_path: Path, nest: Nest) -> None:
    nest("d", 1200)
    [path] = list_inputs(tmp_path)
    [found] = read_input(tmp_path, path)
    assert isinstance(found, Document)
    assert found.id == "d/" * 1200 + "a.txt"


def test_a_path_that_is_too_long_fails_by_name_and_the_rest_is_read(tmp_path: Path, nest: Nest) -> None:
    write(tmp_path, "z.txt", "z")
    nest("d" * 250, 20)
    long, last = list_inputs(tmp_path)
    assert last == tmp_path / "z.txt"
    failed = failure(tmp_path, long)
    assert failed.detail == "It can't be read: File name too long."
    assert failed.id.startswith("d" * 250 + "/")


# --------------------------------------------------------------------------- what is read, what is not


def test_two_files_of_one_name_in_two_folders_are_two_documents(tmp_path: Path) -> None:
    ids = [document(tmp_path, f"{folder}/README.md", f"# {folder}").id for folder in "ab"]
    assert ids == ["a/README.md", "b/README.md"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xyz", b"text"),
        ("Makefile", b"all:"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
        ("a.md", b"t\x00e\x00x\x00t\x00"),
        ("a.jsonl", b'{"id": "a"}\n\x00\x00\x00'),
        ("a.txt", bytes(random.Random(7).choices(range(256), k=8192))),
        ("a.txt", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00>\x00" + b"a long text of a library " * 2),
        ("a.jsonl", '{"id": "a"}'.encode("utf-16-le")),
        ("a.txt", b"\xff\xfe\x00\xd8"),
        ("a.txt", bytes(range(128, 160)) * 9),
    ],
)
def test_what_is_no_text_is_unsupported(tmp_path: Path, name: str, content: bytes) -> None:
    found = outcome(tmp_path, name, content)
    assert (found.id, found.status) == (name, Status.UNSUPPORTED)
    assert found.detail


@pytest.mark.parametrize(
    "text", ["a\0b", "\0", "one\n\ntwo \0three", "long " * 99 + "\0" * 9, "x" * 9000 + "\0"]
)
def test_a_nul_in_a_text_is_a_character_that_could_not_be_read(tmp_path: Path, text: str) -> None:
    assert document(tmp_path, "a.txt", text).text == text.replace("\0", "\ufffd")


def test_a_nul_in_a_line_costs_at_most_the_line(tmp_path: Path) -> None:
    lines = [b'{"id": "a", "text": "one \x00 two"}', b'\x00{"id": "b"}', b'{"id": "c", "text": "three"}']
    first, broken, last = read_input(tmp_path, write(tmp_path, "a.jsonl", b"\n".join(lines)))
    assert isinstance(first, Document)
    assert first.text == "one \ufffd two"
    assert (broken.id, isinstance(broken, Outcome)) == ("a.jsonl#2", True)
    assert last.id == "c"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    [item] = read_input(tmp_path, list_inputs(tmp_path)[0])
    assert isinstance(item, Outcome)
    assert item.status is Status.UNSUPPORTED


def test_a_file_that_cannot_be_read_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.txt", "a")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert list(read_input(tmp_path, path)) == [
        Outcome("a.txt", Status.FAILED, "It can't be read: Permission denied.")
    ]


@pytest.mark.parametrize(
    "fault", [RecursionError(), MemoryError(), KeyError("/Root"), AssertionError("\n x")]
)
def test_what_a_library_ends_with_costs_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def load(path: Path, name: str) -> Iterator[Document]:
        yield Document("before", "text")
        raise fault

    monkeypatch.setitem(loaders.LOADERS, ".pdf", load)  # type: ignore[arg-type]
    read, failed = read_input(tmp_path, write(tmp_path, "a.pdf", "%PDF"))
    assert isinstance(read, Document)
    assert isinstance(failed, Outcome)
    assert (failed.id, failed.status) == ("a.pdf", Status.FAILED)
    assert type(fault).__name__ in failed.detail
    assert "\n" not in failed.detail


def test_a_file_that_vanished_fails(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a.jsonl"):
        [item] = read_input(tmp_path, tmp_path / name)
        assert isinstance(item, Outcome)
        assert (item.id, item.status) == (name, Status.FAILED)


def test_an_empty_file_is_a_document_without_text(tmp_path: Path) -> None:
    assert document(tmp_path, "a.txt", "").text == ""


# --------------------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("naïve “quotes”, 日本", "utf-8"),
        ("naïve “quotes”, 日本", "utf-8-sig"),
        ("naïve “quotes”, 日本", "utf-16"),
        ("naïve “quotes”, 日本", "utf-32"),
        ("Die Straße ist schön und die Äpfel sind süß.", "cp1252"),
        ("Le café était fermé, à côté de l'hôtel où nous étions.", "cp1252"),
        ("Zażółć gęślą jaźń, to jest próba kodowania.", "cp1250"),
        ("Привет, это проверка кодировки текста на русском языке.", "cp1251"),
        ("日本語のテキストです。これは試験です。", "shift_jis"),
        ("中文文本测试，这是一个句子。今天天气很好。", "gb18030"),
    ],
)
def test_encodings(tmp_path: Path, text: str, encoding: str) -> None:
    assert document(tmp_path, "a.txt", text.encode(encoding)).text == text


def test_text_is_clean_whatever_the_loader(tmp_path: Path) -> None:
    assert document(tmp_path, "a.txt", b"a\r\nb\rc\n").text == "a\nb\nc\n"
    late_nul = b"x" * 9000 + b"\x00"
    assert document(tmp_path, "b.txt", late_nul).text.endswith("x\ufffd")
    line = '{"id": "\\ud800i", "text": "a\\u0000b\\udfffc\\r\\nd", "title": "t\\ud83d", "k": ["\\ud800"]}'
    found = document(tmp_path, "c.jsonl", line)
    assert (found.id, found.text, found.title) == ("\ufffdi", "a\ufffdb\ufffdc\nd", "t\ufffd")
    assert found.metadata["k"] == ["\ufffd"]


def test_file_names_that_are_not_utf_8_stay_apart(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"\xff.txt", b"\xfe.txt", b"\xed\xa0\x80.txt", b"a\rb.txt", b"a\nb.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    found = [item for path in list_inputs(tmp_path) for item in read_input(tmp_path, path)]
    assert {item.id for item in found} == {
        *(r"caf\xe9.txt", r"\xff.txt", r"\xfe.txt", r"\xed\xa0\x80.txt", "a\rb.txt", "a\nb.txt")
    }
    for item in found:
        assert isinstance(item, Document)
        item.title.encode()


# --------------------------------------------------------------------------- titles and headings


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("price-list_2025.txt", "Price list 2025"),
        ("reports/minutes-2024-04-18.txt", "Minutes 2024-04-18"),
        ("été.txt", "Été"),
        ("___.txt", "___"),
    ],
)
def test_a_title_from_the_name(tmp_path: Path, name: str, title: str) -> None:
    assert document(tmp_path, name, "x").title == title


def headings(folder: Path, text: str) -> list[tuple[int, str, str]]:
    found = document(folder, "a.md", text)
    return [(each.level, each.text, found.text[each.start : each.end]) for each in found.headings]


def test_headings_of_both_forms_with_their_offsets(tmp_path: Path) -> None:
    text = "Intro\n\n# The *big* `x` [one](u) #\ntext\nSub\ntitle\n-----\n\n  ### Café &amp; 日本\n######\n"
    assert headings(tmp_path, text) == [
        (1, "The big x one", "# The *big* `x` [one](u) #"),
        (2, "text Sub title", "text\nSub\ntitle\n-----"),
        (3, "Café & 日本", "### Café &amp; 日本"),
        (6, "", "######"),
    ]


def test_what_looks_like_a_heading_and_is_none(tmp_path: Path) -> None:
    text = (
        "---\ntitle: x\n---\n\n```\n# code\n```\n\n    # indented\n\n> # quoted\n\n- # item\n\n"
        "<!--\n# comment\n-->\n\n#hash\n\n| a |\n|---|\n"
    )
    assert headings(tmp_path, text) == []


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    assert headings(tmp_path, "---\n\n# One\n\n---\n") == [(1, "One", "# One")]


def test_the_title_is_the_first_heading_of_level_one(tmp_path: Path) -> None:
    assert document(tmp_path, "a.md", "## Sub\n# Real *title*\n# Other").title == "Real title"
    assert document(tmp_path, "my-notes.md", "## Sub").title == "My notes"


# --------------------------------------------------------------------------- JSON lines


def test_lines_with_everything_and_with_the_least(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "sub/a.jsonl",
        '\ufeff{"id": "one", "title": " A  b ", "paragraphs": ["x", "y"], "l": "en", "metadata": {"n": 1}}\n'
        '\n   \n{"id": "two", "text": "t", "title": null, "metadata": null}',
    )
    assert list(read_input(tmp_path, path)) == [
        Document("one", "x\n\ny", "A b", {"path": "sub/a.jsonl", "format": "jsonl", "l": "en", "n": 1}),
        Document("two", "t", "", {"path": "sub/a.jsonl", "format": "jsonl"}),
    ]


def test_paragraphs_of_a_list_stay_whole(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps({"id": "a", "paragraphs": ["x\n \n\r\ny", "z"]}))
    [found] = read_input(tmp_path, path)
    assert isinstance(found, Document)
    assert found.text == "x\ny\n\nz"
    assert [unit.text for unit in split_units(found, ByteTokenizer(), 100)] == ["x\ny", "z"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"text": "x"}',
        b'{"id": "", "text": "x"}',
        b'{"id": " ", "text": "x"}',
        b'{"id": 7, "text": "x"}',
        b'{"id": "a"}',
        b'{"id": "a", "text": 7}',
        b'{"id": "a", "text": null}',
        b'{"id": "a", "paragraphs": ["x", 7]}',
        b'{"id": "a", "text": "x", "title": 7}',
        b'{"id": "a", "text": "x", "metadata": [1]}',
        b'{"id": "a", "text": "x", "n": NaN}',
        b'{"id": "a", "text": "x", "n": 1e999}',
        b'{"id": "a", "text": "\xff"}',
        b'{"id": "a", "text": "x", "n": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"id": "a", "text": "x", "n": ' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"id": "a", "text": "x", "metadata": {"n": ' + b'{"n":' * 65 + b"1" + b"}" * 67,
        b'{"id": "a", "text": "x", "n": 9223372036854775808}',
        b'{"id": "a", "text": "x", "n": [-' + b"9" * 4000 + b"]}",
        b'{"id": "a", "text": "x", "n": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_bad_line_costs_itself(tmp_path: Path, line: bytes) -> None:
    good = b'{"id": "%d", "text": "x"}\n'
    path = write(tmp_path, "a.jsonl", good % 1 + line + b"\n" + good % 3)
    first, bad, last = read_input(tmp_path, path)
    assert [item.id for item in (first, bad, last)] == ["1", "a.jsonl#2", "3"]
    assert isinstance(bad, Outcome)
    assert bad.status is Status.FAILED
    assert bad.detail.endswith(".")


def test_metadata_within_the_bounds_stays_as_it_is(tmp_path: Path) -> None:
    nested = json.loads("[" * 64 + "]" * 64)
    fields = {"id": "a", "text": "x", "n": nested, "least": -(1 << 63), "most": (1 << 63) - 1, "yes": True}
    found = document(tmp_path, "a.jsonl", json.dumps(fields))
    assert {key: found.metadata[key] for key in ("n", "least", "most", "yes")} == {
        key: fields[key] for key in ("n", "least", "most", "yes")
    }


def test_lines_in_utf_16(tmp_path: Path) -> None:
    text = '{"id": "a", "text": "é"}\n{"id": "b", "text": "日"}\n'
    path = write(tmp_path, "a.jsonl", text.encode("utf-16"))
    assert [item.id for item in read_input(tmp_path, path)] == ["a", "b"]


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"id": "a", "text": "x"}\n' * 3)
    items = read_input(tmp_path, path)
    next(items)
    path.unlink()
    assert len(list(items)) == 2
