"""Chrome's trace JSON of any tool: ranges become rows, the rest is counted, nothing is taken for PyTorch's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_plugin import registry
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace
from tests.builders import Bytes
from tests.conftest import SAMPLES, sample

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
