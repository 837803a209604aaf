"""Where links into the timeline open: the same as those of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tb_plugin.analysis.timeline_links import at_event, range_around
from tests.builders import kernel, trace

CASES = json.loads((Path(__file__).resolve().parents[1] / "around_cases.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_an_event_takes_half_of_the_picture(case: dict[str, int]) -> None:
    shown = range_around(case["start_ns"], case["dur_ns"])
    assert shown == {"start_ns": str(case["from_ns"]), "end_ns": str(case["to_ns"])}


def test_gaps_are_shown_where_there_is_a_device() -> None:
    host = trace().step(1, 0, 50).op("aten::mm", 10, 5)
    assert at_event(host.table(), 1) == {"event": "1", "start_ns": "7500", "end_ns": "17500"}
    assert at_event(host.device(0).launches(kernel("k", 1, 20)).table(), 1)["gaps"] == "1"
