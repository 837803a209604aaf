"""Export of a time window as Chrome trace JSON, for Perfetto."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from tb_plugin.model.trace.extra_columns import NEVER_ENDED
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CollectiveArgs, DeviceArgs, OperatorArgs, PythonArgs, TraceTable

# The names that Kineto writes, so that an exported window can be opened like a recording.
_DEVICE_NUMBERS = {
    "registers": "registers per thread",
    "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "bytes": "bytes",
}
_DEVICE_TEXTS = {"stream": "stream", "grid": "grid", "block": "block"}
_OPERATOR_TEXTS = {
    "shapes": "Input Dims",
    "types": "Input type",
    "strides": "Input Strides",
    "concrete": "Concrete Inputs",
    "stack": "Call stack",
}
_OPERATOR_NUMBERS = {"sequence": "Sequence number", "forward_thread": "Fwd thread id"}
_COLLECTIVE_TEXTS = {
    "name": "Collective name",
    "dtype": "dtype",
    "group_name": "Process Group Name",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
}
_COLLECTIVE_NUMBERS = {
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
    "sequence": "Seq",
    "source_rank": "Src Rank",
    "destination_rank": "Dst Rank",
}
# Metadata keys that identify the worker.
_ABOUT = ("host_name", "distributedInfo")
_PYTHON_NUMBERS = {"python_id": "Python id", "parent_id": "Python parent id", "module_id": "Python module id"}


def write_window(trace: TraceTable, start_ns: int | None, end_ns: int | None, target: str) -> None:
    low = trace.coverage.start_ns if start_ns is None else start_ns
    high = trace.coverage.end_ns if end_ns is None else end_ns
    touching = (trace.start_ns < high) & (trace.end_ns > low) | (trace.start_ns >= low) & (trace.start_ns < high)
    if end_ns is None:
        touching |= trace.start_ns >= high
    rows = np.flatnonzero(touching)
    with gzip.open(target, "wb", compresslevel=3) as out:
        out.write(b'{"traceEvents":[\n')
        separator = b""
        for event in _events(trace, rows, low, end_ns):
            out.write(separator + msgspec.json.encode(event))
            separator = b",\n"
        properties = trace.metadata.get("deviceProperties", [])
        out.write(b'\n],"schemaVersion":1,"displayTimeUnit":"ms","deviceProperties":' + msgspec.json.encode(properties))
        for key in _ABOUT:
            if key in trace.metadata:
                out.write(f',"{key}":'.encode() + msgspec.json.encode(trace.metadata[key]))
        if trace.base_time_ns is not None:
            out.write(b',"baseTimeNanoseconds":%d' % trace.base_time_ns)
        out.write(b"}\n")


def _events(
    trace: TraceTable, rows: np.ndarray[Any, np.dtype[np.int64]], start_ns: int, end_ns: int | None
) -> Iterator[dict[str, Any]]:
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
    yield from _memory(trace, rows)
    yield from _counters(trace, start_ns, end_ns)
    inside = set(rows.tolist())
    for row in rows[trace.forward[rows] != MISSING].tolist():
        forward = int(trace.forward[row])
        if forward in inside:
            yield _arrow(trace, forward, row, "s") | {"cat": "fwdbwd", "name": "fwdbwd"}
            yield _arrow(trace, row, row, "f") | {"cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
    for row in rows[trace.launch[rows] != MISSING].tolist():
        launch = int(trace.launch[row])
        if launch in inside:
            yield _arrow(trace, launch, row, "s")
            yield _arrow(trace, row, row, "f") | {"bp": "e"}


def _memory(trace: TraceTable, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[dict[str, Any]]:
    if not len(rows):
        return
    memory = trace.memory
    low, high = int(trace.start_ns[rows].min()), int(trace.end_ns[rows].max())
    names = {
        "bytes": "Bytes",
        "address": "Addr",
        "total_allocated": "Total Allocated",
        "total_reserved": "Total Reserved",
    }
    names |= {"device_type": "Device Type", "device_id": "Device Id"}
    for at in np.flatnonzero((memory.time_ns >= low) & (memory.time_ns <= high)).tolist():
        yield {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": _identity(trace.strings[int(memory.pid[at])]),
            "tid": _identity(trace.strings[int(memory.tid[at])]),
            "ts": _microseconds(trace.origin_ns + int(memory.time_ns[at])),
            "args": {name: int(getattr(memory, column)[at]) for column, name in names.items()},
        }


def _counters(trace: TraceTable, start_ns: int, end_ns: int | None) -> Iterator[dict[str, Any]]:
    counters = trace.counters
    inside = counters.time_ns >= start_ns
    if end_ns is not None:
        inside &= counters.time_ns < end_ns
    chosen = np.flatnonzero(inside)
    chosen = chosen[np.argsort(counters.event[chosen], kind="stable")]
    for values in np.split(chosen, np.flatnonzero(np.diff(counters.event[chosen])) + 1) if len(chosen) else ():
        first = int(values[0])
        yield {
            "ph": "C",
            "name": trace.strings[int(counters.name[first])],
            "pid": _identity(trace.strings[int(counters.pid[first])]),
            "tid": _identity(trace.strings[int(counters.tid[first])]),
            "ts": _microseconds(trace.origin_ns + int(counters.time_ns[first])),
            "args": {trace.strings[int(counters.series[at])]: float(counters.value[at]) for at in values.tolist()},
        }


def _arrow(trace: TraceTable, row: int, arrow_id: int, phase: str) -> dict[str, Any]:
    time = _microseconds(trace.origin_ns + int(trace.start_ns[row]))
    return _place(trace, row) | {"ph": phase, "id": arrow_id, "cat": "ac2g", "name": "ac2g", "ts": time}


def _place(trace: TraceTable, row: int) -> dict[str, Any]:
    track = trace.tracks[int(trace.track[row])]
    return {"pid": _identity(track.pid), "tid": _identity(track.tid)}


def _arguments(trace: TraceTable, rows: np.ndarray[Any, np.dtype[np.int64]]) -> dict[int, dict[str, Any]]:
    wanted = np.zeros(len(trace), np.bool_)
    wanted[rows] = True
    found: dict[int, dict[str, Any]] = {}
    for name, column in (("correlation", trace.correlation), ("External id", trace.external_id)):
        for row in rows[column[rows] != MISSING].tolist():
            found.setdefault(row, {})[name] = int(column[row])
    for row in rows[trace.device[rows] != MISSING].tolist():
        found.setdefault(row, {})["device"] = _identity(trace.devices[int(trace.device[row])].id)
    _add_section(found, wanted, trace.operators, trace, _OPERATOR_TEXTS, _OPERATOR_NUMBERS)
    _add_section(found, wanted, trace.python, trace, {}, _PYTHON_NUMBERS)
    _add_section(found, wanted, trace.device_args, trace, _DEVICE_TEXTS, _DEVICE_NUMBERS)
    _add_section(found, wanted, trace.collectives, trace, _COLLECTIVE_TEXTS, _COLLECTIVE_NUMBERS)
    for fact in trace.others:
        if fact.key == NEVER_ENDED:  # argument added by this tool, not recorded by a profiler
            continue
        for at in np.flatnonzero(wanted[fact.row]).tolist():
            value = fact.value[at].item()
            found.setdefault(int(fact.row[at]), {})[fact.key] = trace.strings[value] if fact.is_text else value
    args = trace.device_args
    for at in np.flatnonzero(wanted[args.row] & ~np.isnan(args.occupancy)).tolist():
        found[int(args.row[at])]["est. achieved occupancy %"] = round(float(args.occupancy[at]) * 100, 6)
    return found


def _add_section(
    found: dict[int, dict[str, Any]],
    wanted: np.ndarray[Any, np.dtype[np.bool_]],
    section: OperatorArgs | PythonArgs | DeviceArgs | CollectiveArgs,
    trace: TraceTable,
    texts: dict[str, str],
    numbers: dict[str, str],
) -> None:
    chosen = np.flatnonzero(wanted[section.row])
    for at, row in zip(chosen.tolist(), section.row[chosen].tolist(), strict=True):
        args = found.setdefault(row, {})
        for column, name in texts.items():
            if (text := trace.strings[int(getattr(section, column)[at])]) != "":
                args[name] = (
                    json.loads(text)
                    if text.startswith("[") and column not in ("stack", "group_ranks")
                    else _identity(text)
                )
        for column, name in numbers.items():
            value = getattr(section, column)[at].item()
            if value == value and value != MISSING:
                args[name] = value


def _identity(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _microseconds(time_ns: int) -> msgspec.Raw:
    """Converts nanoseconds to microseconds as decimal text, because a float would round the value."""
    whole, rest = divmod(abs(time_ns), 1000)
    sign = "-" if time_ns < 0 else ""
    return msgspec.Raw(f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode())
