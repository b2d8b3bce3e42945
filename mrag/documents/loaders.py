"""What lies in a folder, and the loader that reads each file of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mrag.documents import docx, html, jsonl, markdown, pdf, text
from mrag.documents.decoding import UnsupportedError
from mrag.errors import DocumentError, InputError, foreseen
from mrag.schema import Document, Outcome, Status

Loader = Callable[[Path, str], Iterator[Document | Outcome]]

LOADERS: Mapping[str, Loader] = {
    suffix: module.load for module in (text, markdown, html, pdf, docx, jsonl) for suffix in module.SUFFIXES
}


def list_inputs(folder: Path) -> list[Path]:
    """All files below `folder`, sorted by path; a subfolder that can't be listed stands for its files.

    Hidden files and folders are left out, and links that leave the folder. Raises InputError for a
    folder that is missing, unreadable or without any file.
    """
    if not os.path.exists(folder):
        raise InputError("folder", f"There is no folder {folder}; give the path of one that exists.")
    if not os.path.isdir(folder):
        raise InputError("folder", f"{folder} is a file; give the path of the folder that holds it.")
    inputs = sorted(_walk(folder, os.path.realpath(folder)))
    if inputs == [folder]:
        raise InputError("folder", f"Can't list the folder {folder}; check its permissions.")
    if not inputs:
        raise InputError("folder", f"There is nothing to index in {folder}.")
    return inputs


def _walk(folder: Path, root: str) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(below) as entries:
                seen = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError:
            yield below
            continue
        waiting += [below / entry.name for entry in seen if _is_folder(entry)]
        yield from (below / entry.name for entry in seen if _is_input(entry, root))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_input(entry: os.DirEntry[str], root: str) -> bool:
    try:
        if not entry.is_symlink():
            return not _is_folder(entry)
        is_folder = stat.S_ISDIR(os.stat(entry.path).st_mode)
    except OSError:
        return True  # What can't be examined, leads nowhere or in a circle fails by name when it is read.
    return not is_folder and Path(os.path.realpath(entry.path)).is_relative_to(root)


def read_input(folder: Path, path: Path) -> Iterator[Document | Outcome]:
    """The documents of one listed file, or what came of it: `unsupported` or `failed`, with the reason.

    A file's document is named by its path relative to `folder`, with forward slashes; a byte of it that
    is not UTF-8 is written as `\\xff`, so that two names stay two.
    """
    name = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "backslashreplace")
    try:
        with foreseen("Reading it"):
            yield from _loader(path)(path, name)
    except UnsupportedError as error:
        yield Outcome(name, Status.UNSUPPORTED, str(error))
    except DocumentError as error:
        yield Outcome(name, Status.FAILED, str(error))
    except OSError as error:
        yield Outcome(name, Status.FAILED, f"It can't be read: {error.strerror or error}.")


def _loader(path: Path) -> Loader:
    if path.is_dir():
        raise DocumentError("The folder can't be listed; check its permissions.")
    if path.suffix.lower() not in LOADERS:
        raise UnsupportedError(
            f"Only {', '.join(sorted(LOADERS))} are read; convert the file to one of them."
        )
    if path.exists() and not path.is_file():
        raise UnsupportedError("It is not a regular file.")
    return LOADERS[path.suffix.lower()]
