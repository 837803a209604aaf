"""Requests for memory that failed (``[OutOfMemory]``): the first sentence, the first finding, and marks on two pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tb_plugin.analysis.out_of_memory import failures_of
from tb_plugin.format import fill, format_value
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Figure
from tb_plugin.rules._base import Limit
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.service.answers.chrome_export import write_window
from tests.builders import HOST, TraceBuilder, kernel, model, part, trace

GIB = 1 << 30
NAME = "[OutOfMemory]"
FORWARD = "train.py(9): forward"


def fail(builder: TraceBuilder, at: int, size: int | None = 2 * GIB, *, tid: int = 1, **args: Any) -> TraceBuilder:
    """A request of so many bytes fails on cuda:0, where 14 of 15 reserved GiB are in use. None: not recorded."""
    all_of = {"Device Type": 1, "Device Id": 0, "Bytes": size, "Total Allocated": 14 * GIB, "Total Reserved": 15 * GIB}
    given = {key: value for key, value in {**all_of, **args}.items() if value is not None}
    return builder.raw(
        ph="i", s="t", cat="cpu_instant_event", name=NAME, pid=HOST, tid=tid, ts=at, args=given
    )  # fmt: skip


NOTHING: dict[str, Any] = {"Device Type": None, "Device Id": None, "Total Allocated": None, "Total Reserved": None}


def training() -> TraceBuilder:
    """Two steps of 900 us from 1,000 us on; a device that is busy for 500 us of each; 10 GiB in use from 1,025 us on."""
    builder = trace().device(0)
    for i in range(2):
        at = 1000 * (i + 1)
        builder.step(i, at, 900).python(FORWARD, at + 10, 300, id=i + 1)
        builder.op("aten::mm", at + 20, 30).launches(kernel("gemm", 500, at + 60))
        builder.memory(at + 25, 1 * GIB, 1, 0, Addr=i + 1, **{"Total Allocated": (10 + i) * GIB})
        builder.op("aten::empty", at + 100, 20)
    return builder


def filled(text: str, figures: list[Figure]) -> str:
    return fill(text, {each.metric.key: format_value(each.value, each.metric.unit) for each in figures})


def payload(builder: TraceBuilder, view: str, name: str, **params: Any) -> Any:
    return part(builder.table(), view, **params).payloads.get(name)


def first_sentence(builder: TraceBuilder, **params: Any) -> str:
    notice = payload(builder, "overview", "largest_costs", **params).notices[0]
    return filled(notice.text, notice.figures)


def test_a_failed_request_is_the_first_sentence_and_the_first_finding() -> None:
    builder = fail(training(), 2110)
    wanted = f"2.00 GiB requested by {FORWARD} (aten::empty); 14.0 GiB were in use on cuda:0."
    assert first_sentence(builder) == f"Out of memory at 1.11 ms: {wanted}", "counted from the start of the trace"
    found = findings_of(builder.table(), None)
    assert found.verdict is not None and found.verdict.limit is Limit.MEMORY
    first = found.notices[0]
    assert (first.rule, first.severity, first.title) == ("out_of_memory", "high", "Out of memory")
    assert filled(first.text, first.figures) == f"Out of memory at 1.11 ms: {wanted}"
    assert first.todo and len(first.events) == 1


def test_a_trace_without_failures_says_nothing_of_them() -> None:
    table = training().table()
    assert findings_of(table, None).verdict.limit is not Limit.MEMORY  # type: ignore[union-attr]
    assert "out_of_memory" not in {notice.rule for notice in findings_of(table, None).notices}
    for view in ("memory", "timeline"):
        assert "out_of_memory" not in part(table, view).payloads


def test_it_is_a_mark_on_the_curve_and_on_the_timeline_and_an_event_of_its_thread() -> None:
    builder = fail(training(), 2110)
    for view in ("memory", "timeline"):
        marks = payload(builder, view, "out_of_memory")
        assert (marks.x, marks.lines[0].values) == ([1_110_000], [2 * GIB])
    assert payload(builder, "memory", "advice").notices[0].rule == "out_of_memory"
    table = builder.table()
    (row,) = failures_of(table).row
    assert table.kind[row] == EventKind.INSTANT and table.dur_ns[row] == 0
    assert table.strings[int(table.name[table.operator[row]])] == "aten::empty"
    assert table.report.events_dropped == table.report.events_quarantined == 0


def test_several_failures_are_counted_and_the_first_one_is_described() -> None:
    """An allocator that frees its cache and tries again, or a program that catches the error."""
    builder = fail(fail(fail(training(), 2290, GIB), 2110), 2200, 3 * GIB)
    assert first_sentence(builder).startswith("Out of memory at 1.11 ms: 2.00 GiB requested")
    assert first_sentence(builder).endswith("3 requests failed in total.")
    notice = findings_of(builder.table(), None).notices[0]
    assert notice.event_count == 3
    marks = payload(builder, "memory", "out_of_memory")
    assert (marks.x, marks.lines[0].values) == ([1_110_000, 1_200_000, 1_290_000], [2 * GIB, 3 * GIB, GIB])


def test_on_the_cpu_the_machine_is_meant() -> None:
    builder = fail(
        training(), 2110, 64 * GIB, **{"Device Type": 0, "Device Id": -1, "Total Allocated": GIB, "Total Reserved": 0}
    )
    assert first_sentence(builder).endswith(
        f"64.0 GiB requested by {FORWARD} (aten::empty); 1.00 GiB were in use on cpu."
    )
    assert "num_workers" in findings_of(builder.table(), None).notices[0].todo
    assert payload(builder, "memory", "out_of_memory").x == [1_110_000], "the CPU has no curve of its own here"
    builder.memory(2120, 1024, 0, -1, **{"Total Allocated": 1024})
    assert payload(builder, "memory", "out_of_memory") is None, "it stands on the curve of the CPU"
    assert payload(builder, "memory", "out_of_memory", extra=(("device", "cpu"),)).x == [1_110_000]


@pytest.mark.parametrize(
    ("size", "args", "wanted"),
    [
        (2 * GIB, NOTHING, f"2.00 GiB requested by {FORWARD} (aten::empty)."),
        (None, NOTHING, f"a request failed in {FORWARD} (aten::empty)."),
        (
            2 * GIB,
            {"Total Allocated": None},
            f"2.00 GiB requested by {FORWARD} (aten::empty); 11.0 GiB were in use on cuda:0.",
        ),
        (None, {}, f"a request failed in {FORWARD} (aten::empty); 14.0 GiB were in use on cuda:0."),
        (
            2 * GIB,
            {"Total Allocated": None, "Device Id": 3},
            f"2.00 GiB requested by {FORWARD} (aten::empty) on cuda:3.",
        ),
    ],
)
def test_what_is_not_recorded_is_not_said(size: int | None, args: dict[str, Any], wanted: str) -> None:
    """The level of 11 GiB is that after the last allocator event before."""
    assert first_sentence(fail(training(), 2110, size, **args)) == f"Out of memory at 1.11 ms: {wanted}"


def test_without_any_arguments_the_moment_alone_is_known() -> None:
    builder = training().raw(ph="I", cat="cpu_instant_event", name=NAME, pid=HOST, tid=9, ts=2110)
    assert first_sentence(builder) == "Out of memory at 1.11 ms: a request failed."
    assert payload(builder, "memory", "out_of_memory").lines[0].values == [None]


def test_an_operator_without_a_line_is_named_alone() -> None:
    builder = trace().device(0).op("aten::bmm", 0, 100).launches(kernel("gemm", 10, 20))
    assert "2.00 GiB requested by aten::bmm; 14.0" in first_sentence(fail(builder, 50))


def test_a_backward_operator_has_the_line_of_its_forward_operator() -> None:
    builder = trace().python(FORWARD, 0, 50).op("aten::mm", 10, 20).arrow(10, 100)
    builder.op("MmBackward0", 100, 40, tid=2)
    assert f"requested by {FORWARD} (MmBackward0)" in first_sentence(fail(builder, 120, tid=2))


def test_outside_of_the_steps_it_counts_unless_steps_are_chosen() -> None:
    """Before the first step, and between two steps."""
    for at, time in ((900, "0 ns"), (1950, "950 µs")):
        builder = fail(training(), at)
        assert first_sentence(builder).startswith(f"Out of memory at {time}: 2.00 GiB requested; 14.0")
        assert "Out of memory" not in first_sentence(builder, steps=("0",))
        assert payload(builder, "memory", "out_of_memory") is not None
    inside = fail(training(), 2110)
    assert first_sentence(inside, steps=("1",)).startswith("Out of memory")
    assert "Out of memory" not in first_sentence(inside, steps=("0",))
    assert payload(inside, "memory", "out_of_memory", steps=("0",)) is None


def test_a_trace_with_nothing_but_a_failure_opens() -> None:
    assert first_sentence(fail(trace(), 5)).startswith("Out of memory at 0 ns: 2.00 GiB requested;")


@pytest.mark.parametrize(
    ("size", "allocated", "reserved", "word"),
    [
        (2, 14, 15, "smaller batch"),
        (2, 10, 15, "expandable_segments"),
        (40, 14, 15, "shapes"),
        (2, 14, None, "smaller batch"),
    ],
)
def test_what_to_do_depends_on_why_it_failed(size: int, allocated: int, reserved: int | None, word: str) -> None:
    totals: dict[str, Any] = {
        "Total Allocated": allocated * GIB,
        "Total Reserved": None if reserved is None else reserved * GIB,
    }
    assert word in findings_of(fail(training(), 2110, size * GIB, **totals).table(), None).notices[0].todo


def test_old_files_write_it_as_a_range() -> None:
    """As they do ``[memory]``."""
    args = {"Bytes": GIB, "Device Type": 1, "Device Id": 0}
    builder = training().event("cpu_instant_event", NAME, 2110, 5, HOST, 1, **args)
    table = builder.table()
    (row,) = failures_of(table).row
    assert (table.dur_ns[row], failures_of(table).requested[0]) == (0, GIB)


def test_what_is_exported_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "worker0.pt.trace.json.gz"
    write_window(fail(training(), 2110).table(), None, None, str(path))
    again = failures_of(model(path))
    assert (again.requested.tolist(), again.allocated.tolist(), again.device) == ([2 * GIB], [14 * GIB], ("cuda:0",))
