"""The page in a frame of a notebook: on this machine, behind a proxy, and never on the page of another site."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Frame
from werkzeug.serving import make_server

from tb_plugin.notebook import page
from tb_plugin.notebook.page import page_of
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.viewer import Viewer, start_server
from tests.browser.chromium import FLAGS, find
from tests.browser.harness import PATIENCE_MS, SAMPLES
from tests.service.fakes import LastingPool

LOGS = str(SAMPLES / "synthetic_gpu")
PLACE = {"view": "kernels", "run": "synthetic_gpu", "worker": "rank0", "span": "1"}


@pytest.fixture
def viewer(tmp_path: Path, workers: LastingPool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Viewer]:
    workspace = Workspace(open_catalog([("", LOGS)]), workers, FileStore(tmp_path))
    viewer = Viewer(workspace)
    server, address = start_server(viewer, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setitem(page._servers, LOGS, address)
    yield viewer
    server.shutdown()
    server.server_close()
    workspace.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


@contextmanager
def notebook(viewer: Viewer, proxy: str = "") -> Iterator[str]:
    """The address of a notebook that shows the page, on another port. It passes requests below /proxy/PORT/ on."""
    html = page_of(LOGS, PLACE, 700, proxy)._repr_html_()

    def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        path = str(environ["PATH_INFO"])
        if path.startswith("/proxy/"):
            return viewer({**environ, "PATH_INFO": "/" + path.split("/", 3)[3]}, start_response)
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
        return [f"<!doctype html><title>notebook</title>{html}".encode()]

    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def framed(context: BrowserContext, address: str) -> Frame:
    tab = context.new_page()
    tab.goto(address)
    frame = tab.frames[-1]
    frame.get_by_text("nvjet_hsh_128x256").first.wait_for(timeout=PATIENCE_MS)
    return frame


def test_a_notebook_on_this_machine_shows_the_page(context: BrowserContext, viewer: Viewer) -> None:
    with notebook(viewer) as address:
        frame = framed(context, address)
        assert frame.url.startswith("http://127.0.0.1:")
        assert frame.page.url == address


def test_a_notebook_behind_a_proxy_shows_the_page_and_keeps_its_own_address(
    context: BrowserContext, viewer: Viewer
) -> None:
    with notebook(viewer, "/proxy/") as address:
        frame = framed(context, address)
        assert frame.url.startswith(f"{address}proxy/")
        frame.get_by_role("link", name="Timeline").or_(frame.get_by_text("Timeline")).first.click()
        frame.wait_for_function("() => location.hash.includes('view=timeline')", timeout=PATIENCE_MS)
        assert frame.page.url == address


def test_another_site_cannot_show_the_page(browser: Browser, viewer: Viewer) -> None:
    """Even if the other site knows the token. On the same machine: Chromium itself protects it from other networks."""
    names = "--host-resolver-rules=MAP other.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
    own = browser.browser_type.launch(executable_path=find(), args=[*FLAGS, names])
    with own, notebook(viewer) as address:
        context = own.new_context()
        assert framed(context, address)
        tab = context.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        with tab.expect_event("requestfailed", lambda request: viewer.token in request.url):
            tab.goto(address.replace("localhost", "other.test"))
        assert any("frame-ancestors" in each for each in said), said
