"""Chrome's trace JSON of any tool: ranges become rows, the rest is counted, totals are no work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_plugin import registry
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import RawTrace
from tests.builders import Bytes, part
from tests.conftest import SAMPLES, sample
from tests.formats.test_chrome_rules import ev, rows, table
from tests.views.test_diff_ranges import page

from .sources import issues, names

VIZTRACER = SAMPLES / "viztracer_cpu" / "result.json.gz"


def read(*events: dict[str, Any], **root: Any) -> RawTrace:
    text = json.dumps({**root, "traceEvents": events}).encode()
    return ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(), no_progress)


def event(ph: str, ts: float, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"ph": ph, "name": name, "pid": 1, "tid": 2, "ts": ts, **more}


def test_epoch_times_keep_their_nanoseconds() -> None:
    assert read(event("X", 1_704_161_511_420_306.491, dur=0)).start_ns.tolist() != []
    text = b'[{"ph": "X", "name": "a", "ts": 1704161511420306.491, "dur": 0.001}]'
    trace = ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(), no_progress)
    assert (trace.start_ns.tolist(), trace.dur_ns.tolist()) == ([1704161511420306491], [1])


def test_damage_is_mended_as_in_any_json_trace() -> None:
    text = b'{"traceEvents": [{"ph": "X", "name": "C:\\dir", "ts": 1, "dur": 1},\n{"ph": "X", "name": "b", "ts": 2, "du'
    trace = ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(), no_progress)
    assert names(trace) == ["C:\\dir"]
    assert issues(trace) == {"bad_escape": 1, "truncated_tail": 1, "unclosed_list": 1}
    assert not trace.report.complete


def test_a_recording_of_viztracer() -> None:
    trace = sample("viztracer_cpu/result.json.gz")
    assert (trace.report.format, trace.report.events_in_file, trace.report.events_loaded) == ("chrome", 605, 602)
    assert [track.thread for track in trace.tracks] == ["MainThread", "background"]
    assert not trace.devices and not any(track.is_device for track in trace.tracks)
    assert len(trace) == 599 and not trace.steps.recorded
    # quicksort calls itself: the innermost call around the deepest one is again quicksort.
    deepest = int(trace.depth.argmax())
    assert trace.strings[int(trace.name[trace.python_parent[deepest]])].startswith("quicksort")


@pytest.mark.parametrize("content", [VIZTRACER.read_bytes()], ids=["viztracer"])
def test_who_knows_it(content: bytes) -> None:
    raw = assemble(ChromeJsonReader().read(Bytes(content, "result.json.gz"), ReadOptions(), no_progress))
    assert raw.base_time_ns is not None
    # Wall time of the first call: 22 November 2026, in ns.
    assert (raw.base_time_ns + raw.origin_ns) // 10**9 // 86_400 == 20_779
    order = [reader.id for reader in registry.readers()]
    assert order.index("kineto") < order.index("megengine") < order.index("chrome")
    assert as_windowed_reader(ChromeJsonReader()) is None


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
