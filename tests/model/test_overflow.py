"""Durations of device work that overflowed in the recorder (N7)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder, facts, kernel, part, trace

SECOND = 1_000_000
"""Microseconds."""


def launched(*work: tuple[int, int], stream: int = 7) -> TraceBuilder:
    """Kernels (start, duration) in a host operator of 400 us."""
    builder = trace().op("aten::mm", 0, 400)
    for at, dur in work:
        builder.launches(kernel("k", dur, at, stream=stream), at=1)
    return builder


def durations(builder: TraceBuilder) -> list[int]:
    table = builder.table()
    return [int(dur) // 1000 for dur in table.dur_ns[table.device >= 0]]


def test_ten_kernels_of_16_s_at_once_on_one_stream_end_where_the_next_begins() -> None:
    builder = launched(*((10 * i, 1_600_000) for i in range(10)))
    assert durations(builder) == [10] * 9 + [310], "the last one ends with the host"
    table = builder.table()
    assert table.clipped.recorded_ns.tolist() == [1_600_000_000] * 10
    assert facts(table)["device.0.busy_ns"] == 400_000
    assert table.coverage.end_ns == 400_000
    assert table.report.issues[0].code == "overflowed_duration" and table.report.issues[0].count == 10


def test_what_was_recorded_is_shown() -> None:
    table = launched((0, 2 * SECOND), (10, 5)).table()
    row = int(table.clipped.row[0])
    event: Any = part(table, "events", extra=(("event", str(row)),)).payloads["event"]
    shown = {figure.metric.key: figure.value for figure in event.figures}
    assert (shown["dur_ns"], shown["recorded_dur_ns"]) == (10_000, 2_000_000_000)
    notices: Any = part(table, "overview").payloads["data_quality"]
    (notice,) = [notice for notice in notices.notices if notice.rule == "durations_clipped"]
    assert [figure.value for figure in notice.figures] == [1, 2_000_000_000]
    assert "events_repaired" not in {notice.rule for notice in notices.notices}


@pytest.mark.parametrize(
    "work",
    [
        [(0, 2 * SECOND)],  # a long kernel alone: nothing contradicts it
        [(0, 50_000), (10, 5)],  # 50 ms: kernels may overlap by design
        [(0, 10), (10, 2 * SECOND)],  # the last one of a stream that nothing contradicts
    ],
)
def test_what_may_be_is_believed(work: list[tuple[int, int]]) -> None:
    assert durations(launched(*work)) == [dur for _, dur in work]


def test_the_boundary_is_ten_times_everything_else() -> None:
    """Everything else takes 20 ms: 200 ms may be, a nanosecond more may not."""

    def long(dur: float) -> TraceBuilder:
        return trace().op("aten::mm", 0, 20_000).launches(kernel("k", dur, 0)).launches(kernel("k", 5, 10), at=1)

    assert durations(long(200_000)) == [200_000, 5]
    assert durations(long(200_000.001)) == [10, 5]


def test_it_is_how_long_work_takes_and_not_when_it_ends() -> None:
    """Everything else takes 20 ms; 195 ms from the middle on end after 200 ms."""
    builder = (
        trace().op("aten::mm", 0, 20_000).launches(kernel("k", 195_000, 10_000)).launches(kernel("k", 5, 10_010), at=1)
    )
    assert durations(builder) == [195_000, 5]


def test_other_streams_do_not_contradict() -> None:
    builder = launched((0, 2 * SECOND)).launches(kernel("k", 5, 10, stream=8), at=1)
    assert durations(builder) == [2 * SECOND, 5]


def test_annotations_of_such_a_stream_end_with_everything_else() -> None:
    builder = launched((0, 2 * SECOND), (10, 5)).device_annotation("forward", 0, 2 * SECOND)
    table = builder.table()
    assert table.coverage.end_ns == 400_000
    assert sorted(table.clipped.recorded_ns.tolist()) == [2_000_000_000, 2_000_000_000]
