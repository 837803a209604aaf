"""What is wrong with the boxes of the page's controls."""

from __future__ import annotations

from pathlib import Path

from tests.browser.harness import Tab

TALLEST = 80
"""Pixels; a control that is meant to be larger carries ``data-tile``."""
_FAULTS = (Path(__file__).parent / "boxes.js").read_text(encoding="utf-8")


def box_faults(tab: Tab) -> list[str]:
    """What is huge, cut, outside of the page or under something else, as sentences."""
    faults: list[str] = tab.frame().evaluate(_FAULTS, TALLEST)
    return faults
