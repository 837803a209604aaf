"""The file store: atomic, bounded, shared."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from tb_plugin.lib.temp_dirs import PrivateFolder
from tb_plugin.storage.cache import FileStore, open_store
from tb_plugin.storage.checksum import seal_of, with_checksum, without_checksum


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


def test_small_files_are_not_counted_anew_with_each_of_them(tmp_path, monkeypatch):
    """A thousand files below the bound, and four thousand that pass it many times."""
    looks, real = [], FileStore._files
    monkeypatch.setattr(FileStore, "_files", lambda store: looks.append(1) or real(store))
    store = FileStore(tmp_path, limit_bytes=16_000)
    for number in range(1_000):
        fill(store, str(number), 1, 0)
    assert len(looks) == 1
    for number in range(4_000):
        fill(store, f"more {number}", 10, -number)
        assert len(looks) * 1_000 <= 1_000 + (number + 2) * 10 + 1_000, "one for each sixteenth of the bound"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 16_000


def test_the_first_file_of_a_process_sees_what_others_left(tmp_path):
    old = fill(FileStore(tmp_path), "old", 100, 50)
    fill(FileStore(tmp_path, limit_bytes=50), "new", 1, 0)
    assert not old.exists()


def test_abandoned_partial_files_go(tmp_path):
    store = FileStore(tmp_path)
    stale = tmp_path / "k.bin.part-1"
    stale.write_bytes(b"")
    fresh = tmp_path / "k.bin.part-2"
    fresh.write_bytes(b"")
    os.utime(stale, (0, 0))
    store.evict()
    assert (stale.exists(), fresh.exists()) == (False, True)


def test_folder_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("TORCH_TRACE_CACHE_MB", "5")
    store = open_store()
    assert (store.folder, store.limit_bytes) == (tmp_path / "here", 5_000_000)
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_off_is_private_and_temporary(monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", "off")
    store = open_store()
    folder = store.folder
    assert folder.is_dir()
    del store
    gc.collect()
    assert not folder.exists()


def test_unusable_folder_falls_back(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "file"))
    store = open_store()
    assert store.folder.is_dir() and "Cannot use the cache folder" in caplog.text


def test_default_is_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_TRACE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert open_store().folder == Path(tmp_path / "torch-trace")


def test_what_is_held_stays_until_it_is_let_go(tmp_path):
    store = FileStore(tmp_path, limit_bytes=150)
    held = store.path("old", ".bin")
    with store.pinned(held), store.pinned(held, store.path("other", ".bin")):
        old = fill(store, "old", 100, 50)
        new = fill(store, "new", 100, 0)
        assert old.exists() and new.exists()
    store.evict(keep=new)
    assert (old.exists(), new.exists()) == (False, True)


def test_files_that_are_being_written_count(tmp_path):
    store = FileStore(tmp_path, limit_bytes=150)
    old = fill(store, "old", 100, 50)
    (tmp_path / "next.bin.part-1").write_bytes(b"x" * 100)
    store.evict()
    assert not old.exists()


@pytest.mark.parametrize("off", ["", " ", "off", "OFF"])
def test_ways_to_turn_it_off(monkeypatch, off):
    monkeypatch.setenv("TORCH_TRACE_CACHE", off)
    assert open_store().folder.parent == Path(tempfile.gettempdir())


def test_a_folder_that_vanished_is_made_again(tmp_path):
    store = FileStore(tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    store.evict()
    assert fill(store, "k", 1, 0).exists()


def test_seals(tmp_path):
    body = bytes(range(256)) * 10_000
    (tmp_path / "f").write_bytes(body)
    assert seal_of(tmp_path / "f") == (len(body), zlib.crc32(body))
    whole = with_checksum(body)
    assert without_checksum(whole) == body and without_checksum(with_checksum(b"")) == b""
    for damaged in (b"", whole[:-1], whole + b"x", whole[:9], body, b"0" + whole[1:], whole[:50] + b"!" + whole[51:]):
        with pytest.raises(ValueError, match="checksum"):
            without_checksum(damaged)


HANGS_UP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
"""Whoever runs the tests under nohup lets them ignore it."""
ABANDON = """
import os, signal, sys
from tb_plugin.storage.cache import open_store
store = open_store()
store.put("k", ".bin", lambda partial: partial.write_bytes(b"1"))
print(store.folder, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGHUP"])
def test_the_private_folder_of_a_killed_process_goes_with_the_next_start(tmp_path, monkeypatch, how):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TORCH_TRACE_CACHE", "off")
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = subprocess.run([sys.executable, "-c", HANGS_UP + ABANDON, how], capture_output=True, text=True, check=False)
    assert Path(done.stdout.strip()).exists()
    somebody_elses = tmp_path / "torch-trace-without-a-lock"
    somebody_elses.mkdir()
    first, second = open_store(), open_store()
    assert not Path(done.stdout.strip()).exists() and somebody_elses.exists()
    assert first.folder.exists() and second.folder.exists(), "and those in use stay"
    first.evict()
    assert open_store().folder != first.folder and first.folder.exists(), "its lock is no file of the store"


COPIES = """
import io, os, signal
from tb_plugin.formats.ascend.database.safe_open import MAGIC, open_database
from tb_plugin.formats.issues import IssueLog
class Source:
    def size(self, name): return 4096
    def open(self, name): return io.BytesIO(MAGIC.ljust(4096, b"0"))
with open_database(Source(), "a.db", IssueLog(), lambda fraction: None):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_copy_of_a_killed_reader_goes_with_the_next_start(tmp_path, monkeypatch):
    """The cache has a folder of its own, so that the next start makes no private one."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = subprocess.run([sys.executable, "-c", COPIES], capture_output=True, text=True, check=False)
    copies = list(tmp_path.rglob("copy.db"))
    assert copies, done.stderr
    with PrivateFolder() as used:
        open_store()
        assert not copies[0].exists() and used.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_command_that_is_told_to_end_removes_its_private_folder(tmp_path):
    script = HANGS_UP + "from tb_plugin import cli\ncli._end_in_order()\n" + ABANDON
    env = {**os.environ, "TMPDIR": str(tmp_path), "TORCH_TRACE_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", script, "SIGHUP"], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 129, done.stderr
    assert done.stdout.strip() and not Path(done.stdout.strip()).exists()
