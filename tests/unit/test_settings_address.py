"""The address of an object store: what it says, what is refused, and that it goes where a folder goes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection.mirror import local_root
from mrag.errors import SettingsError
from mrag.settings import load_settings, parse_settings, require_absolute_root
from mrag.settings.address import StoreAddress, shown, store_address

WORD = st.text("abz019", min_size=3, max_size=12)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket", StoreAddress("bucket")),
        ("s3://bucket/", StoreAddress("bucket")),
        ("s3://my.bucket-1/a/b", StoreAddress("my.bucket-1", "a/b")),
        ("s3://bucket/a?region=eu-central-1", StoreAddress("bucket", "a", "eu-central-1")),
        (
            "s3://bucket?scheme=http&endpoint_override=localhost:9000&cache_gib=0.5",
            StoreAddress("bucket", "", None, "http://localhost:9000", 0.5),
        ),
        (
            "s3://bucket?endpoint_override=s3.example.org",
            StoreAddress("bucket", "", None, "https://s3.example.org"),
        ),
    ],
)
def test_an_address_is_read(text: str, address: StoreAddress) -> None:
    root = load_settings(None, (f"collection.root={text}",)).collection.root
    assert store_address(root) == address
    assert shown(root) == str(address) == text.partition("?")[0].rstrip("/")
    assert store_address(pickle.loads(pickle.dumps(root))) == address
    require_absolute_root(parse_settings({"collection": {"root": root}}))


@pytest.mark.parametrize("folder", ["collections", "/mnt/a b/c", "../x", "a:b", "c:/x", "s3", "/s3:/x"])
def test_a_folder_is_no_address(folder: str) -> None:
    root = parse_settings({"collection": {"root": folder}}).collection.root
    assert store_address(root) is None
    assert (local_root(root), shown(root)) == (Path(folder), str(Path(folder)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gs://bucket/a", "gs: is no kind of object store"),
        ("https://host/bucket", "https: is no kind"),
        ("s3://B_/a", "is no bucket"),
        ("s3://bucket/a b", "is no bucket"),
        ("s3://bucket/../x", "is no bucket"),
        ("s3://bucket?acl=public", "acl is no parameter"),
        ("s3://bucket?scheme=ftp", "is no endpoint"),
        ("s3://bucket?endpoint_override=a/b", "is no endpoint"),
        ("s3://bucket?cache_gib=lots", "cache_gib is 'lots'"),
    ],
)
def test_what_is_no_address_is_refused_with_its_path(text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=rf"collection\.root: .*{told}"):
        parse_settings({"collection": {"root": text}})


def test_where_it_is_kept_is_the_machines_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "home"))
    assert local_root(Path("s3://bucket")).parent == tmp_path / "home" / "stores"
    monkeypatch.setenv("MRAG_STORES", str(tmp_path / "disk"))
    assert local_root(Path("s3://bucket")).parent == tmp_path / "disk"


@given(bucket=WORD, prefix=st.lists(WORD, max_size=3), region=WORD)
def test_another_address_has_another_mirror_and_parameters_do_not_count(
    bucket: str, prefix: list[str], region: str
) -> None:
    root = Path("s3://" + "/".join([bucket, *prefix]))
    assert local_root(root) == local_root(Path(f"{root}?region={region}&cache_gib=1"))
    assert local_root(root) != local_root(root / "more")
    assert local_root(root) != local_root(Path(f"{root}?endpoint_override={region}"))
