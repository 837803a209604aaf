"""Open in Perfetto: a page that speaks its protocol gets the trace, from a click, at its own address."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser import harness
from tests.browser.conftest import Open
from tests.browser.expect import ask, assert_healthy
from tests.browser.served import served
from tests.service.fakes import LastingPool

RUN = "synthetic_gpu"
# What Perfetto does: says PONG to whoever opened it once it listens, then takes one trace.
PERFETTO = b"""<!doctype html><title>Perfetto</title><script>
addEventListener('message', ({ data, source, origin }) => {
  if (source !== opener) return
  if (data === 'PING') source.postMessage('PONG', '*')
  else if (data.perfetto) {
    const bytes = new Uint8Array(data.perfetto.buffer)
    let text = ''
    for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096))
    globalThis.got = { origin, bytes: btoa(text), title: data.perfetto.title, fileName: data.perfetto.fileName }
  }
})
</script>"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PERFETTO)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def perfetto() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()


@pytest.fixture
def open_at(browser: Browser, workers: LastingPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A tab of a server that was started with this address."""
    with ExitStack() as stack:

        def start(address: str) -> harness.Tab:
            monkeypatch.setenv("TORCH_TRACE_PERFETTO", address)
            ours = stack.enter_context(served(harness.SAMPLES, tmp_path / "cache", workers))
            return stack.enter_context(harness.tab(browser, ours, bare=True))

        yield start


def received(tab: harness.Tab) -> tuple[Page, dict[str, Any], list[dict[str, Any]]]:
    """Clicks, and gives what the other tab got: the tab, the message, the events."""
    dialog = tab.frame().get_by_role("dialog")
    with tab.page.context.expect_page() as opened:
        dialog.get_by_role("button", name="Open in Perfetto").click()
    other = opened.value
    other.wait_for_function("globalThis.got")
    got = other.evaluate("globalThis.got")
    dialog.get_by_text("Perfetto has the trace.").wait_for()
    return other, got, json.loads(gzip.decompress(base64.b64decode(got["bytes"])))["traceEvents"]


def test_the_trace_arrives_whole_or_as_the_window_in_sight(open_at: Any) -> None:
    with perfetto() as address:
        tab = open_at(address)
        frame = tab.open(run=RUN, view="timeline")
        profile = ask(tab.address, "profile", run=RUN)
        assert ask(tab.address, "runs")["perfetto_url"] == address
        frame.get_by_role("button", name="Open in Perfetto").click()
        assert address in frame.get_by_role("dialog").inner_text()
        assert not tab.axe()
        other, got, shown = received(tab)
        assert other.url.startswith(address) and tab.address.startswith(got["origin"])
        assert got["fileName"].endswith(".json.gz") and RUN in got["title"]
        other.close()
        frame.get_by_text("The full trace", exact=True).click()
        assert f"{profile['read']['events_loaded']:,} events" in frame.get_by_role("dialog").inner_text()
        _, _, whole = received(tab)
        timed = [sum(event["ph"] == "X" for event in events) for events in (shown, whole)]
        assert 0 < timed[0] < timed[1]
        names = {event["name"] for event in whole}
        assert {f"ProfilerStep#{step['label']}" for step in profile["steps"]} <= names
        assert_healthy(frame)
        assert not tab.faults and not tab.refusals


def test_an_address_that_is_none_opens_nothing(open_tab: Open) -> None:
    def refused(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"perfetto_url": ""})

    tab = open_tab()
    tab.page.route(re.compile("/torch_trace/runs$"), refused)
    frame = tab.open(run=RUN, view="timeline")
    frame.get_by_role("button", name="Open in Perfetto").click()
    dialog = frame.get_by_role("dialog")
    assert "TORCH_TRACE_PERFETTO is not an http or https address" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Open in Perfetto").is_disabled()
    assert dialog.get_by_role("link", name="Download").is_visible()
    assert not tab.faults
