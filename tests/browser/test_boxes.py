"""What a person aims at has a sensible box on every page: nothing huge, nothing cut, nothing under something else.

Whole views of a profile with a device are looked at in test_views.py, which opens them anyway.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Open
from tests.browser.harness import Tab

GPU = {"run": "synthetic_gpu"}
CPU = {"run": "transformer_cpu"}
PAGES: tuple[dict[str, str], ...] = (
    {**GPU, "view": "findings", "rule": "synchronising_calls", "dismissed": "data_loading"},
    {**GPU, "view": "timeline", "from_ns": "20000000", "to_ns": "30000000", "event": "100"},
    {**GPU, "view": "launches", "row": "cudaMemcpyAsync"},
    {**GPU, "view": "phases", "row": "1", "phase": "ProfilerStep#*"},
    {**GPU, "view": "memory", "group": "memory_events"},
    {**GPU, "view": "diff"},
    {**CPU, "view": "overview"},
    {**CPU, "view": "timeline"},
    {**CPU, "view": "operators"},
    {**CPU, "view": "modules"},
    {**CPU, "view": "stacks"},
    {**CPU, "view": "memory"},
    {**CPU, "view": "diff"},
)
SIZES = ((1440, 900), (1000, 700))
TALLEST = 80
"""Pixels; a control that is meant to be larger carries ``data-tile``."""
_FAULTS = (Path(__file__).parent / "boxes.js").read_text(encoding="utf-8")


def box_faults(tab: Tab) -> list[str]:
    """What is wrong with the boxes of the page's controls."""
    faults: list[str] = tab.frame().evaluate(_FAULTS, TALLEST)
    return faults


def test_a_phone_reaches_every_control(open_tab: Open) -> None:
    tab = open_tab(size=(390, 800))
    tab.open_alone(**GPU, view="overview")
    assert box_faults(tab) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "_".join(page.values()))
def test_boxes_of_controls(visit: Open, page: dict[str, str]) -> None:
    tab = visit()
    tab.follow(**page)
    faults = []
    for width, height in SIZES:
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.settle()
        faults += [f"{width} x {height}: {fault}" for fault in box_faults(tab)]
    assert not faults, "\n".join(faults)
