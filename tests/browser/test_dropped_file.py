"""A trace that is dropped on the page of ``torch-trace view``, or chosen with its button, opens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tb_plugin.service.dropped_files import DroppedFiles
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.viewer import Viewer, start_server
from tests.browser.harness import _SETTLED, PATIENCE_MS
from tests.service.fakes import LastingPool, trace_text, write_trace

_FILE = """([name, text]) => {
  const data = new DataTransfer()
  data.items.add(new File([text], name))
  return data
}"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path, workers: LastingPool) -> Iterator[Page]:
    """The page of a viewer on a folder with one trace. Faults of the page fail the test."""
    write_trace(tmp_path / "logs" / "first.1.pt.trace.json")
    dropped = DroppedFiles()
    catalog = open_catalog([("", str(tmp_path / "logs"))], dropped.folder)
    catalog.scan()
    workspace = Workspace(catalog, workers, FileStore(tmp_path / "cache"))
    server, address = start_server(Viewer(workspace, dropped), 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    faults: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: message.type == "error" and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    # From the start: while a test begins to listen, a chooser could open unseen.
    page.on("filechooser", lambda chooser: None)
    page.goto(address)
    page.wait_for_function(_SETTLED)
    yield page
    context.close()
    server.shutdown()
    server.server_close()
    thread.join(10)
    catalog.stop()
    dropped.close()
    assert [fault for fault in faults if "422" not in fault] == []


def drop(page: Page, name: str, text: str) -> None:
    data = page.evaluate_handle(_FILE, [name, text])
    page.dispatch_event("body", "dragenter", {"dataTransfer": data})
    page.get_by_text("Drop a trace file to open it").wait_for()
    page.dispatch_event("body", "drop", {"dataTransfer": data})


def test_a_dropped_file_opens(page: Page, tmp_path: Path) -> None:
    drop(page, "second.2.pt.trace.json", trace_text("aten::conv2d"))
    page.wait_for_url("**run=dropped**")
    page.wait_for_function(_SETTLED)
    assert "worker=second" in page.url
    assert page.get_by_test_id("upload").count() == 0 == page.get_by_test_id("drop-problem").count()
    page.reload()
    page.wait_for_function(_SETTLED)
    assert "dropped" in page.title()
    drop(page, "notes.txt", "hello")
    problem = page.get_by_test_id("drop-problem")
    assert "does not look like a profiler trace" in problem.inner_text()
    assert "run=dropped" in page.url
    problem.get_by_role("button", name="Close").click()

    third = write_trace(tmp_path / "third.3.pt.trace.json.gz")
    page.get_by_role("button", name="Open a file").focus()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(third)
    page.wait_for_url("**worker=third**")
    page.wait_for_function(_SETTLED)
    assert problem.count() == 0
