"""A window of a trace as Chrome JSON, for Perfetto: only the events of the window, with their tracks and arrows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable

_DEVICE_FIELDS = ("registers", "shared_memory", "blocks_per_sm", "occupancy", "bytes")
_DEVICE_TEXTS = ("stream", "grid", "block")
_OPERATOR_TEXTS = {"shapes": "Input Dims", "types": "Input type"}


def write_window(trace: TraceTable, start_ns: int | None, end_ns: int | None, target: str) -> None:
    """Writes the events that touch ``[start_ns, end_ns)`` to ``target``, gzipped, one event at a time."""
    low = trace.coverage.start_ns if start_ns is None else start_ns
    high = trace.coverage.end_ns if end_ns is None else end_ns
    touching = (trace.start_ns < high) & (trace.end_ns > low) | (trace.start_ns >= low) & (trace.start_ns < high)
    if end_ns is None:
        touching |= trace.start_ns >= high
    rows = np.flatnonzero(touching)
    with gzip.open(target, "wb", compresslevel=3) as out:
        out.write(b'{"traceEvents":[\n')
        separator = b""
        for event in _events(trace, rows):
            out.write(separator + msgspec.json.encode(event))
            separator = b",\n"
        out.write(b'\n],"displayTimeUnit":"ms"')
        if trace.base_time_ns is not None:
            out.write(b',"baseTimeNanoseconds":%d' % trace.base_time_ns)
        out.write(b"}\n")


def _events(trace: TraceTable, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[dict[str, Any]]:
    """Names of the tracks, then every event, then an arrow from each launch to what it launched."""
    for track_id in np.unique(trace.track[rows]).tolist():
        track = trace.tracks[track_id]
        base = {"ph": "M", "ts": 0, "pid": _identity(track.pid), "tid": _identity(track.tid)}
        yield base | {"name": "process_name", "args": {"name": track.process}}
        yield base | {"name": "thread_name", "args": {"name": track.thread}}
    extra = _arguments(trace, rows)
    for row in rows.tolist():
        yield _place(trace, row) | {
            "ph": "X",
            "cat": trace.strings[int(trace.category[row])],
            "name": trace.strings[int(trace.name[row])],
            "ts": _microseconds(trace.origin_ns + int(trace.start_ns[row])),
            "dur": _microseconds(int(trace.dur_ns[row])),
            "args": extra.get(row, {}),
        }
    inside = set(rows.tolist())
    for row in rows[trace.launch[rows] != MISSING].tolist():
        launch = int(trace.launch[row])
        if launch in inside:
            yield _arrow(trace, launch, row, "s")
            yield _arrow(trace, row, row, "f") | {"bp": "e"}


def _arrow(trace: TraceTable, row: int, arrow_id: int, phase: str) -> dict[str, Any]:
    time = _microseconds(trace.origin_ns + int(trace.start_ns[row]))
    return _place(trace, row) | {"ph": phase, "id": arrow_id, "cat": "ac2g", "name": "ac2g", "ts": time}


def _place(trace: TraceTable, row: int) -> dict[str, Any]:
    track = trace.tracks[int(trace.track[row])]
    return {"pid": _identity(track.pid), "tid": _identity(track.tid)}


def _arguments(trace: TraceTable, rows: np.ndarray[Any, np.dtype[np.int64]]) -> dict[int, dict[str, Any]]:
    """What is known about each row besides its time."""
    wanted = np.zeros(len(trace), np.bool_)
    wanted[rows] = True
    found: dict[int, dict[str, Any]] = {}
    for name, column in (("correlation", trace.correlation), ("External id", trace.external_id)):
        for row in rows[column[rows] != MISSING].tolist():
            found.setdefault(row, {})[name] = int(column[row])
    operators = trace.operators
    for at in np.flatnonzero(wanted[operators.row]).tolist():
        args = found.setdefault(int(operators.row[at]), {})
        for field, title in _OPERATOR_TEXTS.items():
            if (text := trace.strings[int(getattr(operators, field)[at])]) != "":
                args[title] = json.loads(text) if text.startswith("[") else text
    device = trace.device_args
    for at in np.flatnonzero(wanted[device.row]).tolist():
        args = found.setdefault(int(device.row[at]), {})
        args |= {f: v for f in _DEVICE_FIELDS if (v := getattr(device, f)[at].item()) == v and v != MISSING}
        args |= {f: t for f in _DEVICE_TEXTS if (t := trace.strings[int(getattr(device, f)[at])]) != ""}
    return found


def _identity(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _microseconds(time_ns: int) -> msgspec.Raw:
    """Chrome's unit, as digits: a float cannot hold nanoseconds since 1970."""
    whole, rest = divmod(abs(time_ns), 1000)
    sign = "-" if time_ns < 0 else ""
    return msgspec.Raw(f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode())
