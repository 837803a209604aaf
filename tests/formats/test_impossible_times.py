"""Times that cannot be right are set aside in every format: years away, before the start of an epoch, or negative."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_plugin.model.trace.assemble import assemble
from tests.builders import TraceBuilder, read, trace
from tests.pftraces import pftrace

EPOCH_US = 1_700_000_000_000_000
YEAR_US = 365 * 86_400 * 10**6
Json = dict[str, Any]


def chrome(name: str, ts: Any, **more: Any) -> Json:
    return {"name": name, "ph": "X", "ts": ts, "pid": 1, "tid": 1, **more}


def of_another_tool(*odd: Json, start: int = EPOCH_US) -> Any:
    """Six ranges of 500 us, one each millisecond, and what is odd."""
    good = [chrome(f"range {i}", start + 1_000 * i, dur=500) for i in range(6)]
    return assemble(read(json.dumps({"traceEvents": [*good, *odd]}).encode(), name="other.json"))


def told(report: Any, code: str = "impossible_time") -> int:
    return sum(issue.count for issue in report.issues if issue.code == code)


ODD = {
    "a negative duration": (chrome("odd", EPOCH_US, dur=-5),),
    "a duration of two years": (chrome("odd", EPOCH_US, dur=2 * YEAR_US),),
    "a start at 0 in a trace that counts from an epoch": (chrome("odd", 0, dur=5),),
    "a start before an epoch": (chrome("odd", -46 * YEAR_US, dur=5),),
    "a start in 30 years": (chrome("odd", EPOCH_US + 30 * YEAR_US, dur=5),),
    "a moment before an epoch": (chrome("odd", -5, ph="i", s="t"),),
    "a counter before an epoch": (chrome("odd", -5, ph="C", args={"v": 1}),),
    "a range that ends in 30 years": (
        chrome("odd", EPOCH_US, ph="B", tid=2),
        chrome("odd", EPOCH_US + 30 * YEAR_US, ph="E", tid=2),
    ),
    "an operation before an epoch": (
        chrome("odd", -46 * YEAR_US, ph="b", cat="c", id=1),
        chrome("odd", EPOCH_US, ph="e", cat="c", id=1),
    ),
}


@pytest.mark.parametrize("events", ODD.values(), ids=ODD)
def test_traces_of_other_tools(events: tuple[Json, ...]) -> None:
    table = of_another_tool(*events)
    assert told(table.report) == 1
    assert table.coverage.end_ns == 5_500_000 and "odd" not in {table.strings[int(name)] for name in table.name}
    assert table.counters.time_ns.tolist() == []


@pytest.mark.parametrize("start", [0, EPOCH_US])
def test_times_that_can_be_right_stay(start: int) -> None:
    """An hour later is no other year, and a trace may count from 0."""
    table = of_another_tool(chrome("late", start + 3_600 * 10**6, dur=5), start=start)
    assert told(table.report) == 0 and len(table) == 7


def training() -> TraceBuilder:
    builder = trace().meta(baseTimeNanoseconds=0)
    for i in range(6):
        builder.op(f"aten::op{i}", EPOCH_US + 1_000 * i, 500)
    return builder


@pytest.mark.parametrize(("at", "dur"), [(EPOCH_US + 30 * YEAR_US, 5), (EPOCH_US, 2 * YEAR_US)])
def test_traces_of_pytorch_in_json_and_in_packets(at: int, dur: int) -> None:
    builder = training().op("odd", at, dur)
    packets = pftrace(json.loads(builder.text()))
    for table in (builder.table(), assemble(read(packets, name="trace.pftrace"))):
        assert told(table.report) == 1 and table.coverage.end_ns == pytest.approx(5_500_000, abs=256), (
            "floats of packets"
        )


def speedscope(profile: Json, unit: str = "milliseconds") -> Any:
    """The frames a and b, and one profile."""
    head = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "a"}, {"name": "b"}]},
    }
    whole = {"name": "main", "unit": unit, "startValue": 0, "endValue": 10, **profile}
    return read(json.dumps({**head, "profiles": [whole]}).encode(), name="a.speedscope.json")


def evented(*events: tuple[str, int, int]) -> Json:
    return {"type": "evented", "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]}


YEARS_MS = 46 * 365 * 86_400 * 1_000


def test_frames_of_speedscope_that_open_or_close_in_other_years() -> None:
    """The times 0, 2, 4 and 10 ms are right; at two others, 46 years away, nothing opens or closes."""
    good = (("O", 0, 0), ("O", 1, 2), ("C", 1, 4), ("C", 0, 10))
    right = speedscope(evented(*good))
    odd = speedscope(evented(("O", 1, -YEARS_MS), *good, ("C", 1, YEARS_MS)))
    assert odd.places.own.tolist() == right.places.own.tolist()
    assert (told(right.report), told(odd.report)) == (0, 2)


def test_samples_of_speedscope_that_last_for_years() -> None:
    odd = speedscope({"type": "sampled", "samples": [[0], [0, 1], [1], [1]], "weights": [5, YEARS_MS, -3, 2]})
    assert sum(odd.places.own.tolist()) == 7_000_000
    assert (told(odd.report), told(odd.report, "bad_sample")) == (1, 1)


def test_what_counts_no_time_has_no_impossible_one() -> None:
    odd = speedscope({"type": "sampled", "samples": [[0], [1]], "weights": [1, YEARS_MS * 10**6]}, unit="bytes")
    assert told(odd.report) == 0 and sum(odd.places.own.tolist()) == YEARS_MS * 10**6 + 1
