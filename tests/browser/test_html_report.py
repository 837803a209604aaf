"""The HTML report: opened from disk, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page

from tb_plugin.service.catalog import Place
from tb_plugin.service.html_report.collect import Wanted
from tb_plugin.service.html_report.write import html_report
from tests.browser.conftest import Open
from tests.browser.harness import AXE, SAMPLES
from tests.service.fakes import workspace_of, write_trace
from tests.service.test_html_report import HOSTILE

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes a report of the first profile of a log directory, or of a worker."""
    folder = tmp_path_factory.mktemp("reports")

    def made(logs: Path, worker: str | None = None, waits: bool = True, **wanted: Any) -> Path:
        with workspace_of(logs, folder / f"cache-{waits}") as workspace:
            workspace.catalog.scan()
            workspace.load(Place(None, worker))
            content = html_report(
                workspace, Wanted(Place(None, worker), **wanted), str(logs), redact=False, waits=waits
            )
        assert isinstance(content, bytes)
        path = folder / f"{logs.name}-{len(list(folder.iterdir()))}.html"
        path.write_bytes(content)
        return path

    return made


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1440, height: int = 900, **options: Any) -> Iterator[Page]:
    """The report in a browser without a network. It asks for nothing but itself, and reports no error."""
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(error.message))
    page.on("request", lambda asked: faults.append(asked.url) if asked.url != path.as_uri() else None)
    page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-state=idle]")
    yield page
    context.close()
    assert faults == []


_FIGURES = """(root) => [...document.querySelectorAll(
    root + ' [data-testid=headline], ' + root + ' [data-testid=answer], ' + root + ' [data-testid=legend]'
  )].map((node) => node.innerText.replace(/\\s+/g, ' ').trim())"""
_WIDER = "document.getElementById('main').scrollWidth - document.getElementById('main').clientWidth"


def figures(frame: Frame | Page, root: str) -> list[str]:
    found: list[str] = frame.evaluate(_FIGURES, root)
    return found


def test_it_shows_the_figures_of_the_pages(browser: Browser, visit: Open, write: Write) -> None:
    tab = visit()
    with opened(browser, write(SAMPLES / "synthetic_gpu")) as page:
        for view in ("kernels", "idle", "operators"):
            frame = tab.open(run="synthetic_gpu", view=view, per="step")
            expected = figures(frame, "main")
            assert expected
            assert [text for text in expected if text not in figures(page, f"#section-{view}")] == [], view
        frame = tab.open(run="synthetic_gpu", view="overview", per="step")
        headline = frame.get_by_test_id("headline").first.inner_text()
        assert page.get_by_test_id("headline").first.inner_text() == headline
        titles = frame.get_by_test_id("finding").locator("h3").all_inner_texts()
        listed = page.get_by_test_id("finding").locator("h3").all_inner_texts()
        assert titles and [text.split("\n")[-1].strip() for text in listed] == [text.strip() for text in titles]


@pytest.mark.parametrize(("sample", "worker"), [("synthetic_ddp", "rank1"), ("synthetic_memory", None)])
def test_everyone_can_read_it_on_every_screen(browser: Browser, write: Write, sample: str, worker: str | None) -> None:
    path = write(SAMPLES / sample, worker)
    for width, height, scheme in ((1440, 900, "light"), (1000, 700, "dark"), (390, 844, "light")):
        with opened(browser, path, width, height, color_scheme=scheme, bypass_csp=True) as page:
            assert page.evaluate(_WIDER) == 0
            page.evaluate(AXE.read_text(encoding="utf-8"))
            found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")["violations"]
            grave = [each for each in found if each["impact"] in ("serious", "critical")]
            assert [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in grave] == []


def test_markup_in_a_trace_stays_text(browser: Browser, write: Write, tmp_path: Path) -> None:
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json", *HOSTILE)
    with opened(browser, write(tmp_path / "logs", start_ns=0, end_ns=10**9)) as page:
        assert page.locator("main img, main script").count() == 0
        names = page.locator("#section-operators td:first-child").all_inner_texts()
        assert {"</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"} <= set(names)


def test_a_table_sorts_and_an_event_is_shown_in_the_timeline(browser: Browser, write: Write) -> None:
    with opened(browser, write(SAMPLES / "synthetic_gpu")) as page:
        table = page.locator("#section-kernels section", has=page.locator("h2", has_text="Kernels")).last
        table.get_by_role("button", name="Calls").click()
        assert table.locator("th[aria-sort=descending]").inner_text().startswith("Calls")
        calls = [int(row.split("\t")[2]) for row in table.locator("tbody tr").all_inner_texts()]
        assert calls == sorted(calls, reverse=True) and len(set(calls)) > 1
        page.get_by_test_id("finding").get_by_role("button", name="Show in timeline").first.click()
        assert "starts at" in page.locator("#section-timeline [role=status]").inner_text()


def test_a_link_beyond_the_file_says_how_to_open_the_trace(browser: Browser, write: Write) -> None:
    logs = SAMPLES / "synthetic_ddp"
    with opened(browser, write(logs, "rank0", waits=False)) as page:
        assert "The other ranks were not read" in page.locator("#section-missing").inner_text()
        finding = page.locator("[data-rule=communication]")
        finding.locator("summary").click()
        finding.get_by_role("button", name="Show communication").click()
        message = f"This file does not hold it: open the trace with torch-trace view {logs}."
        page.get_by_role("status").filter(has_text=message).wait_for()


def test_it_prints_in_light_colours_without_controls(browser: Browser, write: Write) -> None:
    with opened(browser, write(SAMPLES / "synthetic_gpu"), 1000, 700, color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.evaluate("() => { window.dispatchEvent(new Event('beforeprint')) }")
        assert page.evaluate("() => document.documentElement.dataset.mantineColorScheme") == "light"
        assert not page.get_by_role("navigation").is_visible()
        assert page.get_by_text("Why it matters").last.is_visible()
        page.evaluate("() => { window.dispatchEvent(new Event('afterprint')) }")


def test_share_saves_the_file(browser: Browser, visit: Open, tmp_path: Path) -> None:
    tab = visit()
    frame = tab.open(run="synthetic_gpu", view="overview")
    frame.get_by_role("button", name="Share").click()
    with tab.page.expect_download() as saved:
        frame.get_by_role("menuitem", name="HTML file, redacted").click()
    path = tmp_path / "shared.html"
    saved.value.save_as(path)
    tab.page.keyboard.press("Escape")  # the menu stays open, and the page belongs to other tests, too
    assert saved.value.suggested_filename == "report.html"
    assert b"synthetic_gpu" not in path.read_bytes()
    with opened(browser, path) as page:
        assert "Redacted" in page.locator("header").first.inner_text()
