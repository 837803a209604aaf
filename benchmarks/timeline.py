"""The timeline in a browser: ``python -m benchmarks.timeline`` (``make bench-timeline``; see README.md here).

A profile of many events is ready; then a headless Chromium opens it, moves through it, and counts. Nothing is drawn by a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import corpus, perfetto, ranks_timeline
from benchmarks.compare import DOCUMENT
from benchmarks.measure import resident, tree
from benchmarks.report import PINNED, pinned, processor, quantile
from tb_plugin import __version__

HERE = Path(__file__).resolve().parent
SIZE = (1600, 900)
OPENED = 5
"""Times the page is opened: the first one in an empty browser, in front of a server that has drawn nothing yet."""
FRAMES, REST = 100, 40
MOVES = ("zoom in", "pan", "zoom out")
TARGET_NS = 100_000
WARM_AT, MEASURED_AT = 0.35, 0.62
"""Where is zoomed in: the measured pass meets nothing that the warm-up has loaded there."""
SETTLED = "document.documentElement.dataset.state === 'idle'"
MARK = "torch-trace-timeline-drawn"
"""The page's own mark of the first picture with tracks. Without it: the first frame of a complete page."""
_WATCH = """
performance.setResourceTimingBufferSize(20000)
const look = () => {
  const done = document.documentElement?.dataset.state === 'idle' && document.querySelector('[data-testid=timeline] canvas')
  if (done) globalThis.benchDrawn = performance.now()
  else requestAnimationFrame(look)
}
requestAnimationFrame(look)
"""
_CLICK = """(() => {
  const now = performance.now()
  for (const link of document.querySelectorAll('nav a, nav button')) if (/Timeline/.test(link.textContent)) link.click()
  return now
})()"""
_DRAWN = f"performance.getEntriesByName('{MARK}')[0]?.startTime ?? globalThis.benchDrawn ?? null"
_REQUESTS = """
performance.getEntriesByType('resource')
  .filter((entry) => /\\/(view\\/timeline|tiles)([/?]|$)/.test(entry.name))
  .map((entry) => [entry.duration, entry.transferSize])
"""


@dataclass
class Measured:
    """What was seen of one profile."""

    source: str
    events: int
    length_ns: int
    ready_s: float
    """Until the profile was ready; not a part of the measurement."""
    shown_ms: float
    """From the click on Timeline in an open page to the first picture: the first question about the profile's events."""
    first_ms: list[float]
    """From a page's address to its first picture."""
    frames: dict[str, list[float]]
    """Milliseconds between frames by phase."""
    reached: list[str]
    requests: dict[str, list[tuple[float, float]]]
    """Milliseconds and bytes by pass."""
    heap_bytes: float
    renderer_bytes: float
    load: float
    """Of the machine ahead of it: on a busy one no number counts."""
    peers: dict[str, str] = field(default_factory=dict)

    @property
    def moved(self) -> list[float]:
        """Frames in which the window moved."""
        return [value for name in MOVES for value in self.frames[name]]

    @property
    def every(self) -> list[float]:
        """All frames, also those after a move, when data arrives."""
        return [value for name, values in self.frames.items() if name != "still" for value in values]


@dataclass(frozen=True)
class Bound:
    """One condition of acceptance."""

    what: str
    value: float | None
    most: float
    unit: str

    @property
    def row(self) -> str:
        """A row of the table."""
        if self.value is None:
            return f"| {self.what} | none seen | {self.most:,.0f} {self.unit} | |"
        word = "holds" if self.value <= self.most else "**FAILS**"
        return f"| {self.what} | {self.value:,.1f} {self.unit} | {self.most:,.0f} {self.unit} | {word} |"


def bounds_of(found: Measured) -> list[Bound]:
    """The conditions of acceptance, with what was measured."""
    asked = found.requests["measured"]
    return [
        Bound("p95 between frames while moving", quantile(found.moved, 0.95), 18, "ms"),
        Bound("slowest frame, data arriving included", max(found.every), 60, "ms"),
        Bound("tile request p95", quantile([took for took, _ in asked], 0.95) if asked else None, 40, "ms"),
        Bound("largest tile answer", max(size for _, size in asked) / 1e3 if asked else None, 200, "kB"),
        Bound("first tiles after the click on Timeline", found.shown_ms, 500, "ms"),
        Bound("first tiles, first visit of the page", found.first_ms[0], 500, "ms"),
        Bound(
            f"first tiles, median of {len(found.first_ms) - 1} more", statistics.median(found.first_ms[1:]), 500, "ms"
        ),
        Bound("browser heap", found.heap_bytes / 1e6, 400, "MB"),
    ]


def section(heading: str, found: Measured) -> str:
    """A section of docs/benchmarks.md."""
    lines = [
        f"{PINNED}, {found.events:,} events of {found.source}",
        "",
        f"{heading}. {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, Torch Trace {__version__}, headless Chromium, {SIZE[0]} x {SIZE[1]}, no GPU. "
        f"The trace lasts {found.length_ns / 1e9:.1f} s; its profile was ready after {found.ready_s:.1f} s.",
        "",
        "| condition | measured | bound | |",
        "|---|---|---|---|",
        *(bound.row for bound in bounds_of(found)),
        "",
        f"First tiles, each visit: {', '.join(f'{value:,.0f}' for value in found.first_ms)} ms. "
        f"In sight after zoom in, pan, zoom out: {'; '.join(found.reached)}. "
        f"Renderer's resident memory: {found.renderer_bytes / 1e6:,.0f} MB. Load of the machine before: {found.load:.1f}.",
        "",
        "| ms between frames | frames | p50 | p95 | p99 | max | over 18 | over 60 |",
        "|---|---|---|---|---|---|---|---|",
        *(_frames_row(name, values) for name, values in found.frames.items()),
        _frames_row("all moving", found.moved),
        "",
        "| requests of the timeline | count | p50 ms | p95 ms | max ms | p50 kB | p95 kB | max kB |",
        "|---|---|---|---|---|---|---|---|",
        *(_requests_row(name, values) for name, values in found.requests.items()),
    ]
    if found.peers:
        lines += ["", "Elsewhere:", "", *(f"- {name}: {text}" for name, text in found.peers.items())]
    return "\n".join(lines) + "\n"


def _frames_row(name: str, values: Sequence[float]) -> str:
    if not values:
        return f"| {name} | 0 | | | | | | |"
    shown = " | ".join(f"{quantile(values, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0))
    over = " | ".join(str(sum(value > bound for value in values)) for bound in (18, 60))
    return f"| {name} | {len(values)} | {shown} | {over} |"


def _requests_row(name: str, values: Sequence[tuple[float, float]]) -> str:
    if not values:
        return f"| {name} | 0 | | | | | | |"
    times = " | ".join(f"{quantile([took for took, _ in values], share):.1f}" for share in (0.5, 0.95, 1.0))
    sizes = " | ".join(f"{quantile([size / 1e3 for _, size in values], share):.1f}" for share in (0.5, 0.95, 1.0))
    return f"| {name} | {len(values)} | {times} | {sizes} |"


def main() -> int:
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.ranks > 1:
        print(ranks_timeline.measure(options.folder, options.ranks, options.events))
        return 0
    _say(f"Preparing {options.source} {options.events:,} ...")
    run = corpus.made(options.folder, options.events, options.source)
    found = _measured(run, options.folder / "timeline-cache", options.source)
    if options.peer:
        _say("Perfetto's own page ...")
        found.peers["Perfetto UI"] = perfetto.until_ready(corpus.files(run)[0], options.folder / "perfetto", SIZE)
    text = section(datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC"), found)
    if options.write:
        DOCUMENT.write_text(pinned(DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    real = [source for source in corpus.available() if source != corpus.RANKS]
    parser.add_argument("--source", choices=tuple(corpus.REAL), default=real[0] if real else None, required=not real)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=1, help="so many invented ranks of --events each, on one timeline")
    parser.add_argument("--peer", choices=("perfetto",), help="how long the built copy of Perfetto's page on npm takes")
    parser.add_argument("--write", action="store_true", help="put the section into docs/benchmarks.md")
    default = Path(tempfile.gettempdir()) / "torch-trace-bench"
    parser.add_argument("--folder", type=Path, default=default, help="where traces and their columns are kept")
    return parser.parse_args()


def _measured(run: Path, cache: Path, source: str) -> Measured:
    from playwright.sync_api import sync_playwright

    from tests.browser import harness

    with harness.tensorboard(run, cache) as address:
        plugin = f"{address}data/plugin/{harness.PLUGIN}/"
        _say("Loading ...")
        load, begin = os.getloadavg()[0], time.perf_counter()
        profile = _ready(plugin)
        ready_s = time.perf_counter() - begin
        with sync_playwright() as playwright, harness.chromium(playwright) as browser:
            page = _page(browser)
            shown_ms = _shown(page, plugin)
            page = _page(browser)  # its browser has nothing of the page yet
            requests: dict[str, list[tuple[float, float]]] = {}
            first = []
            for _ in range(OPENED):
                page.goto("about:blank")
                page.goto(f"{plugin}index.html{harness.fragment(view='timeline')}")
                page.wait_for_function(f"({_DRAWN}) !== null", timeout=600_000)
                first.append(float(page.evaluate(_DRAWN)))
                page.wait_for_function(SETTLED)
                requests.setdefault("opening", []).extend(_taken(page))
            _say(f"First tiles after {', '.join(f'{value:.0f}' for value in first)} ms. Moving ...")
            length_ns = _whole(page)
            frames: dict[str, list[float]] = {}
            reached: list[str] = []
            for name, at in (("warm-up", WARM_AT), ("measured", MEASURED_AT)):
                _whole(page)
                _taken(page)
                frames, reached = _moved(page, at, length_ns)
                page.wait_for_function(SETTLED)
                requests[name] = _taken(page)
            return Measured(
                source=source,
                events=int(profile["read"]["events_loaded"]),
                length_ns=length_ns,
                ready_s=ready_s,
                shown_ms=shown_ms,
                first_ms=first,
                frames=frames,
                reached=reached,
                requests=requests,
                heap_bytes=_heap(page),
                renderer_bytes=_renderers(),
                load=load,
            )


def _page(browser: Any) -> Any:
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
    context.add_init_script(_WATCH)
    return context.new_page()


def _shown(page: Any, plugin: str) -> float:
    """Milliseconds from the Overview of a profile to its timeline."""
    from tests.browser import harness

    page.goto(f"{plugin}index.html{harness.fragment(view='overview')}")
    page.wait_for_function(SETTLED)
    clicked = page.evaluate(_CLICK)
    page.wait_for_function(f"performance.getEntriesByName('{MARK}').length > 0", timeout=600_000)
    return float(page.evaluate(f"performance.getEntriesByName('{MARK}')[0].startTime")) - float(clicked)


def _ready(plugin: str) -> dict[str, Any]:
    while True:
        with urllib.request.urlopen(f"{plugin}profile?{urlencode({'start': 1})}") as answer:
            profile: dict[str, Any] = json.load(answer)
        if profile["state"] == "failed":
            raise SystemExit(str(profile["problem"]))
        if profile["state"] == "ready":
            return profile
        time.sleep(0.2)


def _whole(page: Any) -> int:
    """Shows the whole trace as a person does; its length."""
    page.locator("[data-testid=timeline] canvas").focus()
    page.keyboard.press("0")
    page.wait_for_function("location.hash.includes('start_ns=')")
    page.wait_for_timeout(400)  # the address follows, then what is missing is asked for
    page.wait_for_function(SETTLED)
    state = dict(part.split("=") for part in page.evaluate("location.hash").split("&") if "_ns=" in part)
    return int(state["p.torch_trace.end_ns"]) - int(state["p.torch_trace.start_ns"])


def _moved(page: Any, at: float, length_ns: int) -> tuple[dict[str, list[float]], list[str]]:
    wanted = {"at": at, "spanNs": length_ns, "targetNs": TARGET_NS, "frames": FRAMES, "rest": REST}
    answer = page.evaluate((HERE / "frames.js").read_text(encoding="utf-8"), wanted)
    shown = [phase[2].partition(" in sight")[0] for phase in answer if len(phase) > 2]
    return {phase[0]: phase[1] for phase in answer}, shown


def _taken(page: Any) -> list[tuple[float, float]]:
    """The requests since the last call."""
    found = page.evaluate(f"(() => {{ const all = {_REQUESTS}; performance.clearResourceTimings(); return all }})()")
    return [(float(took), float(size)) for took, size in found]


def _heap(page: Any) -> float:
    """JavaScript's objects and the buffers that they hold, without what nobody holds any more."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    usage: Mapping[str, float] = session.send("Runtime.getHeapUsage")
    return usage["usedSize"] + usage.get("backingStorageSize", 0.0)


def _renderers() -> float:
    """The largest renderer among our own descendants."""
    return float(max(map(resident, _of_type(tree(os.getpid()), b"--type=renderer")), default=0))


def _of_type(pids: Sequence[int], word: bytes) -> Iterator[int]:
    for pid in pids:
        try:
            if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid
        except OSError:  # ended meanwhile
            continue


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
