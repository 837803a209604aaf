"""Export of traces as Chrome trace JSON, for Perfetto."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import IO, Any

import msgspec
import numpy as np

from tb_plugin.devices import kind_of, needs_name
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.extra_columns import NEVER_ENDED
from tb_plugin.model.trace.merged_processes import PROCESSES, RANK_METADATA
from tb_plugin.model.trace.recorder import UNKNOWN_RECORDER
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import CollectiveArgs, DeviceArgs, OperatorArgs, PythonArgs, TraceTable

# The names that Kineto writes, so that an exported window can be opened like a recording.
_DEVICE_NUMBERS = {
    "registers": "registers per thread",
    "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "bytes": "bytes",
}
_DEVICE_TEXTS = {"stream": "stream", "grid": "grid", "block": "block", "direction": "direction"}
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
Output = IO[bytes] | gzip.GzipFile

# Metadata keys that describe the worker.
_ABOUT = ("deviceProperties", "host_name", "distributedInfo")
_PYTHON_NUMBERS = {"python_id": "Python id", "parent_id": "Python parent id", "module_id": "Python module id"}


# Categories of Kineto for events of other tools, whose categories do not say the kind.
_CATEGORIES = {
    EventKind.OPERATOR: "cpu_op",
    EventKind.ANNOTATION: "user_annotation",
    EventKind.PYTHON: "python_function",
    EventKind.MODULE: "user_annotation",  # with the name of a module
    EventKind.RUNTIME: "cuda_runtime",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "gpu_memcpy",
    EventKind.MEMSET: "gpu_memset",
    EventKind.DEVICE_ANNOTATION: "gpu_user_annotation",
    EventKind.SYNC: "cuda_sync",
}
# Events that are written at once.
_CHUNK = 50_000
# In files of several ranks, rank n has process ids from n * _PROCESSES_PER_RANK on. Ids that are no number, or too
# large, become _OTHER_PROCESSES and more.
_PROCESSES_PER_RANK, _OTHER_PROCESSES = 10_000_000, 9_000_000


class InFile(msgspec.Struct, frozen=True):
    """Place of a trace in a file of several ranks. The default is a file of its own."""

    rank: str = ""
    """Text before the name of each process."""
    number: int = 0
    shift_ns: int = 0
    """Added to all times."""
    first_arrow: int = 0


class Origin(msgspec.Struct, frozen=True):
    """Values that a file has only once. ``ranks`` has ``rank_metadata`` by rank, for a file of several ranks."""

    metadata: Mapping[str, Any]
    base_time_ns: int | None
    is_generic: bool = False
    """Whether the file must not look like one of PyTorch."""
    ranks: Mapping[str, Mapping[str, Any]] | None = None


def write_window(trace: TraceTable, start_ns: int | None, end_ns: int | None, target: str) -> None:
    with gzip.open(target, "wb", compresslevel=3) as out:
        write_trace(out, trace, start_ns, end_ns)


def write_trace(out: Output, trace: TraceTable, start_ns: int | None = None, end_ns: int | None = None) -> None:
    origin = Origin(trace.metadata, trace.base_time_ns, is_generic(trace))
    write_file(out, [lines_of(trace, InFile(), start_ns, end_ns)], origin)


def is_generic(trace: TraceTable) -> bool:
    """Returns whether the trace is Chrome JSON of an unknown tool."""
    return trace.recorder == UNKNOWN_RECORDER


def write_file(out: Output, parts: Iterable[Iterable[bytes]], origin: Origin) -> None:
    """Writes the parts, which contain events separated by commas, as one file."""
    head, tail = (_generic if origin.is_generic else _of_pytorch)(origin)
    out.write(msgspec.json.encode(head)[:-1] + b',\n"traceEvents":[\n')
    separator = b""
    for part in parts:
        for lines in part:
            out.write(separator)
            out.write(lines)
            separator = b",\n"
    out.write(b"\n]")
    for key, value in tail.items():
        out.write(b"," + msgspec.json.encode(key) + b":" + msgspec.json.encode(value))
    out.write(b"}\n")


def _of_pytorch(origin: Origin) -> tuple[dict[str, Any], dict[str, Any]]:
    # The metadata of ranks come first, where discovery looks.
    head: dict[str, Any] = {} if origin.ranks is None else {RANK_METADATA: origin.ranks}
    head |= {"schemaVersion": 1, "displayTimeUnit": "ms", "deviceProperties": []}
    head |= {key: origin.metadata[key] for key in _ABOUT if key in origin.metadata}
    return head if origin.base_time_ns is None else head | {"baseTimeNanoseconds": origin.base_time_ns}, {}


def _generic(origin: Origin) -> tuple[dict[str, Any], dict[str, Any]]:
    # The metadata come last: the key of a base time, in the first bytes, would say that PyTorch wrote the file.
    return {"displayTimeUnit": "ms"}, {key: value for key, value in origin.metadata.items() if key != "displayTimeUnit"}


def rank_metadata(trace: TraceTable, place: InFile) -> dict[str, Any]:
    """Returns the metadata that differs between ranks, and the process ids of the trace by those in the file."""
    own = {key: trace.metadata[key] for key in _ABOUT if key in trace.metadata}
    return own | {PROCESSES: {str(number): text for text, number in _process_ids(trace, place).items()}}


def lines_of(
    trace: TraceTable, place: InFile, start_ns: int | None = None, end_ns: int | None = None
) -> Iterator[bytes]:
    """Yields the events in a window, in pieces, as JSON separated by commas."""
    low = trace.coverage.start_ns if start_ns is None else start_ns
    high = trace.coverage.end_ns if end_ns is None else end_ns
    touching = (trace.start_ns < high) & (trace.end_ns > low) | (trace.start_ns >= low) & (trace.start_ns < high)
    if end_ns is None:
        touching |= trace.start_ns >= high
    encode = msgspec.json.Encoder().encode
    events = _Events(trace, place, touching).every(low, end_ns)
    while lines := [encode(event) for event in islice(events, 1000)]:
        yield b",\n".join(lines)


class _Events:
    def __init__(self, trace: TraceTable, place: InFile, inside: Bool) -> None:
        self._trace = trace
        self._place = place
        self._inside = inside
        self._rows = np.flatnonzero(inside)
        self._zero_ns = trace.origin_ns + place.shift_ns
        self._pids = _process_ids(trace, place)
        self._tracks = [{"pid": self._pids[track.pid], "tid": _identity(track.tid)} for track in trace.tracks]
        pairs = np.unique(np.stack((trace.category, trace.kind)), axis=1).T.tolist()
        self._is_generic = is_generic(trace)
        rename = _recorded if self._is_generic else _category
        self._categories = {(text, kind): rename(trace.strings[text], kind) for text, kind in pairs}

    def every(self, start_ns: int, end_ns: int | None) -> Iterator[dict[str, Any]]:
        yield from self._names()
        for begin in range(0, len(self._rows), _CHUNK):
            yield from self._durations(self._rows[begin : begin + _CHUNK])
        yield from self._memory()
        yield from self._counters(start_ns, end_ns)
        yield from self._arrows(self._trace.forward, {"cat": "fwdbwd", "name": "fwdbwd"})
        yield from self._arrows(self._trace.launch, {"cat": "ac2g", "name": "ac2g"})

    def _names(self) -> Iterator[dict[str, Any]]:
        trace, rank = self._trace, self._place.rank
        used = np.unique(trace.track[self._rows]).tolist()
        processes = sorted({(trace.tracks[at].process_order, trace.tracks[at].pid) for at in used})
        order = {
            pid: _PROCESSES_PER_RANK * self._place.number + position for position, (_, pid) in enumerate(processes)
        }
        for at in used:
            track, base = trace.tracks[at], {"ph": "M", "ts": 0, **self._tracks[at]}
            name = f"{rank} {track.process}" if rank else track.process
            yield base | {"name": "process_name", "args": {"name": name}}
            yield base | {"name": "thread_name", "args": {"name": track.thread}}
            if rank:
                yield base | {"name": "process_sort_index", "args": {"sort_index": order[track.pid]}}

    def _durations(self, rows: Int64) -> Iterator[dict[str, Any]]:
        trace, extra = self._trace, _arguments(self._trace, rows)
        columns = (trace.track, trace.category, trace.kind, trace.start_ns, trace.dur_ns)
        names = trace.strings.take(trace.name[rows]).to_pylist()
        values = zip(rows.tolist(), names, *(column[rows].tolist() for column in columns), strict=True)
        for row, name, track, category, kind, start, dur in values:
            event = {
                **self._tracks[track],
                "ph": "X",
                "cat": self._categories[category, kind],
                "name": name or "",
                "ts": self._time(start),
                "dur": _microseconds(dur),
                "args": extra.get(row, {}),
            }
            if not event["cat"]:
                del event["cat"]
            if kind == EventKind.ASYNC:
                del event["dur"]
                yield event | {"ph": "b", "id": f"a{row}"}
                yield event | {"ph": "e", "id": f"a{row}", "ts": self._time(start + dur)}
            elif kind == EventKind.INSTANT and self._is_generic:
                del event["dur"]
                yield event | {"ph": "i", "s": "t"}
            else:
                yield event

    def _memory(self) -> Iterator[dict[str, Any]]:
        trace, rows = self._trace, self._rows
        if not len(rows):
            return
        memory = trace.memory
        low, high = int(trace.start_ns[rows].min()), int(trace.end_ns[rows].max())
        names = {
            "bytes": "Bytes",
            "address": "Addr",
            "total_allocated": "Total Allocated",
            "total_reserved": "Total Reserved",
            "device_type": "Device Type",
            "device_id": "Device Id",
        }
        inside = np.flatnonzero((memory.time_ns >= low) & (memory.time_ns <= high))
        columns = (memory.time_ns, memory.pid, memory.tid, *(getattr(memory, column) for column in names))
        texts = {text: trace.strings[text] for text in np.unique(np.concatenate((memory.pid, memory.tid))).tolist()}
        for time, pid, tid, *values in zip(*(column[inside].tolist() for column in columns), strict=True):
            yield {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": self._pids[texts[pid]],
                "tid": _identity(texts[tid]),
                "ts": self._time(time),
                "args": dict(zip(names.values(), values, strict=True)),
            }

    def _counters(self, start_ns: int, end_ns: int | None) -> Iterator[dict[str, Any]]:
        trace, counters = self._trace, self._trace.counters
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
                "pid": self._pids[trace.strings[int(counters.pid[first])]],
                "tid": _identity(trace.strings[int(counters.tid[first])]),
                "ts": self._time(int(counters.time_ns[first])),
                "args": {trace.strings[int(counters.series[at])]: float(counters.value[at]) for at in values.tolist()},
            }

    def _arrows(self, tails: Int32, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the arrows from ``tails`` to rows in the window."""
        rows = self._rows[tails[self._rows] != MISSING]
        rows = rows[self._inside[tails[rows]]]
        for row, tail in zip(rows.tolist(), tails[rows].tolist(), strict=True):
            # An operator or a kernel has one arrow to it, but a tail may have several.
            arrow = about | {"id": self._place.first_arrow + row}
            yield arrow | self._at(tail) | {"ph": "s"}
            yield arrow | self._at(row) | {"ph": "f", "bp": "e"}

    def _at(self, row: int) -> dict[str, Any]:
        trace = self._trace
        return {**self._tracks[int(trace.track[row])], "ts": self._time(int(trace.start_ns[row]))}

    def _time(self, time_ns: int) -> msgspec.Raw:
        return _microseconds(self._zero_ns + time_ns)


def _process_ids(trace: TraceTable, place: InFile) -> dict[str, Any]:
    """Returns the process ids in the file, by the text in the trace."""
    others = np.unique(np.concatenate((trace.memory.pid, trace.counters.pid))).tolist()
    texts = dict.fromkeys([*(track.pid for track in trace.tracks), *(trace.strings[text] for text in others)])
    if not place.rank:
        return {text: _identity(text) for text in texts}
    found: dict[str, Any] = {}
    for n, text in enumerate(texts):
        is_small = text.isascii() and text.isdecimal() and len(text) < 8 and int(text) < _OTHER_PROCESSES
        found[text] = place.number * _PROCESSES_PER_RANK + (int(text) if is_small else _OTHER_PROCESSES + n)
    return found


def _recorded(text: str, kind: int) -> str:
    return text


def _category(text: str, kind: int) -> str:
    says_kind = needs_name(text) or kind_of(text) != EventKind.UNKNOWN
    return text if says_kind else _CATEGORIES.get(EventKind(kind), text)


def _arguments(trace: TraceTable, rows: Int64) -> dict[int, dict[str, Any]]:
    wanted = np.zeros(len(trace), np.bool_)
    wanted[rows] = True
    found: dict[int, dict[str, Any]] = {}
    for name, column in (("correlation", trace.correlation), ("External id", trace.external_id)):
        known = rows[column[rows] != MISSING]
        for row, number in zip(known.tolist(), column[known].tolist(), strict=True):
            found.setdefault(row, {})[name] = number
    devices = [_identity(device.id) for device in trace.devices]
    known = rows[trace.device[rows] != MISSING]
    for row, device in zip(known.tolist(), trace.device[known].tolist(), strict=True):
        found.setdefault(row, {})["device"] = devices[device]
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
        found.setdefault(int(args.row[at]), {})["est. achieved occupancy %"] = round(float(args.occupancy[at]) * 100, 6)
    return found


def _add_section(
    found: dict[int, dict[str, Any]],
    wanted: Bool,
    section: OperatorArgs | PythonArgs | DeviceArgs | CollectiveArgs,
    trace: TraceTable,
    texts: dict[str, str],
    numbers: dict[str, str],
) -> None:
    chosen = np.flatnonzero(wanted[section.row])
    rows = section.row[chosen]
    for column, name in texts.items():
        ids = getattr(section, column)[chosen]
        # Each distinct text is decoded once.
        values = {text: _argument(trace.strings[text], column) for text in np.unique(ids).tolist()}
        for row, text in zip(rows.tolist(), ids.tolist(), strict=True):
            if (value := values[text]) != "":
                found.setdefault(row, {})[name] = value
    for column, name in numbers.items():
        numeric = getattr(section, column)[chosen]
        known = (numeric == numeric) & (numeric != MISSING)
        for row, number in zip(rows[known].tolist(), numeric[known].tolist(), strict=True):
            found.setdefault(row, {})[name] = number


def _argument(text: str, column: str) -> Any:
    is_json = text.startswith("[") and column not in ("stack", "group_ranks")
    return json.loads(text) if is_json else _identity(text)


def _identity(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _microseconds(time_ns: int) -> msgspec.Raw:
    """Converts nanoseconds to microseconds as decimal text, because a float would round the value."""
    whole, rest = divmod(abs(time_ns), 1000)
    sign = "-" if time_ns < 0 else ""
    return msgspec.Raw(f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode())
