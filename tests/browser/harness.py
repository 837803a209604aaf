"""What a browser test needs: a TensorBoard of its own, a Chromium without a way out, and a page that reports its faults.

Nothing here sleeps. The page says when it is done: ``document.documentElement.dataset.state`` is ``busy`` while anything
is under way and ``idle`` when the picture is complete.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, Frame, Page, Playwright, Request, TimeoutError, ViewportSize

from tests.browser.chromium import ADVICE, FLAGS, find

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples"
V100 = ROOT.parent / "shared" / "data" / "kineto"
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
STATIC = ROOT / "tb_plugin" / "static" / "index.html"
VIEWS = (
    "overview",
    "timeline",
    "operators",
    "kernels",
    "modules",
    "stacks",
    "phases",
    "launches",
    "idle",
    "memory",
    "distributed",
    "diff",
)
PLUGIN = "torch_trace"
PAGE = f"data/plugin/{PLUGIN}/index.html"
PATIENCE_MS = 60_000
DRAWN_MS = 5_000
START_SECONDS = 60
_ADDRESS = re.compile(r"TensorBoard \S+ at (http://\S+)")
_DRAWN = "() => new Promise((answer) => requestAnimationFrame(() => answer(true)))"
_HTTP_STATUS = re.compile(r"the server responded with a status of 4\d\d")
# Some frames without a change of mind: an answer that starts the next question does not count as the end. While the page is
# busy no frame is asked for: each would be drawn, which took a tenth of the browser's time.
_SETTLED = """
() => new Promise((answer) => {
  const root = document.documentElement
  const idle = () => root?.dataset.state === 'idle'
  const observer = new MutationObserver(() => idle() && look(0))
  const look = (calm) => {
    observer.disconnect()
    if (calm > 3) answer(true)
    else if (idle() || !root) requestAnimationFrame(() => look(root ? calm + 1 : 0))
    else observer.observe(root, { attributes: true, attributeFilter: ['data-state'] })
  }
  look(0)
})
"""
HOST = f"""<!doctype html><title>host</title><link rel="icon" href="data:,"><style>
body {{ margin: 0; padding-top: 64px; box-sizing: border-box; height: 100vh }}
iframe {{ border: 0; width: 100%; height: 100% }}
</style><iframe src="{PAGE}"></iframe>"""
"""What TensorBoard is to the plugin, without its megabytes: a page of the same origin that has the address, below a bar."""
_FOLLOW = """
(hash) => new Promise((answer) => {
  if (location.hash === hash) return answer()
  addEventListener('hashchange', () => answer(), { once: true })
  location.hash = hash
})
"""
_REPORT_CSP = """
document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI}`))
"""


@contextmanager
def tensorboard(
    logdir: Path | str, cache: Path, *options: str, flag: str = "--logdir", log: list[str] | None = None
) -> Iterator[str]:
    """A TensorBoard on a free port of the loopback interface; gives its address, with a slash at the end.

    ``flag`` may be ``--logdir_spec``. What TensorBoard says is in ``log`` when the context is left.
    """
    command = [sys.executable, "-m", "tensorboard.main", flag, str(logdir), "--host", "127.0.0.1", "--port", "0"]
    environment = {**os.environ, "TORCH_TRACE_CACHE": str(cache), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [*command, *options], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines: queue.Queue[str | None] = queue.Queue()
    pump = threading.Thread(target=_pump, args=(process, lines), daemon=True)
    pump.start()
    try:
        yield _address(lines)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        pump.join(10)
        while log is not None and (line := lines.get_nowait()) is not None:
            log.append(line)


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _address(lines: queue.Queue[str | None]) -> str:
    seen = []
    while (line := lines.get(timeout=START_SECONDS)) is not None:
        seen.append(line)
        if found := _ADDRESS.search(line):
            return found.group(1).rstrip("/") + "/"
    raise RuntimeError("TensorBoard ended at once:\n" + "".join(seen))


@contextmanager
def chromium(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    """The system's Chromium, with every outside host out of reach."""
    path = find()
    if path is None:
        raise RuntimeError(ADVICE)
    browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
    try:
        yield browser
    finally:
        browser.close()


class Tab:
    """One page of TensorBoard, or where it is ``bare`` of a host in its place. ``faults`` collects what must not happen."""

    def __init__(self, context: BrowserContext, address: str, bare: bool = False, covered: bool | None = None) -> None:
        self.address = address
        self.bare = bare
        self._covered = bare if covered is None else covered
        """Whether a TensorBoard serves its own page here, which is not to be loaded."""
        self.faults: list[str] = []
        self.refusals: list[str] = []
        """Answers of 4xx: a fault unless a test provokes them."""
        self._context = context
        context.add_init_script(_REPORT_CSP)
        # Not by a route, which would switch the browser's cache off: a page of TensorBoard is megabytes to fetch and compile.
        context.on("request", self._asked)
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"page error: {error.message}"))
        self.page.on("crash", lambda _: self.faults.append("the page crashed"))

    def renew(self, stay: bool = False) -> bool:
        """Forgets what a test did here, so that the next one may have the tab; False where it cannot be known.

        The plugin is left, too, unless it is to ``stay`` loaded for one that follows a link in it.
        """
        if self.faults or self._context.pages != [self.page] or not self.page.url.startswith(self.address):
            return False
        try:  # a tab that no longer draws would take the tests after this one along
            self.page.wait_for_function(_DRAWN, timeout=DRAWN_MS)
        except TimeoutError:
            return False
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear() }")
        self._context.clear_cookies()
        if (inner := self._inner()) is None:
            self.page.goto("about:blank")
        else:
            self.page.evaluate("document.body.classList.remove('dark-mode')")
            if not stay or inner.get_by_role("dialog").count():  # an open dialog would cover the page
                inner.goto("about:blank")
        self.faults, self.refusals = [], []
        return True

    def close(self) -> None:
        """Ends the tab and its browser profile."""
        self._context.close()

    def open(self, **state: str) -> Frame:
        """Loads the plugin afresh with a state in TensorBoard's address, and waits until the picture is complete."""
        self.start(**state)
        return self.settle()

    def start(self, **state: str) -> Frame:
        """Loads the plugin afresh with a state in TensorBoard's address.

        TensorBoard around it is loaded once a tab: its megabytes cost more than what a test does.
        """
        inner = self._inner()
        if inner is None:
            self.page.goto("about:blank")
            with self._host():
                self.page.goto(self.address + fragment(**state))
        else:
            if inner.url != "about:blank":
                inner.goto("about:blank")
            self.page.evaluate("(hash) => history.pushState(null, '', hash)", fragment(**state))
            inner.goto(self.address + PAGE)
        return self.frame()

    def follow(self, **state: str) -> Frame:
        """Goes to a state by a change of the address alone, as by a link, and waits until the picture is complete.

        The plugin is loaded where it is not yet.
        """
        inner = self._inner()
        if inner is None or inner.url == "about:blank":
            return self.open(**state)
        self.page.evaluate(_FOLLOW, fragment(**state))
        return self.settle()

    def resize(self, width: int, height: int) -> None:
        """Gives the window another size."""
        self.page.set_viewport_size({"width": width, "height": height})

    def reload(self) -> Frame:
        """Loads everything anew, as a person does, and waits until the picture is complete."""
        with self._host():
            self.page.reload()
        return self.settle()

    @contextmanager
    def _host(self) -> Iterator[None]:
        """The small page covers TensorBoard's own, where the tab is bare. Only meanwhile: see ``__init__``."""
        if self._covered:
            self.page.route(self._is_host, lambda route: route.fulfill(content_type="text/html", body=HOST))
        yield
        if self._covered:
            self.page.unroute(self._is_host)

    def _is_host(self, url: str) -> bool:
        return url.partition("#")[0] == self.address

    def _inner(self) -> Frame | None:
        """The plugin's frame where TensorBoard is loaded around it."""
        if not self._is_host(self.page.url) or len(self.page.frames) != 2:
            return None
        return self.page.frames[1]

    def open_alone(self, **state: str) -> Frame:
        """The plugin's own page without TensorBoard around it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{PAGE}{fragment(**state)}")
        return self.settle()

    def frame(self) -> Frame:
        """The plugin's frame, once it has gone to its own page."""
        for _ in range(2000):
            for frame in self.page.frames:
                if urlsplit(frame.url).path.endswith(f"/{PLUGIN}/index.html"):
                    return frame
            self.page.wait_for_timeout(10)  # lets the events of the browser in; the loop is what waits
        raise AssertionError(f"no frame of the plugin among {[frame.url for frame in self.page.frames]}")

    def settle(self) -> Frame:
        """Waits until the page is done."""
        frame = self.frame()
        frame.wait_for_function(_SETTLED, timeout=PATIENCE_MS)
        return frame

    def set_dark(self) -> Frame:
        """Does what TensorBoard's own switch does."""
        self.page.evaluate("document.body.classList.add('dark-mode')")
        frame = self.frame()
        frame.wait_for_function("document.documentElement.dataset.mantineColorScheme === 'dark'")
        return self.settle()

    def state(self) -> dict[str, str]:
        """The plugin's part of the address."""
        tokens = urlsplit(self.page.url).fragment.split("&")
        pairs = (token.partition("=") for token in tokens if token.startswith(f"p.{PLUGIN}."))
        return {key.removeprefix(f"p.{PLUGIN}."): value for key, _, value in pairs}

    def overflow(self) -> int:
        """Pixels by which the page is wider than its frame."""
        width: int = self.frame().evaluate(
            "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - document.documentElement.clientWidth"
        )
        return width

    def axe(self, *rules: str) -> list[str]:
        """Serious and critical findings of axe-core, of all its rules or of those named."""
        frame = self.frame()
        # addScriptTag is blocked by TensorBoard's CSP; evaluate is not. A page that was looked at has it already.
        if not frame.evaluate("'axe' in window"):
            frame.evaluate(AXE.read_text(encoding="utf-8"))
        options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": rules} if rules else {})}
        result: dict[str, Any] = frame.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{found['id']}: {found['help']} ({node['html'][:160]})"
            for found in result["violations"]
            if found["impact"] in ("serious", "critical")
            for node in found["nodes"][:3]
        ]

    def _asked(self, request: Request) -> None:
        """Notes what would leave this machine; FLAGS see to it that it does not."""
        address = urlsplit(request.url)
        if address.scheme.startswith(("http", "ws")) and address.hostname not in ("127.0.0.1", "localhost"):
            self.faults.append(f"outside request: {request.url}")

    def _heard(self, message: Any) -> None:
        # With a path prefix TensorBoard asks for its own fonts without it.
        if message.type != "error" or "/font-roboto/" in message.location.get("url", ""):
            return
        text = f"console: {message.text} ({message.location.get('url', '')})"
        (self.refusals if _HTTP_STATUS.search(text) else self.faults).append(text)


CONTRAST = ("color-contrast", "link-in-text-block")
"""The rules of axe-core that look at colours: all that another theme changes."""


def fragment(**state: str) -> str:
    """The hash of TensorBoard's address for a state of the plugin. By default, sums are shown as the server answers them."""
    wanted = state if "diff" in state.get("view", "") else {"per": "total", **state}
    return "#" + "&".join([PLUGIN, *(f"p.{PLUGIN}.{key}={quote(value)}" for key, value in wanted.items() if value)])


@contextmanager
def tab(browser: Browser, address: str, size: Sequence[int] = (1440, 900), bare: bool = False) -> Iterator[Tab]:
    """A tab in a browser profile of its own, ``bare`` of TensorBoard's page if so asked."""
    one = new_tab(browser, address, size, bare)
    try:
        yield one
    finally:
        one.close()


def new_tab(
    browser: Browser, address: str, size: Sequence[int], bare: bool = False, covered: bool | None = None
) -> Tab:
    """Returns a tab in a browser profile of its own, ``bare`` of TensorBoard if so asked; the caller closes it."""
    viewport: ViewportSize = {"width": size[0], "height": size[1]}
    return Tab(browser.new_context(viewport=viewport, reduced_motion="reduce"), address, bare, covered)
