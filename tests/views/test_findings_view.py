"""What the pages of findings are told besides the findings: counts, windows, and what no rule could look at."""

from __future__ import annotations

from typing import Any

from tb_plugin.rules import regular_rules
from tb_plugin.rules._ordered_findings import EVENTS
from tests.builders import TraceBuilder, figures, kernel, part, trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def waiting(steps: int) -> TraceBuilder:
    """Steps of 100 us that wait 60 us for input and compute on the host."""
    builder = trace()
    for number in range(steps):
        at = 100 * number
        builder.step(number, at, 100).annotation(LOADER, at, 60).op("aten::mm", at + 60, 40)
    return builder


def test_all_events_are_counted_and_the_first_are_listed() -> None:
    found = part(waiting(EVENTS + 50).table(), "findings")
    (notice,) = found.payloads["findings"].notices  # type: ignore[union-attr]
    assert (notice.event_count, len(notice.events)) == (EVENTS + 50, EVENTS)
    assert found.frames["savings"].data["evidence"].to_pylist() == [EVENTS + 50]
    assert found.frames["finding_events"].data.num_rows == EVENTS


def test_what_was_not_recorded_is_told() -> None:
    builder = waiting(1)
    told = figures(part(builder.table(), "findings").payloads["together"])
    assert (told["rules_looked"], told["rules"]) == (len(regular_rules()), len(regular_rules()))
    assert told["not_recorded"] == "work of a device, input shapes, lines of Python, memory events"
    builder.device(0).launches(kernel("k", 10, 80)).python("train.py(7): step", 0, 99, id=1)
    told = figures(part(builder.table(), "findings").payloads["together"])
    assert told["not_recorded"] == "input shapes, memory events"


def test_the_overview_counts_what_is_left_out() -> None:
    table = waiting(1).table()
    assert "left_out" not in part(table, "overview").payloads
    by_link = part(table, "overview", extra=(("without", "data_loading,small_batch"),)).payloads
    assert figures(by_link["left_out"]) == {"findings_dismissed": 1, "findings_ignored": 0}, (
        "what does not apply is none"
    )
    by_file = part(table, "overview", ignored=("data_loading",)).payloads
    assert figures(by_file["left_out"]) == {"findings_dismissed": 0, "findings_ignored": 1}


def test_idle_time_says_of_which_window_it_is() -> None:
    """A step of 100 us whose device works from 40 to 60 and from 80 to 90: idle 70 in it, 20 from first to last work."""
    builder = trace().device(0).step(1, 0, 100).op("aten::mm", 0, 5)
    table = builder.launches(kernel("k", 20, 40)).op("aten::mm", 10, 5).launches(kernel("k", 10, 80)).table()
    payloads = part(table, "overview").payloads
    card: Any = payloads["device_idle_0"]
    device: Any = payloads["device_time_0"]
    assert (card.title, card.total) == ("Idle time by cause, first to last kernel", 20_000)
    assert len({each.metric.window for each in (*card.parts, *device.parts)}) == 1
    summary: Any = part(table, "idle").payloads["summary"]
    assert (summary.figures[0].metric.title, summary.figures[0].value) == ("Idle in the steps", 70_000)
    whole: Any = part(trace().op("a", 0, 5).launches(kernel("k", 20, 40)).table(), "idle").payloads["summary"]
    assert whole.figures[0].metric.title == "Idle in the recording"
