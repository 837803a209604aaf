"""What a person aims at has a sensible box on every page: nothing huge, nothing cut, nothing under something else.

Whole views of a profile with a device are looked at in test_views.py, which opens them anyway.
"""

from __future__ import annotations

from tests.browser.boxes import box_faults
from tests.browser.conftest import Open

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
    {**CPU, "view": "modules"},
    {**CPU, "view": "stacks"},
)
SIZES = ((1440, 900), (1000, 700))


def test_boxes_of_controls(visit: Open) -> None:
    tab = visit()
    faults = []
    for page in PAGES:
        tab.follow(**page)
        for width, height in SIZES:
            tab.page.set_viewport_size({"width": width, "height": height})
            tab.settle()
            faults += [f"{page}, {width} x {height}: {fault}" for fault in box_faults(tab)]
    assert not faults, "\n".join(faults)
    # A phone reaches every control, too.
    tab.page.set_viewport_size({"width": 390, "height": 800})
    tab.open_alone(**GPU, view="overview")
    assert box_faults(tab) == []
