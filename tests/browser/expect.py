"""What a view must show, taken from the server's own answer: a page that shows an error or nothing must not pass."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Frame

from tests.browser.harness import PLUGIN

PATIENCE_SECONDS = 60
_SIGNS_OF_A_BUG = ("NaN", "undefined", "[object Object]", "Infinity")
_INK = """
(canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
  const colours = new Set()
  for (let i = 0; i < pixels.length; i += 4) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2])
  return colours.size
}
"""


def ask(address: str, route: str, **params: str) -> dict[str, Any]:
    """The server's answer, once the profile is loaded. What is repeated stands in the route, with ``?`` and a last ``&``."""
    url = f"{address}data/plugin/{PLUGIN}/{route}{'' if '?' in route else '?'}{urlencode(params)}"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with urllib.request.urlopen(url) as answer:
            body: dict[str, Any] = json.load(answer)
            if answer.status == 200 and body.get("state", "ready") == "ready":
                return body
        assert time.monotonic() < deadline, f"{url} does not become ready: {body}"
        time.sleep(0.1)  # between two questions to a server; the page itself is waited for by its signal


def assert_healthy(frame: Frame) -> None:
    """No panel that tells of a failure, no value that a formatter should have caught."""
    assert frame.locator("[role=alert]").all_inner_texts() == []
    text = frame.inner_text("#main")
    assert [sign for sign in _SIGNS_OF_A_BUG if sign in text] == []


def assert_shows(frame: Frame, address: str, view: str, place: Mapping[str, str]) -> None:
    """The page shows the view of the profile, or says why it does not apply."""
    assert_healthy(frame)
    text = frame.inner_text("#main")
    info = next(item for item in ask(address, "profile", **place)["views"] if item["id"] == view)
    if not info["available"]:
        assert info["why"] in text
        return
    payloads = ask(address, f"view/{view}", **place)["payloads"]
    assert payloads
    tables = [p for p in payloads.values() if p["kind"] == "table" and p["total_rows"]]
    if tables and view not in ("overview", "findings") and not any(p["kind"] == "tree" for p in payloads.values()):
        counts = frame.locator("[role=table]").evaluate_all("(all) => all.map((e) => +e.ariaRowCount)")
        assert tables[0]["matched_rows"] + 1 in counts
        assert frame.locator("[role=rowheader]").count() > 0
    for name, payload in payloads.items():
        _assert_payload(frame, text, name, payload)


def _assert_payload(frame: Frame, text: str, name: str, payload: dict[str, Any]) -> None:
    if payload["kind"] == "figures" and payload["style"] == "headline":
        # Five at once, without those that were not recorded.
        titles = [f["metric"]["title"] for f in payload["figures"] if f["value"] is not None][:5]
        missing = [title for title in titles if title not in text]
        assert missing == [], f"{name}: {missing}"
    elif payload["kind"] == "breakdown" and payload["style"] == "table":
        missing = [p["metric"]["title"] for p in payload["parts"] if p["metric"]["title"] not in text]
        assert payload["title"] in text and missing == [], f"{name}: {missing}"
    elif payload["kind"] == "breakdown" and payload["total"]:
        charts = frame.get_by_role("button", name="Charts of the top 10")  # on demand
        assert frame.locator("[role=img]").count() + charts.count() > 0, name
    elif payload["kind"] == "series" and payload["x"]:
        assert (
            frame.locator("[data-testid=chart] canvas, [data-testid=chart] svg, svg[data-testid=bars]").count() > 0
        ), name
    elif payload["kind"] == "tree" and payload["rows"]:
        assert frame.locator("[role=treeitem]").count() > 0, name
    elif payload["kind"] == "timeline" and payload["total_events"]:
        ink = frame.locator("canvas").evaluate_all(f"(all) => Math.max(...all.map({_INK}))")
        assert ink > 5, f"{name}: the canvas is empty"
