"""A merged file on the page: once it is read, its ranks stand in its place."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote_plus

import pytest
from playwright.sync_api import Browser, expect

from tb_plugin.service.workers.pool import Pool
from tests.browser import harness
from tests.browser.expect import assert_healthy
from tests.browser.served import served
from tests.service.test_merged import merged


@pytest.fixture
def tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Tab]:
    folder = tmp_path_factory.mktemp("merged")
    merged(folder / "logs/run/m.json")
    with served(folder / "logs", folder / "cache", Pool(1)) as address, harness.tab(browser, address, bare=True) as tab:
        yield tab
        assert not tab.faults


def test_the_page_goes_on_with_the_first_rank(tab: harness.Tab) -> None:
    """Before the file is read and after, when the catalog does not list it any more; by a link to it and without one."""
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
