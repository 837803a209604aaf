"""One TensorBoard and one Chromium for all browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

playwright_api = pytest.importorskip("playwright.sync_api", reason="make test installs Playwright")

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from tests.browser import harness  # noqa: E402
from tests.browser.served import Mounts  # noqa: E402
from tests.service.fakes import LastingPool  # noqa: E402

Open = Callable[..., harness.Tab]
TabAt = Callable[[str], AbstractContextManager[harness.Tab]]
IDLE_TABS = 5


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests carry their marker, so that ``pytest -m 'not browser'`` leaves them out."""
    for item in items:
        if Path(str(item.fspath)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not harness.STATIC.exists():
        pytest.fail("The page is not built: run make test.")
    # A page lives for a second or two: to compile its code well takes longer than that gains.
    with sync_playwright() as playwright, harness.chromium(playwright, "--js-flags=--no-opt --no-maglev") as browser:
        yield browser


@pytest.fixture(scope="session")
def mounts() -> Iterator[Mounts]:
    """One server for many log directories, so that a browser compiles the scripts once."""
    with Mounts().started() as mounts:
        yield mounts


@pytest.fixture(scope="session")
def serve(
    tmp_path_factory: pytest.TempPathFactory, workers: LastingPool, mounts: Mounts
) -> Iterator[Callable[..., str]]:
    """Starts the plugin's routes on a log directory, or a TensorBoard; once per directory and options."""
    cache = tmp_path_factory.mktemp("cache")
    running: dict[tuple[str | bool, ...], str] = {}
    with ExitStack() as stack:

        def start(logdir: Path, *options: str, real: bool) -> str:
            key = (real, str(logdir), *options)
            if key not in running:
                server = harness.tensorboard(logdir, cache, *options) if real else mounts.mount(logdir, cache, workers)
                running[key] = stack.enter_context(server)
            return running[key]

        yield start


@pytest.fixture(scope="session")
def idle_tabs() -> Iterator[list[harness.Tab]]:
    """The last tabs that tests are done with."""
    tabs: list[harness.Tab] = []
    yield tabs
    for tab in tabs:
        tab.close()


@pytest.fixture(scope="session")
def tab_at(browser: Browser, idle_tabs: list[harness.Tab]) -> TabAt:
    """Gives a tab for an address of ``mounts``: an idle one, if there is one."""

    @contextmanager
    def taken(address: str) -> Iterator[harness.Tab]:
        tab = _take(idle_tabs, browser, address, (1440, 900), bare=True, covered=False)
        yield tab
        if tab.renew():
            idle_tabs.append(tab)
        else:
            tab.close()

    return taken


@pytest.fixture
def open_tab(browser: Browser, serve: Callable[..., str], idle_tabs: list[harness.Tab]) -> Iterator[Open]:
    """Opens tabs with a small page in the place of TensorBoard's, which is not started either.

    With options a TensorBoard serves them. When the test is over, none may have had a fault.
    """
    yield from _opens(browser, serve, idle_tabs, bare=True)


@pytest.fixture
def open_in_tensorboard(browser: Browser, serve: Callable[..., str], idle_tabs: list[harness.Tab]) -> Iterator[Open]:
    """Opens tabs with TensorBoard's own page around the plugin, which takes five seconds of CPU to load."""
    yield from _opens(browser, serve, idle_tabs, bare=False)


@pytest.fixture
def visit(browser: Browser, serve: Callable[..., str], idle_tabs: list[harness.Tab]) -> Iterator[Open]:
    """Opens tabs like ``open_tab``; the plugin may be loaded, so that a test follows a link in it (``Tab.follow``)."""
    yield from _opens(browser, serve, idle_tabs, bare=True, stay=True)


@pytest.fixture
def visit_in_tensorboard(browser: Browser, serve: Callable[..., str], idle_tabs: list[harness.Tab]) -> Iterator[Open]:
    """Opens tabs like ``open_in_tensorboard``, where the plugin may be loaded."""
    yield from _opens(browser, serve, idle_tabs, bare=False, stay=True)


def _opens(
    browser: Browser, serve: Callable[..., str], idle_tabs: list[harness.Tab], bare: bool, stay: bool = False
) -> Iterator[Open]:
    tabs: list[harness.Tab] = []

    def start(
        logdir: Path = harness.SAMPLES, *options: str, size: tuple[int, int] = (1440, 900), refusals: bool = False
    ) -> harness.Tab:
        address = serve(logdir, *options, real=bool(options) or not bare)
        tab = _take(idle_tabs, browser, address, size, bare, covered=bare and bool(options))
        if not refusals:
            tab.refusals = tab.faults
        tabs.append(tab)
        return tab

    yield start
    faults = [fault for tab in tabs for fault in tab.faults]
    for tab in tabs:
        if tab.renew(stay):
            idle_tabs.append(tab)
        else:
            tab.close()
    while len(idle_tabs) > IDLE_TABS:
        # A tab without TensorBoard's page is soon made again.
        idle_tabs.pop(next((place for place, tab in enumerate(idle_tabs) if tab.bare), 0)).close()
    assert not faults, "\n".join(faults)


def _take(
    idle: list[harness.Tab], browser: Browser, address: str, size: tuple[int, int], bare: bool, covered: bool
) -> harness.Tab:
    """A tab for an address: one that waits there, else one of the same server, which has the scripts; else a new one."""
    server = urlsplit(address).netloc
    fitting = [tab for tab in idle if tab.bare == bare and urlsplit(tab.address).netloc == server]
    if not fitting:
        return harness.new_tab(browser, address, size, bare, covered)
    tab = next((tab for tab in fitting if tab.address == address), fitting[0])
    idle.remove(tab)
    tab.address = address
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    return tab
