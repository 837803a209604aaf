"""Symbolic links, pipes and swapped files: nothing outside of the log directory is listed or read unless allowed."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import pytest

from tb_plugin.errors import StorageError
from tb_plugin.storage.files import FileSource, Folder
from tb_plugin.storage.local import LEADS_OUT, LINKS_VARIABLE
from tests.storage.test_files import put


def listed(folder):
    listing = Folder(str(folder)).list()
    return [file.path for file in listing.files], {each.path: each.reason for each in listing.unlisted}


@contextmanager
def at_once():
    """Ends a read that hangs."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(5)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.fixture
def logs(tmp_path):
    put(tmp_path / "outside" / "secret.json")
    put(tmp_path / "logs" / "run" / "a.json", b"[1]")
    return tmp_path / "logs"


def test_links_that_lead_out_are_told_and_not_followed(logs, caplog):
    (logs / "file.json").symlink_to(logs.parent / "outside" / "secret.json")
    (logs / "folder").symlink_to("../outside")
    (logs / "chain").symlink_to("folder")
    (logs / "gone").symlink_to("/nowhere/at/all")
    folder = Folder(str(logs))
    assert [file.path for file in folder.list().files] == ["run/a.json"]
    assert {each.path: each.reason for each in folder.list().unlisted} == dict.fromkeys(
        ("file.json", "folder", "chain", "gone"), LEADS_OUT
    )
    assert LINKS_VARIABLE in LEADS_OUT and caplog.text.count("4 symbolic links") == 1, "the log says so once"


def test_a_neighbour_whose_name_begins_alike_is_outside(logs):
    put(logs.parent / "logs2" / "b.json")
    (logs / "link").symlink_to("../logs2")
    assert listed(logs) == (["run/a.json"], {"link": LEADS_OUT})


def test_links_inside_are_followed(logs):
    (logs / "b.json").symlink_to("run/a.json")
    (logs / "again").symlink_to("run")
    assert listed(logs) == (["b.json", "run/a.json"], {})
    folder = Folder(str(logs))
    assert [folder.open(file).read() for file in folder.list().files] == [b"[1]", b"[1]"]


def test_a_log_directory_or_file_that_is_a_link(logs, tmp_path):
    (tmp_path / "link").symlink_to(logs)
    (tmp_path / "one.json").symlink_to(logs / "run" / "a.json")
    for url, path in (("link", "run/a.json"), ("one.json", "one.json")):
        folder = Folder(str(tmp_path / url))
        (file,) = folder.list().files
        assert (file.path, folder.open(file).read()) == (path, b"[1]")
        assert FileSource({"x": folder.located(file)}).open("x").read() == b"[1]"


def test_the_setting_allows_them(logs, monkeypatch):
    monkeypatch.setenv(LINKS_VARIABLE, "1")
    (logs / "folder").symlink_to("../outside")
    folder = Folder(str(logs))
    assert [file.path for file in folder.list().files] == ["folder/secret.json", "run/a.json"]
    assert folder.open(folder.list().files[0]).read() == b"{}"


def by_link(path, outside):
    path.unlink()
    path.symlink_to(outside / "secret.json")


def by_linked_folder(path, outside):
    put(outside / path.name, path.read_bytes())
    os.utime(outside / path.name, ns=(0, path.stat().st_mtime_ns))
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(outside)


def by_pipe(path, outside):
    path.unlink()
    os.mkfifo(path)


def by_folder(path, outside):
    path.unlink()
    path.mkdir()


def by_device(path, outside):
    path.unlink()
    path.symlink_to("/dev/zero")


def by_another_file(path, outside):
    path.rename(path.with_name("old.json"))
    put(path, b"[2]")


SWAPS = [by_link, by_linked_folder, by_pipe, by_folder, by_device, by_another_file]


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_a_file_swapped_after_it_was_listed_is_not_read(logs, swap):
    folder = Folder(str(logs))
    (file,) = folder.list().files
    located = folder.located(file)
    swap(logs / "run" / "a.json", logs.parent / "outside")
    with at_once():
        for read in (
            lambda: folder.open(file),
            lambda: folder.head(file, 9),
            lambda: FileSource({"x": located}).open("x"),
        ):
            with pytest.raises(StorageError):
                read()


def test_a_swap_is_refused_for_where_it_leads_even_when_it_looks_the_same(logs):
    """Size, time and inode of the listed file, behind a link that leads out: a hard link."""
    folder = Folder(str(logs))
    (file,) = folder.list().files
    os.link(logs / "run" / "a.json", logs.parent / "outside" / "a.json")
    (logs / "run").rename(logs / "old")
    (logs / "run").symlink_to("../outside")
    with pytest.raises(StorageError, match="leads out"):
        folder.open(file)
