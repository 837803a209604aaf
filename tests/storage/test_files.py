"""Listing, opening and fingerprinting, on local paths and through fsspec."""

from __future__ import annotations

import os
import sys
import uuid

import fsspec
import pytest
from fsspec.registry import _registry

from tb_plugin.errors import NotFoundError, StorageError
from tb_plugin.storage import files
from tb_plugin.storage.files import Folder, open_local
from tb_plugin.storage.urls import expand, parse_spec


def put(path, data=b"{}"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def paths(folder):
    return [file.path for file in folder.list().files]


@pytest.fixture
def memory():
    name = uuid.uuid4().hex
    fs = fsspec.filesystem("memory")
    fs.pipe(f"/{name}/a.json", b"{}")
    fs.pipe(f"/{name}/run/b.json", b"[]")
    yield f"memory://{name}"
    fs.rm(f"/{name}", recursive=True)


def test_walk_is_recursive_and_sorted(tmp_path):
    for name in ("b.json", "a/c.json", "a/b/d.json"):
        put(tmp_path / name)
    assert paths(Folder(str(tmp_path))) == ["a/b/d.json", "a/c.json", "b.json"]


def test_trailing_slash_home_and_variables(tmp_path, monkeypatch):
    put(tmp_path / "logs" / "a.json")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WHERE", str(tmp_path / "logs"))
    for url in (f"{tmp_path}/logs/", "~/logs", "$WHERE", f"file://{tmp_path}/logs"):
        assert paths(Folder(url)) == ["a.json"]
        assert Folder(url).name == "logs"


def test_root_is_kept():
    assert expand("/") == "/"


def test_single_file(tmp_path):
    path = put(tmp_path / "run" / "a.json")
    put(tmp_path / "run" / "other.json")
    folder = Folder(str(path))
    assert paths(folder) == ["a.json"]
    assert folder.locate("a.json") == str(path)
    assert folder.name == "run"


def test_symlink_loop_ends(tmp_path):
    put(tmp_path / "run" / "a.json")
    (tmp_path / "run" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    listing = Folder(str(tmp_path)).list()
    assert [file.path for file in listing.files] == ["run/a.json"]


def test_a_directory_outside_is_followed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_FOLLOW_LINKS", "1")
    put(tmp_path / "outside" / "a.json")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "one").symlink_to(tmp_path / "outside")
    (logs / "two").symlink_to(tmp_path / "outside")
    assert paths(Folder(str(logs))) == ["one/a.json"]


def test_a_directory_keeps_its_own_name_when_a_link_sorts_first(tmp_path):
    put(tmp_path / "z" / "a.json")
    (tmp_path / "a").symlink_to(tmp_path / "z")
    assert paths(Folder(str(tmp_path))) == ["z/a.json"]


def test_pipes_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    assert paths(Folder(str(tmp_path))) == []


def test_a_name_that_is_no_text_is_reported(tmp_path):
    put(tmp_path / "ü.json")
    (tmp_path / os.fsdecode(b"a\xff.json")).write_bytes(b"{}")
    listing = Folder(str(tmp_path)).list()
    assert [file.path for file in listing.files] == ["ü.json"]
    assert [entry.path for entry in listing.unlisted] == ["a\ufffd.json"]


def test_unreadable_directory_is_reported(tmp_path, monkeypatch):
    put(tmp_path / "good" / "a.json")
    put(tmp_path / "bad" / "b.json")
    real = os.scandir

    def scandir(path):
        if str(path).endswith("bad"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = Folder(str(tmp_path)).list()
    assert [file.path for file in listing.files] == ["good/a.json"]
    assert [(entry.path, entry.reason) for entry in listing.unlisted] == [("bad", "Permission denied")]


def test_missing_path(tmp_path):
    with pytest.raises(NotFoundError):
        Folder(str(tmp_path / "none")).list()
    with pytest.raises(NotFoundError):
        Folder("memory://nothing-here-at-all").list()
    with pytest.raises(StorageError):
        open_local(str(tmp_path / "none"))


def test_fingerprint_follows_the_content(tmp_path):
    path = put(tmp_path / "a.json", b"1")
    folder = Folder(str(tmp_path))
    before = folder.list().files[0].fingerprint
    assert folder.list().files[0].fingerprint == before
    path.write_bytes(b"12")
    assert folder.list().files[0].fingerprint != before


def test_memory(memory):
    folder = Folder(memory)
    assert paths(folder) == ["a.json", "run/b.json"]
    assert not folder.is_local
    with folder.open(folder.list().files[1]) as stream:
        assert stream.read() == b"[]"
    single = Folder(f"{memory}/run/b.json")
    assert paths(single) == ["b.json"] and single.name == "run"
    assert single.open(single.list().files[0]).read() == b"[]"


def test_memory_fingerprint_follows_the_content(memory):
    before = Folder(memory).list().files[0].fingerprint
    fsspec.filesystem("memory").pipe(f"/{memory.removeprefix('memory://')}/a.json", b"[]")
    assert Folder(memory).list().files[0].fingerprint != before


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket/logs", "s3fs", "s3"),
        ("gs://bucket/logs", "gcsfs", "gcs"),
        ("gs://bucket/logs", "aiohttp", "gcs"),
        ("abfs://bucket/logs", "adlfs", "azure"),
        ("https://acct.blob.core.windows.net/bucket/logs", "adlfs", "azure"),
    ],
)
def test_missing_package_says_what_to_install(monkeypatch, url, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    for scheme in ("s3", "gs", "abfs"):  # fsspec keeps the classes that it imported once
        monkeypatch.delitem(_registry, scheme, raising=False)
    with pytest.raises(StorageError) as caught:
        Folder(url).list()
    assert caught.value.do == f"Install the package: pip install 'torch-trace-tb[{extra}]'"


def test_unknown_scheme():
    with pytest.raises(StorageError, match="nosuch"):
        Folder("nosuch://bucket/logs").list()


@pytest.mark.parametrize(
    ("spec", "pairs"),
    [
        ("a:/x,b:/y", [("a", "/x"), ("b", "/y")]),
        ("/x,s3://b/c", [("", "/x"), ("", "s3://b/c")]),
        ("a:s3://b/c", [("a", "s3://b/c")]),
        (" a:/x , ", [("a", "/x")]),
    ],
)
def test_spec(spec, pairs):
    assert parse_spec(spec) == pairs


def test_source(tmp_path):
    path = put(tmp_path / "a.json", b"12345")
    source = files.FileSource({"a.json": str(path)})
    assert (list(source.names()), source.size("a.json"), source.open("a.json").read()) == (["a.json"], 5, b"12345")
