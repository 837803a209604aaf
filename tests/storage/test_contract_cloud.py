"""One contract for every kind of storage, checked against real servers on this machine."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tb_plugin.errors import Cancelled, NotFoundError, StorageError
from tb_plugin.storage import files
from tb_plugin.storage.files import Folder, _filesystem
from tb_plugin.storage.listing import StoredFile
from tests import stores
from tests.depth import sampled

EVERY_CLOUD = ("s3", "gs", "abfs")
CLOUDS = sampled(EVERY_CLOUD, EVERY_CLOUD[:1])
ALL = ("file", "memory", *CLOUDS)
EVERY = ("file", "memory", *EVERY_CLOUD)
GONE = StoredFile("a.json", 2, "2-one")
_SECRETS = ("secret-of-the-tests", stores.ACCOUNT_KEY)


@pytest.fixture
def place(request, object_stores, tmp_path, monkeypatch):
    """A fresh folder of a kind of storage: its URL, its door, and a file system to fill it."""
    scheme, door, name = request.param, None, f"logs-{uuid.uuid4().hex[:8]}"
    if scheme == "file":
        url = str(tmp_path / name)
    elif scheme == "memory":
        url = f"memory://{name}"
    else:
        store = object_stores(scheme)
        for key, value in store.environment.items():
            monkeypatch.setenv(key, value)
        door, url = store.door, f"{store.url}/{name}"
        quicken(monkeypatch)
        fs, root = _filesystem(store.url)
        if scheme != "gs" and not fs.exists(root):
            fs.mkdir(root)
    fs, root = _filesystem(url)
    if scheme == "file":
        monkeypatch.setattr(fs, "auto_mkdir", True)
    fs.pipe({f"{root}/a.json": b"{}", f"{root}/run/b.json": b"[1, 2, 3]" * 1000})
    if door:
        door.requests.clear()
    yield SimpleNamespace(url=url, fs=fs, root=root, door=door, folder=Folder(url))
    if door:
        door.mode = "pass"


def quicken(monkeypatch):
    """The libraries wait up to a minute between their attempts; the tests do not."""
    from azure.storage.blob._shared.policies_async import AsyncStorageRetryPolicy

    async def at_once(*args):
        pass

    monkeypatch.setattr(AsyncStorageRetryPolicy, "sleep", at_once)
    monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=at_once))
    monkeypatch.setattr("s3fs.core.asyncio.sleep", at_once)
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0.01)


def kinds(*names):
    return pytest.mark.parametrize("place", names or ALL, indirect=True)


def listed(place):
    return {file.path: file for file in Folder(place.url).list().files}


@kinds()
def test_lists_with_sizes(place):
    place.fs.pipe(f"{place.root}-sibling/c.json", b"{}")
    assert {path: file.size for path, file in listed(place).items()} == {"a.json": 2, "run/b.json": 9000}


@kinds(*CLOUDS)
def test_one_listing_and_no_question_per_file(place):
    place.fs.pipe({f"{place.root}/run{i}/{i}.json": b"{}" for i in range(20)})
    place.door.requests.clear()
    assert len(listed(place)) == 22
    assert len(place.door.requests) <= 2, place.door.requests


@kinds(*EVERY)
def test_opens_and_reads_the_head(place):
    file = listed(place)
    with place.folder.open(file["run/b.json"]) as stream:
        assert stream.read() == b"[1, 2, 3]" * 1000
    assert place.folder.head(file["run/b.json"], 10) == b"[1, 2, 3]["
    assert place.folder.head(file["a.json"], 1000) == b"{}"


@kinds()
def test_a_single_file(place):
    folder = Folder(f"{place.url}/run/b.json")
    (file,) = folder.list().files
    assert file.path == "b.json"
    assert folder.head(file, 3) == b"[1,"


@kinds()
def test_fingerprint_and_change(place):
    before = listed(place)
    assert listed(place) == before
    place.fs.pipe(f"{place.root}/a.json", b"[]")
    after = listed(place)
    assert after["a.json"].fingerprint != before["a.json"].fingerprint
    assert after["run/b.json"] == before["run/b.json"]


@kinds()
def test_delete(place, tmp_path):
    place.fs.rm(f"{place.root}/a.json")
    assert list(listed(place)) == ["run/b.json"]
    with pytest.raises(StorageError):
        place.folder.copy(GONE, tmp_path / "copy")


@kinds()
def test_nothing_there(place):
    with pytest.raises((NotFoundError, StorageError)):
        Folder(f"{place.url}/none-of-that").list()


@kinds("memory", *CLOUDS)
def test_copies_with_progress(place, tmp_path):
    seen = []
    place.folder.copy(listed(place)["run/b.json"], tmp_path / "copy", seen.append)
    assert (tmp_path / "copy").read_bytes() == b"[1, 2, 3]" * 1000
    assert seen and max(seen) == 9000


@kinds(*CLOUDS)
def test_the_progress_of_a_large_copy_grows_to_the_end(place, tmp_path):
    size = 60_000_000  # above the bounds where the libraries begin to copy in several streams
    place.fs.pipe_file(f"{place.root}/large.json", bytes(size))
    seen = []
    place.folder.copy(listed(place)["large.json"], tmp_path / "copy", seen.append)
    assert (tmp_path / "copy").stat().st_size == size
    assert seen == sorted(seen) and len(set(seen)) >= 3 and seen[-1] > 0.7 * size


@kinds("memory", *CLOUDS)
def test_a_copy_can_be_stopped(place, tmp_path):
    def stop(done_bytes):
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        place.folder.copy(listed(place)["run/b.json"], tmp_path / "copy", stop)


@kinds("memory", *CLOUDS)
def test_a_copy_of_another_size_is_refused(place, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0.01)
    file = replace(listed(place)["run/b.json"], size=9001)
    with pytest.raises(StorageError, match="9000 bytes"):
        place.folder.copy(file, tmp_path / "copy")


@kinds(*CLOUDS)
def test_a_file_that_changed_since_the_listing_is_not_taken_for_the_listed_one(place, tmp_path):
    file = listed(place)["a.json"]
    place.fs.pipe(f"{place.root}/a.json", b"[]")
    with pytest.raises(StorageError, match="changed"):
        place.folder.copy(file, tmp_path / "copy")


@kinds("memory", *EVERY_CLOUD)
@pytest.mark.parametrize("name", ["a b.json", "50%25.json", "x#y.json", "[1]*.json", "ü.json"])
def test_names_are_data(place, tmp_path, name):
    place.fs.pipe_file(f"{place.root}/{name}", b"[7]")
    file = listed(place)[name]
    place.folder.copy(file, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"[7]" == place.folder.head(file, 10)


@kinds(*CLOUDS)
def test_a_truncated_object_is_refused(place, tmp_path):
    file = listed(place)["run/b.json"]
    place.door.mode = "truncate"
    with pytest.raises(StorageError):
        place.folder.copy(file, tmp_path / "copy")


@kinds(*EVERY_CLOUD)
@pytest.mark.parametrize("mode", sampled(["error", "reset"], ["error"]))
def test_a_passing_trouble_is_not_seen(place, mode, tmp_path):
    file = listed(place)["run/b.json"]
    place.door.mode, place.door.times = mode, 2
    assert len(place.folder.list().files) == 2
    place.door.mode, place.door.times = mode, 2
    place.folder.copy(file, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size == 9000


@kinds(*CLOUDS)
def test_a_stream_that_breaks_once_is_taken_again(place, tmp_path):
    file = listed(place)["run/b.json"]
    place.door.mode, place.door.times = "truncate", 1
    place.folder.copy(file, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"[1, 2, 3]" * 1000


ATTEMPTS = {"s3": 3, "gs": 6, "abfs": 4}
"""Of a request that the store answers with an error; docs/cloud.md says these numbers."""


@kinds(*EVERY_CLOUD)
def test_how_often_a_request_is_repeated(place):
    file = {file.path: file for file in place.folder.list().files}["a.json"]
    place.door.requests.clear()
    place.door.mode = "error"
    with pytest.raises(StorageError):
        place.folder.head(file, 10)
    assert len(place.door.requests) == ATTEMPTS[place.url.partition(":")[0]], place.door.requests


@kinds("abfs")
def test_azure_pauses_seconds_and_not_a_minute(place, monkeypatch):
    from azure.storage.blob._shared.policies_async import AsyncStorageRetryPolicy

    pauses = []

    async def note(self, settings, transport):
        pauses.append(self.get_backoff_time(settings))

    file = listed(place)["a.json"]
    monkeypatch.setattr(AsyncStorageRetryPolicy, "sleep", note)
    place.door.mode = "error"
    with pytest.raises(StorageError):
        place.folder.head(file, 10)
    assert [low <= pause <= low + 4 for low, pause in zip((1, 3, 7), pauses, strict=True)] == [True] * 3


@kinds(*CLOUDS)
def test_repeats_end(place):
    file = {file.path: file for file in place.folder.list().files}["a.json"]
    place.door.requests.clear()
    place.door.mode = "reset"
    with pytest.raises(StorageError):
        place.folder.head(file, 10)
    # aiohttp adds attempts of its own; 2 x 3 x 5 is the most (S3).
    assert 2 <= len(place.door.requests) <= 30


@kinds(*CLOUDS)
def test_a_refusal_is_not_repeated(place, tmp_path):
    file = listed(place)["a.json"]
    place.door.requests.clear()
    place.door.mode = "denied"
    with pytest.raises(StorageError):
        place.folder.copy(file, tmp_path / "copy")
    assert len(place.door.requests) <= 2, place.door.requests


@kinds(*CLOUDS)
@pytest.mark.parametrize("mode", sampled(["error", "reset", "denied"], ["error", "denied"]))
def test_a_store_in_trouble_is_said_and_recovers(place, mode, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "LIST_SECONDS", 15.0)
    place.door.mode = mode
    with pytest.raises(StorageError) as caught:
        place.folder.list()
    with pytest.raises(StorageError) as copying:
        place.folder.copy(GONE, tmp_path / "copy")
    for error in (caught.value, copying.value):
        assert not any(secret in str(error) for secret in _SECRETS)
        assert error.where.startswith(place.url)
    place.door.mode = "pass"
    assert len(place.folder.list().files) == 2


@kinds(*CLOUDS)
def test_a_silent_store_does_not_hold_up_the_scan(place, monkeypatch):
    monkeypatch.setattr(files, "LIST_SECONDS", 0.0)
    with pytest.raises(StorageError, match="has not answered"):
        place.folder.list()
    monkeypatch.setattr(files, "LIST_SECONDS", 15.0)
    assert len(place.folder.list().files) == 2
