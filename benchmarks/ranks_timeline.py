"""Many ranks on one timeline in a browser: ``python -m benchmarks.timeline --ranks 64`` (see README.md here).

Invented ranks of many events each stand on one axis; a headless Chromium scrolls through all of them, zooms in and moves, and
counts frames. In the same run, and on the same machine, it moves through the timeline of one of them alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import corpus
from benchmarks.report import processor, quantile

HERE = Path(__file__).resolve().parent
MADE = 8
"""Ranks that are made and read. The others are links to the same files: the page asks and draws for each by itself, the
server has the columns of these."""
SIZE = (1600, 900)
FRAMES, REST = 100, 40
TARGET_NS = 1_000_000
ROUNDS = 3
AT_ONCE = 4
"""Ranks that are asked for at once: the pool reads two."""
SETTLED = "document.documentElement.dataset.state === 'idle'"
_FOOT = "document.querySelector('[data-testid=timeline-foot]')?.textContent ?? ''"
_SECTIONS = """
[...document.querySelectorAll('[data-testid=section]')].filter((one) => !/Read|Reading/.test(one.textContent)).length
"""
_SCROLL = """
async ({ frames, pixels }) => {
  const canvas = document.querySelector('[data-testid=timeline] canvas')
  const box = canvas.getBoundingClientRect()
  const frame = () => new Promise(requestAnimationFrame)
  const times = []
  let before = await frame()
  for (let i = 0; i < frames; i++) {
    canvas.dispatchEvent(new WheelEvent('wheel', {
      bubbles: true, cancelable: true, clientX: box.left + 40, clientY: box.top + 300, deltaY: pixels,
    }))
    const now = await frame()
    times.push(now - before)
    before = now
  }
  return times
}
"""


def run_of(folder: Path, ranks: int, events: int) -> Path:
    """The folder of a run of so many ranks of about so many events each."""
    made = corpus.made(folder, MADE * events, corpus.RANKS)
    run = folder / f"ranks{ranks}_{events}"
    if not run.is_dir():
        work = folder / f"{run.name}.unfinished"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        files = sorted(made.glob("*.gz"))
        for rank in range(ranks):
            source = files[rank % len(files)]
            target = work / f"rank{rank}.{source.name.split('.', 1)[1]}"
            if rank < len(files):
                os.link(source, target)
            else:
                target.symlink_to(f"rank{rank % len(files)}.{source.name.split('.', 1)[1]}")
        work.rename(run)
    return run


def measure(folder: Path, ranks: int, events: int) -> str:
    """Returns a section of docs/benchmarks.md: frames of one rank's timeline and of all ranks', in turn."""
    from playwright.sync_api import sync_playwright

    from tests.browser import harness

    run = run_of(folder, ranks, events)
    cache = folder / "ranks-cache"
    with harness.tensorboard(run, cache) as address:
        plugin = f"{address}data/plugin/{harness.PLUGIN}/"
        begin = time.perf_counter()
        kept = _read(plugin, ranks)
        _say(f"{kept:,} events of {ranks} ranks are read after {time.perf_counter() - begin:.0f} s")
        with sync_playwright() as playwright, harness.chromium(playwright) as browser:
            found: dict[str, dict[str, list[float]]] = {"one rank": {}, f"{ranks} ranks": {}}
            feet: dict[str, str] = {}
            pages = {}
            for name, state in (("one rank", {}), (f"{ranks} ranks", {"ranks": "*", "align": "wall"})):
                page = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}).new_page()
                page.goto(f"{plugin}index.html{harness.fragment(view='timeline', worker='rank0', **state)}")
                page.locator("[data-testid=timeline] canvas").wait_for(timeout=600_000)
                _settled(page)
                pages[name] = page
            load = os.getloadavg()[0]
            for around in range(ROUNDS):
                for name, page in pages.items():
                    page.bring_to_front()
                    for kind, times in _moved(page, several=name != "one rank", warm=around == 0).items():
                        if around > 0:
                            found[name].setdefault(kind, []).extend(times)
                    feet[name] = str(page.evaluate(_FOOT))
            heaps = {name: _heap(page) for name, page in pages.items()}
            shown = int(pages[f"{ranks} ranks"].evaluate(_SECTIONS))
    return _section(ranks, kept, shown, load, found, heaps, feet)


def _moved(page: Any, several: bool, warm: bool) -> dict[str, list[float]]:
    """Frames of each way of moving, by name."""
    page.locator("[data-testid=timeline] canvas").focus()
    page.keyboard.press("0")
    page.wait_for_timeout(500)
    _settled(page)
    state = dict(part.split("=") for part in page.evaluate("location.hash").split("&") if "_ns=" in part)
    length = int(state["p.torch_trace.end_ns"]) - int(state["p.torch_trace.start_ns"])
    frames: dict[str, list[float]] = {}
    if several:
        for name, pixels in (("scroll down", 30), ("scroll up", -30)):
            frames[name] = page.evaluate(_SCROLL, {"frames": FRAMES, "pixels": pixels})
            _settled(page)
    wanted = {"at": 0.35 if warm else 0.62, "spanNs": length, "targetNs": TARGET_NS, "frames": FRAMES, "rest": REST}
    for phase in page.evaluate((HERE / "frames.js").read_text(encoding="utf-8"), wanted):
        frames[phase[0]] = phase[1]
    _settled(page)
    if several:  # closely, where bars are made of single events
        for name, pixels in (("scroll down, close", 30), ("scroll up, close", -30)):
            frames[name] = page.evaluate(_SCROLL, {"frames": FRAMES, "pixels": pixels})
            _settled(page)
    return frames


def _settled(page: Any) -> None:
    page.wait_for_function(SETTLED, timeout=600_000)


def _read(plugin: str, ranks: int) -> int:
    """Events of all ranks once these are read: as many at a time as the pool has places, and some that wait."""
    waiting, kept = list(range(ranks)), 0
    while waiting:
        for rank in waiting[:AT_ONCE]:
            with urllib.request.urlopen(
                f"{plugin}profile?{urlencode({'start': 1, 'worker': f'rank{rank}'})}"
            ) as answer:
                profile: dict[str, Any] = json.load(answer)
            if profile["state"] == "failed":
                raise SystemExit(str(profile["problem"]))
            if profile["state"] == "ready":
                waiting.remove(rank)
                kept += int(profile["read"]["events_loaded"])
        time.sleep(0.1)
    return kept


def _heap(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0.0))


def _section(
    ranks: int,
    events: int,
    shown: int,
    load: float,
    found: dict[str, dict[str, list[float]]],
    heaps: dict[str, float],
    feet: dict[str, str],
) -> str:
    lines = [
        f"{ranks} invented ranks, {events:,} events together; {processor()}, {os.cpu_count()} cores, headless Chromium, "
        f"{SIZE[0]} x {SIZE[1]}, no GPU; load of the machine {load:.1f}. {shown} sections were read and shown.",
        "",
        "| ms between frames | frames | p50 | p95 | p99 | max | over 18 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kinds in found.items():
        for kind, times in kinds.items():
            shares = " | ".join(f"{quantile(times, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0))
            lines.append(f"| {name}, {kind} | {len(times)} | {shares} | {sum(time > 18 for time in times)} |")
    lines += ["", *(f"- {name}: heap {heaps[name] / 1e6:.0f} MB; at the end {feet[name]}" for name in found)]
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
