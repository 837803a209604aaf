"""Files that are dropped on the page of ``torch-trace view``: who may send them, and where they end up."""

from __future__ import annotations

import http.client
import io
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest
from werkzeug.test import Client

from tb_plugin.errors import StorageError
from tb_plugin.service.dropped_files import VARIABLE, DroppedFiles
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web import routes
from tb_plugin.web.viewer import Viewer, start_server
from tests.service.fakes import trace_text, until, workspace_of, write_trace

TRACE = trace_text().encode()
NAME = "worker1.7.pt.trace.json"


@pytest.fixture
def dropped() -> Iterator[DroppedFiles]:
    files = DroppedFiles()
    yield files
    files.close()
    assert not files.folder.parent.exists()


@pytest.fixture
def viewer(tmp_path: Path, dropped: DroppedFiles) -> Iterator[Viewer]:
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    catalog = open_catalog([("", str(tmp_path / "logs"))], dropped.folder)
    catalog.scan()
    workspace = Workspace(catalog, InlineWorkers(), FileStore(tmp_path / "cache"))
    yield Viewer(workspace, dropped)
    workspace.close()


def put(viewer: Viewer, name: str = NAME, data: bytes = TRACE, token: str = "", **more: object):
    query = {"name": name} if name else {}
    return Client(viewer).put(f"/{token or viewer.token}/files", query_string=query, data=data, **more)


def stored(dropped: DroppedFiles) -> list[str]:
    """All files of the temporary folder but its lock."""
    return sorted(p.name for p in dropped.folder.parent.rglob("*") if p.is_file() and p.name != ".lock")


def test_a_file_becomes_a_profile_of_its_own(viewer: Viewer, dropped: DroppedFiles) -> None:
    client = Client(viewer)
    before = client.get(f"/{viewer.token}/runs").get_json()
    assert [run["name"] for run in before["runs"]] == ["logs"] and before["upload_limit_bytes"] == 2_000_000_000
    answer = put(viewer)
    assert (answer.status_code, answer.get_json()) == (200, {"run": "dropped", "worker": "worker1", "span": "1"})
    assert (dropped.folder / NAME).read_bytes() == TRACE
    for folder in (dropped.folder, dropped.folder.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    catalog = client.get(f"/{viewer.token}/runs").get_json()
    assert [run["name"] for run in catalog["runs"]] == ["dropped", "logs"], "runs of the log directory keep their names"
    assert "torch-trace-" not in catalog["logdir"]
    profile = client.get(f"/{viewer.token}/profile", query_string=answer.get_json()).get_json()
    assert profile["state"] in ("loading", "ready")


def test_files_of_one_name_are_both_there(viewer: Viewer, dropped: DroppedFiles) -> None:
    names = [put(viewer).get_json() for _ in range(3)]
    assert len({tuple(name.items()) for name in names}) == 3
    assert stored(dropped) == [f"2-{NAME}", f"3-{NAME}", NAME]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("../../../etc/a.json", "a.json"),
        ("/etc/a.json", "a.json"),
        ("..\\..\\a.json", "a.json"),
        ("C:\\logs\\a.json", "a.json"),
        ("..%2f..%2fa.json", "_2f.._2fa.json"),
        ("a\x00b\nc<img>.json", "a_b_c_img_.json"),
        (".hidden.json", "hidden.json"),
        ("é 你 (1).json", "é 你 (1).json"),
        ("x" * 5000 + ".json", "x" * 195 + ".json"),
    ],
)
def test_only_the_base_name_is_used(viewer: Viewer, dropped: DroppedFiles, name: str, base: str) -> None:
    assert put(viewer, name).status_code == 200
    assert stored(dropped) == [base]


@pytest.mark.parametrize("name", ["", "..", "/", "../", "a/..", " . "])
def test_a_file_needs_a_name(viewer: Viewer, dropped: DroppedFiles, name: str) -> None:
    answer = put(viewer, name)
    assert (answer.status_code, stored(dropped)) == (400, [])


@pytest.mark.parametrize("token", ["wrong", "data/plugin/torch_trace"])
def test_without_the_token_nothing_is_stored(viewer: Viewer, dropped: DroppedFiles, token: str) -> None:
    assert (put(viewer, token=token).status_code, stored(dropped)) == (403, [])


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_origin_stores_nothing(viewer: Viewer, dropped: DroppedFiles, site: str) -> None:
    for mode in ("cors", "no-cors"):
        answer = put(viewer, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})
        assert (answer.status_code, stored(dropped)) == (403, [])
    assert put(viewer, headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}).status_code == 200


def test_tensorboard_and_other_methods_store_nothing(viewer: Viewer, dropped: DroppedFiles, tmp_path: Path) -> None:
    for method in (Client(viewer).post, Client(viewer).delete, Client(viewer).patch):
        assert method(f"/{viewer.token}/files?name=a.json", data=TRACE).status_code == 405
    for route in ("runs", "files/a.json", "files/", "assets/a.json"):
        assert Client(viewer).put(f"/{viewer.token}/{route}?name=a.json", data=TRACE).status_code == 405
    with workspace_of(tmp_path / "logs", tmp_path / "another") as workspace:
        client = Client(routes.Routes(lambda: workspace))
        assert client.put(f"{routes.BASE}files?name=a.json", data=TRACE).status_code == 405
        assert client.get(f"{routes.BASE}runs").get_json()["upload_limit_bytes"] == 0
    assert stored(dropped) == []


@pytest.mark.parametrize(("limit", "status"), [("0.000001", 413), ("0", 413), ("1", 200), ("much", 200)])
def test_a_file_has_a_size_limit(
    viewer: Viewer, dropped: DroppedFiles, monkeypatch: pytest.MonkeyPatch, limit: str, status: int
) -> None:
    monkeypatch.setenv(VARIABLE, limit)
    answer = put(viewer)
    assert (answer.status_code, len(stored(dropped))) == (status, int(status == 200))
    if status == 413:
        assert VARIABLE in answer.get_json()["error"]["do"]


def test_a_body_is_not_read_at_once(dropped: DroppedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        largest = 0

        def read(self, size: int = -1) -> bytes:
            self.largest = max(self.largest, size)
            return b" " * size

    stream = Endless()
    path = dropped.save("a.json", 30_000_001, stream)
    assert path.stat().st_size == 30_000_001 and 0 < stream.largest <= 1 << 20
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(StorageError, match="disk is full"):
        dropped.save("b.json", 11, stream)
    assert stored(dropped) == ["a.json"]


@pytest.mark.parametrize(("name", "data"), [("notes.txt", b"hello"), ("a.json", b"{}"), ("a.pt.trace.json", b" ")])
def test_what_is_no_trace_is_refused_and_removed(viewer: Viewer, dropped: DroppedFiles, name: str, data: bytes) -> None:
    answer = put(viewer, name, data)
    assert (answer.status_code, stored(dropped)) == (422, [])
    assert answer.get_json()["error"]["where"] == name


def test_the_size_must_be_known(viewer: Viewer, dropped: DroppedFiles) -> None:
    unknown = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    answer = Client(viewer).put(f"/{viewer.token}/files?name=a.json", data=TRACE, environ_overrides=unknown)
    assert (answer.status_code, stored(dropped)) == (400, [])


@pytest.mark.parametrize("pause", [False, True])
def test_an_upload_that_ends_early_leaves_nothing(
    viewer: Viewer, dropped: DroppedFiles, monkeypatch: pytest.MonkeyPatch, pause: bool
) -> None:
    if pause:
        monkeypatch.setattr(routes, "_UPLOAD_PAUSE_SECONDS", 0.2)
    server, address = start_server(viewer, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
            head = (
                f"PUT {parts.path}files?name={quote(NAME)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(TRACE)}\r\n\r\n"
            )
            connection.sendall(head.encode() + TRACE[:100])
            assert until(lambda: stored(dropped) != [])
            if pause:
                assert b"The upload was interrupted" in connection.makefile("rb").read()
        assert until(lambda: stored(dropped) == [])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_the_command_removes_them_at_its_end(tmp_path: Path) -> None:
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    command = [sys.executable, "-m", "tb_plugin", "view", str(tmp_path / "logs"), "--no-browser"]
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"TORCH_TRACE_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    shown = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert shown.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:([0-9]+)(/[\w-]{32}/)", shown.stdout.readline())
        assert found is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
        connection.request("PUT", f"{found[2]}files?name={NAME}", body=TRACE)
        assert connection.getresponse().status == 200
        assert len([*(tmp_path / "tmp").rglob(NAME)]) == 1
        shown.send_signal(signal.SIGINT)
        assert shown.communicate(timeout=20)[1] == ""
        assert [*(tmp_path / "tmp").rglob(NAME)] == []
    finally:
        shown.kill()
        shown.communicate()
