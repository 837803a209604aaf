"""A merged file on the page: once it is read, its ranks stand in its place."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote_plus

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.service.test_merged import merged


def test_the_page_goes_on_with_the_first_rank(open_tab: Open, tmp_path: Path) -> None:
    """Before the file is read and after, when the catalog does not list it any more; by a link to it and without one."""
    merged(tmp_path / "run/m.json")
    tab = open_tab(tmp_path, refusals=True)
    link = {"run": "run", "worker": "m", "span": "default"}
    for place in (link, {}, link):
        frame = tab.open(view="kernels", **place)
        worker = frame.get_by_role("button", name="Worker")
        expect(worker).to_contain_text("rank0", timeout=20_000)
        frame = tab.settle()
        assert_healthy(frame)
        assert unquote_plus(tab.state().get("worker", "")) == ("rank0" if place else "")
    worker.click()
    frame.get_by_role("option", name="rank1").click()
    frame = tab.settle()
    assert unquote_plus(tab.state()["worker"]) == "rank1"
    expect(frame.get_by_text("k of aten::B").first).to_be_visible()
