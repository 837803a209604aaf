"""Pictures of every view, light and dark, in two sizes: ``make screenshots`` (into screenshots/, not in git).

``--run`` names one run (default: the GPU recordings where this machine has them, else the synthetic GPU run);
``--logdir`` another log directory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.harness import ROOT, SAMPLES, V100, VIEWS, Tab, chromium, tab, tensorboard

SIZES = ((1440, 900), (1000, 700))


def main() -> None:
    options = _options()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as cache,
        tensorboard(Path(options.logdir), Path(cache)) as address,
        sync_playwright() as playwright,
        chromium(playwright) as browser,
    ):
        for size in SIZES:
            _shoot(browser, address, size, options, out)


def _shoot(browser: Browser, address: str, size: tuple[int, int], options: argparse.Namespace, out: Path) -> None:
    state = {"run": options.run, **({"span": options.span} if options.span else {})}
    for view in options.view or VIEWS:
        with tab(browser, address, size) as page:
            page.open(view=view, per="", **state)
            _save(page, out / f"{options.prefix}{view}_light_{size[0]}.png")
            page.set_dark()
            _save(page, out / f"{options.prefix}{view}_dark_{size[0]}.png")


def _save(page: Tab, path: Path) -> None:
    page.page.screenshot(path=path)
    print(path, *page.faults)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    has_v100 = V100.exists()
    parser.add_argument("--logdir", default=str(V100 if has_v100 else SAMPLES))
    parser.add_argument("--run", default="resnet50_num_workers_0" if has_v100 else "synthetic_gpu")
    parser.add_argument("--span", default="")
    parser.add_argument("--view", action="append", choices=VIEWS)
    parser.add_argument("--prefix", default="", help="of the file names")
    parser.add_argument("--out", default=str(ROOT / "screenshots"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
