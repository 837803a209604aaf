"""The file store: atomic, bounded, shared."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tb_plugin.storage.cache import FileStore, open_store


def fill(store, key, size, age):
    path = store.put(key, ".bin", lambda partial: partial.write_bytes(b"x" * size))
    os.utime(path, (1000 - age, 1000 - age))
    return path


def test_put_and_get(tmp_path):
    store = FileStore(tmp_path)
    assert store.get("k", ".bin") is None
    path = store.put("k", ".bin", lambda partial: partial.write_bytes(b"1"))
    assert store.get("k", ".bin") == path and path.read_bytes() == b"1"


def test_keys_never_leave_the_folder(tmp_path):
    store = FileStore(tmp_path / "cache")
    path = store.put("../../etc/passwd", ".bin", lambda partial: partial.write_bytes(b"1"))
    assert path.parent == tmp_path / "cache"


def test_failed_write_leaves_nothing(tmp_path):
    store = FileStore(tmp_path)

    def fail(partial):
        partial.write_bytes(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.put("k", ".bin", fail)
    assert list(tmp_path.iterdir()) == []


def test_least_recently_used_goes_first(tmp_path):
    store = FileStore(tmp_path, limit_bytes=250)
    old, used = fill(store, "old", 100, 50), fill(store, "used", 100, 90)
    assert store.get("used", ".bin") == used
    new = fill(store, "new", 100, 0)
    assert (old.exists(), used.exists(), new.exists()) == (False, True, True)


def test_the_new_file_stays_even_when_it_is_too_large(tmp_path):
    store = FileStore(tmp_path, limit_bytes=10)
    assert fill(store, "big", 100, 0).exists()


def test_abandoned_partial_files_go(tmp_path):
    store = FileStore(tmp_path)
    stale = store.partial(store.path("k", ".bin"))
    stale.write_bytes(b"")
    fresh = store.partial(store.path("k", ".bin"))
    fresh.write_bytes(b"")
    os.utime(stale, (0, 0))
    store.evict()
    assert (stale.exists(), fresh.exists()) == (False, True)


def test_folder_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("TORCH_TRACE_CACHE_MB", "5")
    store = open_store()
    assert (store.folder, store.limit_bytes) == (tmp_path / "here", 5_000_000)
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_off_is_private_and_temporary(monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE_DIR", "off")
    store = open_store()
    folder = store.folder
    assert folder.is_dir()
    del store
    gc.collect()
    assert not folder.exists()


def test_unusable_folder_falls_back(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCH_TRACE_CACHE_DIR", str(tmp_path / "file"))
    store = open_store()
    assert store.folder.is_dir() and "cannot be used" in caplog.text


def test_default_is_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_TRACE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert open_store().folder == Path(tmp_path / "torch-trace")


def test_what_is_held_stays_until_it_is_let_go(tmp_path):
    store = FileStore(tmp_path, limit_bytes=150)
    with store.held("old", ".bin"), store.held("old", ".bin"):
        old = fill(store, "old", 100, 50)
        new = fill(store, "new", 100, 0)
        assert old.exists() and new.exists()
    store.evict(keep=new)
    assert (old.exists(), new.exists()) == (False, True)


def test_files_that_are_being_written_count(tmp_path):
    store = FileStore(tmp_path, limit_bytes=150)
    old = fill(store, "old", 100, 50)
    store.partial(store.path("next", ".bin")).write_bytes(b"x" * 100)
    store.evict()
    assert not old.exists()
