"""Events without an object around them: any order of fields, any separator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_plugin.formats._chrome.sniffing import has_events
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.profilers import PYTORCH, PYTORCH_LEGACY
from tb_plugin.views.overview.data_quality import data_notices
from tests.builders import Bytes

from .sources import issues, names


def read(text: bytes, chunk_bytes: int = 512 * 1024) -> RawTrace:
    return ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(chunk_bytes=chunk_bytes), no_progress)


def event(name: str, ts: int, **more: Any) -> dict[str, Any]:
    args = {"file": "a].py", "stack": [{"line": 1}, {"line": 2}]}
    return {"args": args, "name": name, "ph": "X", "pid": 1, "tid": 139627874611776, "ts": ts, "dur": 2, **more}


EVENTS = [event(f"e{i}", 10 * i) for i in range(50)]
TEXTS = [json.dumps(each) for each in EVENTS]
FORMS = {
    "a list": json.dumps(EVENTS),
    "sorted and indented": json.dumps(EVENTS, sort_keys=True, indent=2),
    "a comma ahead": "[," + ",".join(TEXTS) + "]",
    "no bracket at the end": "[\n" + ",\n".join(TEXTS),
    "one a line": "\n".join(TEXTS),
    "one a line, all ended": "\n".join(TEXTS) + "\n",
    "one a line with commas": ",\n".join(TEXTS),
    "one a line with a comma at the end": ",\n".join(TEXTS) + ",\n",
    "one a line behind a byte order mark": "\ufeff" + "\r\n".join(TEXTS),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("chunk_bytes", [64, 1000, 512 * 1024])
def test_every_form_gives_all_events(text: str, chunk_bytes: int) -> None:
    assert has_events(text.encode())
    trace = read(text.encode(), chunk_bytes)
    assert sorted(names(trace)) == sorted(each["name"] for each in EVENTS)
    assert sorted(trace.start_ns.tolist()) == [10_000 * i for i in range(50)]
    assert [track.tid for track in assemble(trace).tracks] == ["139627874611776"]
    assert trace.report.complete == (text[-1] == "]" or text[0] != "[")
    assert set(issues(trace)) <= {"unclosed_list"}


def test_one_event_a_line_that_is_cut() -> None:
    text = "\n".join(TEXTS).encode()[:-100]
    trace = read(text)
    assert len(names(trace)) == 49 and issues(trace)["truncated_tail"] == 1 and not trace.report.complete


def test_a_first_event_that_is_larger_than_what_is_looked_at() -> None:
    large = json.dumps([{"ph": "X", "ts": 1, "args": {"text": ["x"] * 100_000}}]).encode()
    assert has_events(large[: 64 * 1024]) and has_events(large[1 : 64 * 1024])


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": {"ph": "X"}}]',
        '{"a": {"ph": "X"}}',
        "[]",
        "[,]",
        '[["ph", "X"]]',
        '{"ph": 7}',
        '[{"ph": null}]',
        "{",
        "[",
    ],
)
def test_other_json_is_no_list_of_events(text: str) -> None:
    assert not has_events(text.encode())


def test_pytorch_events_are_pytorchs() -> None:
    text = json.dumps([{"args": {"External id": 1}, "cat": "cpu_op", "name": "aten::mm", "ph": "X", "ts": 1, "dur": 2}])
    assert KinetoReader().sniff(text.encode()) and KinetoReader().sniff(text[1:-1].encode())
    trace = KinetoReader().read(Bytes(text[1:-1].encode() + b"\n", "x.json"), ReadOptions(), no_progress)
    assert names(trace) == ["aten::mm"] and trace.report.complete


def test_the_device_rows_of_the_legacy_profiler_are_named_and_nothing_advises_to_record_them() -> None:
    rows = [
        {"name": "conv2d", "ph": "X", "ts": at, "dur": 40, "tid": 0, "pid": pid, "args": {}}
        for pid, at in (("CPU functions", 0), ("CUDA functions", 60), ("CPU functions", 50), ("CUDA functions", 110))
    ]
    raw = KinetoReader().read(Bytes(json.dumps(rows).encode(), "x.json"), ReadOptions(), no_progress)
    assert issues(raw) == {"legacy_device_rows": 2} and raw.report.events_unknown == 2
    assert raw.recorder is PYTORCH_LEGACY and not raw.devices
    (notice,) = [each for each in data_notices(assemble(raw)) if "legacy" in each.text]
    assert (notice.severity, notice.figures[0].value) == ("medium", 2)
    assert not any(
        "ProfilerActivity.CUDA" in raw.recorder.todo(f"view.{view}") for view in ("kernels", "launches", "idle")
    )
    no_device = KinetoReader().read(Bytes(json.dumps(rows[::2]).encode(), "x.json"), ReadOptions(), no_progress)
    assert no_device.recorder is PYTORCH and issues(no_device) == {}
