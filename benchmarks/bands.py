"""The active-memory timeline in a browser: ``python -m benchmarks.bands --events 1000000`` (see README.md here).

A snapshot of many events is ready; then a headless Chromium opens it, moves through its bands, and counts frames, as
``benchmarks.timeline`` does with a trace.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import processor, quantile
from benchmarks.timeline import FRAMES, HERE, MEASURED_AT, MOVES, REST, SETTLED, SIZE, WARM_AT

TARGET = 2_000
"""Events in sight when it is zoomed in."""
SELECTOR = "[data-testid=bands] canvas"
GUTTER = 62


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    default = Path(tempfile.gettempdir()) / "torch-trace-bench"
    parser.add_argument("--folder", type=Path, default=default, help="where snapshots and their columns are kept")
    options = parser.parse_args()
    run = options.folder / f"snapshot_{options.events}"
    path = run / "made.pickle"
    if not path.exists():
        run.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.snapshots", str(path), "--events", str(options.events)]
        subprocess.run(command, check=True)
    load = os.getloadavg()[0]
    frames, requests = _measured(run, options.folder / "bands-cache", options.events)
    print(f"{options.events:,} events, {processor()}, load before {load:.1f}, {SIZE[0]} x {SIZE[1]}, no GPU\n")
    print("| ms between frames | frames | p50 | p95 | p99 | max |\n|---|---|---|---|---|---|")
    moving = [value for name in MOVES for value in frames[name]]
    for name, values in {**frames, "all moving": moving}.items():
        shown = " | ".join(f"{quantile(values, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0))
        print(f"| {name} | {len(values)} | {shown} |")
    if requests:
        took = " | ".join(f"{quantile(requests, share):.0f}" for share in (0.5, 0.95, 1.0))
        print(f"\n| requests | p50 ms | p95 ms | max ms |\n|---|---|---|---|\n| {len(requests)} | {took} |")
    return 0


def _measured(run: Path, cache: Path, events: int) -> tuple[dict[str, list[float]], list[float]]:
    from playwright.sync_api import sync_playwright

    from tests.browser import harness

    with (
        harness.tensorboard(run, cache) as address,
        sync_playwright() as playwright,
        harness.chromium(playwright) as browser,
    ):
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        plugin = f"{address}data/plugin/{harness.PLUGIN}/"
        page.goto(f"{plugin}index.html{harness.fragment(view='allocations')}")
        page.wait_for_selector(SELECTOR, timeout=600_000)
        page.wait_for_function(SETTLED, timeout=600_000)
        page.locator(SELECTOR).scroll_into_view_if_needed()
        frames: dict[str, list[float]] = {}
        for at in (WARM_AT, MEASURED_AT):
            page.locator(SELECTOR).focus()
            page.keyboard.press("0")
            page.wait_for_timeout(400)
            page.wait_for_function(SETTLED, timeout=60_000)
            page.evaluate("performance.clearResourceTimings()")
            frames = _moved(page, at, events)
            page.wait_for_function(SETTLED, timeout=60_000)
        asked = page.evaluate(
            "performance.getEntriesByType('resource').filter(({name}) => /tile=/.test(name)).map(({duration}) => duration)"
        )
        return frames, [float(took) for took in asked]


def _moved(page: Any, at: float, events: int) -> dict[str, list[float]]:
    wanted = {"at": at, "spanNs": events, "targetNs": TARGET, "frames": FRAMES, "rest": REST, "selector": SELECTOR}
    answer = page.evaluate((HERE / "frames.js").read_text(encoding="utf-8"), {**wanted, "gutter": GUTTER})
    return {phase[0]: phase[1] for phase in answer}


if __name__ == "__main__":
    sys.exit(main())
