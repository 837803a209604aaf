"""The text of a trace as Kineto lays it out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from events import Json, distributed_info, micros

from .config import BASE_NS, CELL_NS, NODE, us
from .dialects import device_properties
from .recorder import Recorder, Row


def _rows(recorder: Recorder) -> Iterator[Row]:
    """In the order of a real file: host events of one thread after another, Python, then the device."""
    memory = sorted(recorder.memory_rows, key=lambda row: row.start_ns)
    index = 0
    for group in (recorder.autograd.rows, recorder.main.rows, memory, recorder.main.frame_rows):
        for row in group:
            if row.flow == 0 and row.args is not None:
                row.args["Ev Idx"] = index
                index += 1
            yield row
    yield from recorder.runtime_rows
    device = recorder.device
    for activity in recorder.activities:
        start = recorder.ns(activity.start)
        category = {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(activity.kind, "kernel")
        args: Json = {"External id": activity.external_id} if activity.external_id is not None else {}
        args |= {"device": device, "stream": activity.stream, "correlation": activity.correlation, **activity.args}
        dur = activity.cells * CELL_NS
        yield Row("X", category, activity.name, device, activity.stream, start, dur, args)
        if activity.launched:
            yield Row("f", "ac2g", "ac2g", device, activity.stream, start, flow=activity.correlation)
    for (name, external_id), members in recorder.annotation_activities.items():
        for stream in sorted({a.stream for a in members}):
            on_stream = [a for a in members if a.stream == stream]
            start = recorder.ns(min(a.start for a in on_stream)) - 1
            dur = recorder.ns(max(a.end for a in on_stream)) + 1 - start
            yield Row("X", "gpu_user_annotation", name, device, stream, start, dur, {"External id": external_id})


def _named_tracks(recorder: Recorder) -> Iterator[tuple[str, int, int, Json]]:
    pid = recorder.pid
    yield "process_name", pid, 0, {"name": "python"}
    yield "process_labels", pid, 0, {"labels": "CPU"}
    yield "process_sort_index", pid, 0, {"sort_index": pid}
    for gpu in range(16):
        yield "process_name", gpu, 0, {"name": "python"}
        yield "process_labels", gpu, 0, {"labels": f"GPU {gpu}"}
        yield "process_sort_index", gpu, 0, {"sort_index": 5_000_000 + gpu}
    for stream in recorder.streams:
        yield "thread_name", recorder.device, stream, {"name": f"stream {stream} "}
        yield "thread_sort_index", recorder.device, stream, {"sort_index": stream}
    for tid, title in ((recorder.main.tid, "python"), (recorder.autograd.tid, f"pt_autograd_{recorder.rank}")):
        yield "thread_name", pid, tid, {"name": f"thread {tid} ({title})"}
        yield "thread_sort_index", pid, tid, {"sort_index": tid}


def _event_text(row: Row, shift_ns: int) -> str:
    def quoted(value: Any) -> str:
        return json.dumps(value)

    head = f'  {{\n    "ph": "{row.ph}"'
    where = f'"pid": {quoted(row.pid)},\n    "tid": {quoted(row.tid)},\n    "ts": {micros(row.start_ns + shift_ns)}'
    name = quoted(row.name)
    if row.ph in "sf":
        tail = '\n    , "bp": "e"' if row.ph == "f" else "\n    "
        labels = f'"cat": "{row.cat}",\n    "name": {name}'
        return f'{head},\n    "id": {row.flow},\n    {where},\n    {labels}{tail}\n  }}'
    args = "" if row.args is None else ", ".join(f"{quoted(key)}: {quoted(value)}" for key, value in row.args.items())
    body = f',\n    "args": {{\n      {args}\n    }}\n  }}' if row.args is not None else "\n  }"
    if row.ph == "M":
        return f'{head},\n    "name": {name},\n    {where}{body}'
    if row.ph == "i":
        category = f'\n    "cat": "{row.cat}",' if row.cat else "\n    "
        scope = "t" if row.cat else "g"
        return f'{head},{category}\n    "s": "{scope}",\n    "name": {name},\n    {where}{body}'
    dur = f',\n    "dur": {micros(row.dur_ns)}\n    '
    return f'{head},\n    "cat": "{row.cat}",\n    "name": {name},\n    {where}{dur}{body}'


def trace_text(recorder: Recorder, file_name: str) -> Iterator[str]:
    config = recorder.config
    shift_ns = BASE_NS if config.epoch_us else 0
    devices = [device_properties(config.arch, number) for number in range(min(config.ranks, NODE))]
    head: Json = {"schemaVersion": 1, "deviceProperties": devices, **recorder.dialect.versions}
    if config.ranks > 1:
        groups = [(group.name, group.description, group.ranks) for group in recorder.groups]
        head["distributedInfo"] = distributed_info(recorder.rank, config.ranks, groups)
    identity = f"{random.Random(config.seed * 31 + recorder.rank).getrandbits(128):032X}"
    head |= {"trace_id": identity, "with_stack": 1, "profile_memory": 1, "record_shapes": 1}
    head["host_name"] = "synthetic" if config.ranks <= NODE else f"synthetic-{recorder.rank // NODE}"
    head |= {"synthetic": "made by samples/synthetic.py, not recorded", "displayTimeUnit": "ms"}
    if not config.epoch_us:
        head["baseTimeNanoseconds"] = BASE_NS
    head = {key: value for key, value in (head | recorder.head).items() if value is not None}
    yield " {\n" + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    yield ',\n    "traceEvents": [\n    \n'
    begin = recorder.ns(recorder.began) - 1_000
    end = recorder.ns(max(recorder.main.now, *(a.end for a in recorder.activities), 0) + us(40))
    for name, pid, tid, args in _named_tracks(recorder):
        yield _event_text(Row("M", "", name, pid, tid, begin, args=args), shift_ns) + ",\n"
    for row in _rows(recorder):
        yield _event_text(row, shift_ns) + ",\n"
    tool = "PyTorch Profiler"
    span = Row("X", "Trace", f"{tool} (0)", "Spans", tool, begin, end - begin, {"Op count": 0})
    sort = Row("M", "", "process_sort_index", "Spans", 0, begin, args={"sort_index": 536_870_912})
    opening = Row("i", "", f"Iteration Start: {tool}", "Traces", f"Trace {tool}", begin)
    closing = Row("i", "", "Record Window End", "", "", end)
    yield ",\n".join(_event_text(row, shift_ns) for row in (span, sort, opening, closing))
    yield f'\n  ],"traceName": "/tmp/{file_name.removesuffix(".gz")}" }}'
