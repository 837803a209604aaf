"""What single tools mean by their events: totals that are no work, and Python calls without a category."""

from __future__ import annotations

from tb_plugin.model.trace.schema import EventKind
from tests.builders import part
from tests.formats.test_chrome_rules import ev, rows, table
from tests.views.test_diff_ranges import page

SUM = {"count": 3, "avg ms": 2}


def test_totals_of_clang_are_drawn_and_stand_in_no_sum_of_threads() -> None:
    trace = table(
        [
            ev("X", 0, "Source", dur=9), ev("X", 0, "Total Source", dur=9, tid=3, args=SUM),
            ev("X", 0, "Total Parse", dur=7, tid=4, args=SUM), ev("X", 2, "Total loss", dur=1, args={"count": 1}),
        ]
    )  # fmt: skip
    assert rows(trace) == [
        "1/2 Source 0-9",
        "1/~Tool totals Total Source 0-9",
        "1/~Tool totals +Total Parse 0-7",
        "1/2 +Total loss 2-3",
    ]
    overview = part(trace, "overview")
    assert overview.frames["longest_ranges"].data["name"].to_pylist() == ["Source", "Total loss"]
    assert overview.frames["busiest_threads"].data.num_rows == 1
    assert set(part(trace, "phases").frames["phases"].data["phase"].to_pylist()) == {"Source", "Total loss"}
    ranges = page(trace, trace).payloads["ranges"]
    assert {row["name"] for row in ranges.rows} == {"Source", "Total loss"}  # type: ignore[union-attr]


def test_calls_of_python_in_traces_of_jax_are_known_by_their_names() -> None:
    names = ("$train.py:12 step", "$<unknown> __exit__", "$ 5", "dot")
    trace = table(
        [ev("X", at, name, dur=1) for at, name in enumerate(names)] + [ev("X", 9, "$a.py:1 b", cat="x", dur=1)]
    )
    kinds = [EventKind(kind).name for kind in trace.kind.tolist()]
    assert kinds == ["PYTHON", "PYTHON", "ANNOTATION", "ANNOTATION", "ANNOTATION"]


def test_a_thread_of_an_unknown_tool_is_called_what_the_trace_calls_it() -> None:
    trace = table([ev("X", 0, "$a.py:1 b", dur=1), ev("M", None, "thread_name", args={"name": "python"})])
    threads = part(trace, "overview").frames["busiest_threads"].data["thread"].to_pylist()
    assert threads == ["python"]
