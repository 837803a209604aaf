"""Diff: what is significant, and what is noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.payloads import Breakdown, Figures, Notice, Notices, Scatter, Table, View
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, kernel, trace, whole_part

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def run(loading: Sequence[int], compute: Sequence[int]) -> TraceBuilder:
    """Steps that load and compute for so many microseconds."""
    builder = trace()
    for number, (load, work) in enumerate(zip(loading, compute, strict=True)):
        at = 1000 * number
        builder.step(number, at, load + work).annotation(LOADER, at, load).op("aten::mm", at + load, work)
    return builder


def page(base: TraceBuilder, exp: TraceBuilder, **extra: str) -> View:
    parts = [whole_part(each.table(), "diff") for each in (base, exp)]
    view = Diff().answer(parts, Params(limit=None, extra=tuple(extra.items())))
    assert isinstance(view, View)
    return view


def first(view: View) -> Notice:
    findings = view.payloads["findings"]
    assert isinstance(findings, Notices)
    return findings.notices[0]


def waterfall(view: View) -> Breakdown:
    payload = view.payloads["waterfall"]
    assert isinstance(payload, Breakdown)
    return payload


def verdicts(view: View) -> dict[str, bool | None]:
    return {part.category: part.interval and part.interval.is_significant for part in waterfall(view).parts}


def note_of_change(view: View) -> str:
    headline = view.payloads["headline"]
    assert isinstance(headline, Figures)
    return {figure.metric.key: figure.note for figure in headline.figures}["delta_step_ns"]


BASE = run([100, 102, 101, 99], [50, 58, 42, 50])
SLOWER = run([140, 142, 141, 139], [52, 44, 60, 48])
AGAIN = run([101, 100, 100, 103], [48, 60, 55, 43])


def test_a_significant_change_has_an_interval_around_it() -> None:
    view = page(BASE, SLOWER)
    total = waterfall(view)
    assert total.interval is not None and 0 < total.interval.low < total.total == 41_000 < total.interval.high
    assert verdicts(view) == {"dataloader": True, "cpu": False}
    assert total.subtitle.startswith("1 of 2 changes are within noise; ")
    assert first(view).rule == "slower" and first(view).text.startswith(
        "The step time changed significantly: {delta_step_ns} (95 % interval {interval_low_ns} to {interval_high_ns})."
    )
    ends = {figure.metric.key: figure.value for figure in first(view).figures}
    assert (ends["interval_low_ns"], ends["interval_high_ns"]) == (total.interval.low, total.interval.high)
    assert note_of_change(view) == "significant"


def test_a_change_within_noise_has_no_main_change() -> None:
    view = page(BASE, AGAIN)
    assert verdicts(view) == {"dataloader": False, "cpu": False}
    assert (first(view).rule, first(view).severity) == ("within_noise", "info")
    assert first(view).text.startswith("The step time did not change significantly: {delta_step_ns} (95 % interval ")
    assert "Main change" not in first(view).text and note_of_change(view) == "within noise"


def test_sums_have_the_intervals_of_sums() -> None:
    per_step, total = (waterfall(page(BASE, SLOWER, per=per)).interval for per in ("step", "total"))
    assert per_step is not None and total is not None
    assert total.low == pytest.approx(4 * per_step.low, abs=4)


@pytest.mark.parametrize(
    ("base", "exp", "who"),
    [
        (run([100, 100], [50, 50]), SLOWER, "the baseline has"),
        (BASE, run([140, 140], [50, 50]), "the experiment has"),
        (run([100, 100], [50, 50]), run([140, 140], [50, 50]), "both sides have"),
    ],
)
def test_noise_of_few_steps_is_unknown(base: TraceBuilder, exp: TraceBuilder, who: str) -> None:
    view = page(base, exp)
    assert f"Noise is unknown: {who} fewer than 3 steps. Main change: " in first(view).text
    assert first(view).severity == "high" and waterfall(view).interval is None
    assert set(verdicts(view).values()) == {None} and "noise" not in waterfall(view).subtitle
    assert note_of_change(view) == "noise unknown"


def test_the_chart_has_the_steps_of_both_sides() -> None:
    chart = page(BASE, SLOWER).payloads["step_times"]
    assert isinstance(chart, Scatter)
    assert [(group.title, group.label, group.x, group.y) for group in chart.groups] == [
        ("Baseline", ["0", "1", "2", "3"], [1, 2, 3, 4], [150_000, 160_000, 143_000, 149_000]),
        ("Experiment", ["0", "1", "2", "3"], [1, 2, 3, 4], [192_000, 186_000, 201_000, 187_000]),
    ]


def test_one_step_on_each_side_is_no_chart() -> None:
    assert "step_times" not in page(run([100], [50]), run([140], [50])).payloads


def with_kernels(*launches: Sequence[tuple[str, int]]) -> TraceBuilder:
    """Steps of 500 us with an operator and kernels of so many microseconds."""
    builder = trace()
    for number, step in enumerate(launches):
        at = 1000 * number
        builder.step(number, at, 500).op("aten::mm", at, 100)
        for place, (name, dur) in enumerate(step):
            builder.launches(kernel(name, dur, at + 200 + 100 * place), at=at + 10 + 20 * place, dur=10)
    return builder


KERNELS = with_kernels(*([("gemm", 20 + i), ("relu", 30 - 10 * (i % 2))] for i in range(4)))
LATER = with_kernels(*([("gemm", 40 + i), ("relu", 20 + 9 * (i % 2)), ("copy", 5)] for i in range(4)))


def table(base: TraceBuilder, exp: TraceBuilder, name: str, **extra: str) -> dict[str, dict[str, Any]]:
    parts = [whole_part(each.table(), "diff") for each in (base, exp)]
    found = Diff().answer(parts, Params(table=name, limit=None, extra=tuple(extra.items())))
    assert isinstance(found, Table)
    return {row["name"]: row for row in found.rows}


def test_rows_have_verdicts() -> None:
    rows = table(KERNELS, LATER, "kernels")
    assert {name: row["noise"] for name, row in rows.items()} == {
        "gemm": "significant",
        "relu": "within noise",
        "copy": "significant",
    }
    for row in rows.values():
        assert row["interval_low_ns"] <= row["delta_ns"] <= row["interval_high_ns"]
    (mm,) = (row for row in table(KERNELS, LATER, "operators", measure="device_self_ns").values())
    assert mm["noise"] == "significant" and mm["interval_low_ns"] > 0
    host = table(KERNELS, LATER, "operators", measure="host_self_ns")["aten::mm"]  # one more launch of 10 us
    assert (host["noise"], host["interval_low_ns"], host["interval_high_ns"]) == ("significant", -10_000, -10_000)
    assert table(KERNELS, LATER, "runtime_calls")["cudaLaunchKernel"]["noise"] in ("significant", "within noise")
    assert "noise" not in table(KERNELS, LATER, "kernels", measure="all")["gemm"]


def test_verdicts_are_counted() -> None:
    noise = page(KERNELS, LATER).payloads["noise"]
    assert isinstance(noise, Figures)
    assert ("Kernels", "1 of 3 changes are within noise") in [(f.metric.title, f.value) for f in noise.figures]


def test_rows_of_few_steps_have_no_verdict() -> None:
    few = with_kernels([("gemm", 20)], [("gemm", 21)])
    assert "noise" not in table(few, LATER, "kernels")["gemm"] and "noise" not in page(few, LATER).payloads


def test_rows_beyond_the_limit_have_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tb_plugin.views.diff.row_noise.MAX_CELLS", 8)
    rows = table(KERNELS, LATER, "kernels")
    assert rows["copy"]["noise"] is None and rows["gemm"]["noise"] == "significant"
