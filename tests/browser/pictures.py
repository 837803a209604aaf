"""The pictures of README and docs: ``python -m tests.browser.pictures`` writes them into docs/pictures."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.harness import ROOT, SAMPLES, chromium, tab, tensorboard

OUT = ROOT / "docs" / "pictures"
PICTURES = {
    "distributed": ("ddp_gloo8", "distributed", (1200, 560)),
    "overview": ("resnet_cpu", "overview", (1200, 660)),
    "timeline": ("transformer_cpu", "timeline", (1200, 700)),
    "diff": ("resnet_cpu", "diff", (1200, 700)),
}
"""Name of the picture -> run of samples/, page, size."""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as cache,
        tensorboard(SAMPLES, Path(cache)) as address,
        sync_playwright() as playwright,
        chromium(playwright) as browser,
    ):
        for name, (run, view, size) in PICTURES.items():
            with tab(browser, address, size) as page:
                page.open(run=run, view=view, per="")
                page.page.screenshot(path=OUT / f"{name}.png", animations="disabled")
                print(name, (OUT / f"{name}.png").stat().st_size, *page.faults)


if __name__ == "__main__":
    main()
