"""Tables for SQL, with unit and meaning of each column.

A table has one row per event, so that a query can group and filter. Sums over a table equal the numbers of the view
that shows the same events (tests/sql/test_tables.py). Missing values are null.

In one file: the columns of all tables share their names and meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.analysis.forest import outermost_of
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_classes import classify_kernels, word_of
from tb_plugin.analysis.kernel_labels import kernel_label
from tb_plugin.analysis.launches.phases import launch_phases
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.analysis.operator_calls import operator_calls
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.runtime_calls import callers, runtime_calls
from tb_plugin.analysis.selection import select_rows, steps_of_rows
from tb_plugin.analysis.snapshot.block_tables import block_table, events_of
from tb_plugin.analysis.snapshot.device_levels import devices_of
from tb_plugin.analysis.step_shares import CATEGORIES, break_down
from tb_plugin.lib.arrays import Int16, Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass, MatrixUse
from tb_plugin.model.trace.table import TraceTable

# Name of the table that describes all tables.
COLUMNS = "columns"
Columns = Mapping[str, pa.Array]
Rows = Int32 | Int64 | Int16


class SqlTable(Struct, frozen=True):
    """A table: what one row is, and (unit, meaning) by column.

    ``of`` returns the columns, or None if profiles of this kind have no such table.
    """

    name: str
    row: str
    columns: Mapping[str, tuple[str, str]]
    of: Callable[[object], Columns | None]


def _trace(columns_of: Callable[[TraceTable], Columns]) -> Callable[[object], Columns | None]:
    return lambda model: columns_of(model) if isinstance(model, TraceTable) else None


def _known(values: npt.NDArray[Any], missing: int = MISSING) -> pa.Array:
    return pa.array(values, mask=values == missing)


def _real(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values) | (values < 0))


def _text(trace: TraceTable, ids: Rows) -> pa.Array:
    return _coded(ids, trace.strings.array)


def _coded(ids: Rows, texts: pa.Array | Sequence[str]) -> pa.Array:
    """Returns a column of texts by id (-1 = null), which are stored once."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    return pa.DictionaryArray.from_arrays(pa.array(ids.astype(np.int32), mask=ids == MISSING), array)


def _of_names(trace: TraceTable, ids: Rows, rename: Callable[[str], str]) -> pa.Array:
    """Returns a column of renamed texts. Each distinct text is renamed once."""
    groups = group(ids)
    return _coded(groups.of, [rename(trace.strings[name]) for name in ids[groups.first].tolist()])


def _addresses(values: Int64) -> pa.Array:
    """Returns addresses as the tables of snapshots do. 0 = unknown."""
    groups = group(values)
    texts = [f"{value & 0xFFFF_FFFF_FFFF_FFFF:#x}" for value in values[groups.first].tolist()]
    return _coded(np.where(values == 0, MISSING, groups.of), texts)


def _step(trace: TraceTable, rows: Rows) -> pa.Array:
    return _coded(steps_of_rows(trace)[rows], trace.steps.label)


def _device(trace: TraceTable, rows: Rows) -> pa.Array:
    return _coded(trace.device[rows], [device.id for device in trace.devices])


def _thread(trace: TraceTable, rows: Rows) -> pa.Array:
    return _coded(trace.track[rows], [track.thread for track in trace.tracks])


def _section(trace: TraceTable, rows: Rows, column: str, missing: float = MISSING) -> npt.NDArray[Any]:
    values = getattr(trace.device_args, column)
    spread = np.full(len(trace), missing, values.dtype)
    spread[trace.device_args.row] = values
    found: npt.NDArray[Any] = spread[rows]
    return found


def _of_kind(trace: TraceTable, *kinds: EventKind) -> Int64:
    return select_rows(trace, None).of(trace, *kinds)


def _when(trace: TraceTable, rows: Rows) -> dict[str, pa.Array]:
    return {"start_ns": pa.array(trace.start_ns[rows]), "dur_ns": pa.array(trace.dur_ns[rows])}


def _events(trace: TraceTable) -> Columns:
    rows = np.arange(len(trace))
    return {
        "event": pa.array(rows),
        "name": _text(trace, trace.name),
        "kind": _coded(trace.kind.astype(np.int32), [kind.name.lower() for kind in EventKind]),
        "category": _text(trace, trace.category),
        **_when(trace, rows),
        "self_ns": pa.array(trace.self_ns),
        "step": _step(trace, rows),
        "process": _coded(trace.track, [track.process for track in trace.tracks]),
        "thread": _thread(trace, rows),
        "device": _device(trace, rows),
        "parent": _known(trace.parent),
        "operator_event": _known(trace.operator),
        "launch_event": _known(trace.launch),
        "correlation": _known(trace.correlation),
    }


def _operators(trace: TraceTable) -> Columns:
    calls = operator_calls(trace, select_rows(trace, None))
    recorded = np.flatnonzero(calls.row != MISSING)
    rows, paths, lines = calls.row[recorded], module_paths(trace), code_lines(trace)
    outermost = outermost_of(calls.name, calls.spans, calls.parent)[recorded]
    parent = np.append(calls.row, MISSING)[calls.parent[recorded]]
    return {
        "event": pa.array(rows),
        "name": _text(trace, calls.name[recorded]),
        "input_shapes": _text(trace, calls.shape[recorded]),
        "start_ns": pa.array(trace.start_ns[rows]),
        "host_total_ns": pa.array(calls.host_total_ns[recorded]),
        "host_self_ns": pa.array(calls.host_self_ns[recorded]),
        "device_total_ns": pa.array(calls.device_total_ns[recorded]),
        "device_self_ns": pa.array(calls.device_self_ns[recorded]),
        "runtime_ns": pa.array(calls.runtime_self_ns[recorded]),
        "is_outermost": pa.array(outermost),
        "parent": _known(parent),
        "module": _coded(paths.of[rows], paths.texts),
        "code_line": _coded(lines.of[rows], lines.texts),
        "thread": _thread(trace, rows),
        "step": _step(trace, rows),
    }


def _on_device(trace: TraceTable, rows: Rows) -> dict[str, pa.Array]:
    return {
        "device": _device(trace, rows),
        "stream": _text(trace, _section(trace, rows, "stream")),
        "operator": _text(trace, operator_names(trace, rows)),
        "operator_event": _known(trace.operator[rows]),
        "launch_event": _known(trace.launch[rows]),
        "step": _step(trace, rows),
    }


def _kernels(trace: TraceTable) -> Columns:
    rows = _of_kind(trace, EventKind.KERNEL)
    names = trace.name[rows]
    use = trace.uses_matrix_unit[rows]
    return {
        "event": pa.array(rows),
        "name": _text(trace, names),
        "label": _of_names(trace, names, kernel_label),
        "class": _coded(classify_kernels(trace).of(names).astype(np.int32), [word_of(each) for each in KernelClass]),
        **_when(trace, rows),
        **_on_device(trace, rows),
        "is_collective": pa.array(trace.is_collective[rows]),
        "uses_matrix_unit": pa.array(use == MatrixUse.YES, mask=use == MatrixUse.UNKNOWN),
        "grid": _text(trace, _section(trace, rows, "grid")),
        "block": _text(trace, _section(trace, rows, "block")),
        "registers": _known(_section(trace, rows, "registers")),
        "shared_memory_bytes": _known(_section(trace, rows, "shared_memory")),
        "blocks_per_sm": _real(_section(trace, rows, "blocks_per_sm", np.nan)),
        "occupancy": _real(_section(trace, rows, "occupancy", np.nan)),
    }


def _copies(trace: TraceTable) -> Columns:
    rows = _of_kind(trace, EventKind.MEMCPY, EventKind.MEMSET)
    return {
        "event": pa.array(rows),
        "name": _text(trace, trace.name[rows]),
        "kind": _coded((trace.kind[rows] == EventKind.MEMSET).astype(np.int32), ["memcpy", "memset"]),
        "direction": _coded(directions_of(trace, rows), [direction.words for direction in DIRECTIONS]),
        "bytes": _known(_section(trace, rows, "bytes")),
        **_when(trace, rows),
        **_on_device(trace, rows),
    }


def _launches(trace: TraceTable) -> Columns:
    every = launch_phases(trace)
    known = np.flatnonzero(every.call != MISSING)
    work, call = every.row[known], every.call[known]
    return {
        "event": pa.array(work),
        "name": _text(trace, trace.name[work]),
        "launch_event": pa.array(call),
        "call": _text(trace, trace.name[call]),
        "call_start_ns": pa.array(trace.start_ns[call]),
        "call_ns": pa.array(trace.dur_ns[call]),
        "queue_ns": pa.array(every.queue_ns[known]),
        "latency_ns": pa.array(every.latency_ns[known]),
        "is_queued": pa.array(every.is_queued[known]),
        "is_graph": pa.array(every.is_graph[known]),
        "operator": _text(trace, operator_names(trace, work)),
        "device": _device(trace, work),
        "thread": _thread(trace, call),
        "step": _step(trace, work),
    }


def _runtime_calls(trace: TraceTable) -> Columns:
    calls, made_by = runtime_calls(trace), callers(trace)
    rows = calls.row
    idle = calls.device_idle_ns
    return {
        "event": pa.array(rows),
        "name": _text(trace, trace.name[rows]),
        **_when(trace, rows),
        "self_ns": pa.array(trace.self_ns[rows]),
        "device_idle_ns": pa.nulls(len(rows), pa.int64()) if idle is None else pa.array(idle),
        "launched": pa.array(calls.launched),
        "bytes": _known(calls.bytes),
        "operator": _text(trace, np.append(trace.name, np.int32(MISSING))[trace.operator[rows]]),
        "operator_event": _known(trace.operator[rows]),
        "phase": _text(trace, made_by.phase),
        "code_line": _coded(made_by.frame, made_by.frames),
        "thread": _thread(trace, rows),
        "step": _step(trace, rows),
    }


def _modules(trace: TraceTable) -> Columns:
    rows, paths = _of_kind(trace, EventKind.MODULE), module_paths(trace)
    return {
        "event": pa.array(rows),
        "name": _of_names(trace, trace.name[rows], module_label),
        "path": _coded(paths.of[rows], paths.texts),
        **_when(trace, rows),
        "parent": _known(trace.python_parent[rows]),
        "thread": _thread(trace, rows),
        "step": _step(trace, rows),
    }


def _phases(trace: TraceTable) -> Columns:
    rows = _of_kind(trace, EventKind.ANNOTATION)
    return {
        "event": pa.array(rows),
        "name": _text(trace, trace.name[rows]),
        **_when(trace, rows),
        "thread": _thread(trace, rows),
        "step": _step(trace, rows),
    }


def _steps(trace: TraceTable) -> Columns:
    steps, shares = trace.steps, break_down(trace, None)
    return {
        "step": pa.array(steps.label, pa.large_string()),
        "start_ns": pa.array(steps.start_ns),
        "dur_ns": pa.array(shares.total),
        "host_start_ns": pa.array(steps.host_start_ns),
        "host_dur_ns": pa.array(steps.host_end_ns - steps.host_start_ns),
        **{f"{part}_ns": pa.array(shares.parts[part]) for part in CATEGORIES},
    }


def _collectives(trace: TraceTable) -> Columns:
    found = trace.collectives
    rows = found.row
    return {
        "event": pa.array(rows),
        "collective": _text(trace, found.name),
        "name": _text(trace, trace.name[rows]),
        "kind": _coded(trace.kind[rows].astype(np.int32), [kind.name.lower() for kind in EventKind]),
        **_when(trace, rows),
        "dtype": _text(trace, found.dtype),
        "in_elements": _known(found.in_elements),
        "out_elements": _known(found.out_elements),
        "process_group": _text(trace, found.group_name),
        "group_size": _known(found.group_size),
        "sequence": _known(found.sequence),
        "source_rank": _known(found.source_rank),
        "destination_rank": _known(found.destination_rank),
        "device": _device(trace, rows),
        "step": _step(trace, rows),
    }


def _counters(trace: TraceTable) -> Columns:
    counters = trace.counters
    return {
        "time_ns": pa.array(counters.time_ns),
        "name": _text(trace, counters.name),
        "series": _text(trace, counters.series),
        "value": pa.array(counters.value),
        "process": _text(trace, counters.pid),
    }


def _findings(trace: TraceTable) -> Columns:
    from tb_plugin.rules._ordered_findings import findings_of

    found = findings_of(trace, None).all
    savings = [each.notice.saving for each in found]
    return {
        "rule": pa.array([each.rule.id for each in found], pa.string()),
        "title": pa.array([each.rule.title for each in found], pa.string()),
        "severity": pa.array([each.notice.severity for each in found], pa.string()),
        "confidence": pa.array([each.notice.confidence for each in found], pa.string()),
        "saving_low_ns": pa.array([None if each is None else each.low_ns for each in savings], pa.float64()),
        "saving_high_ns": pa.array([None if each is None else each.high_ns for each in savings], pa.float64()),
        "event": pa.array([each.events[0] if len(each.events) else None for each in found], pa.int64()),
        "events": pa.array([each.event_count for each in found], pa.int64()),
    }


def _memory_events(model: object) -> Columns | None:
    if isinstance(model, TraceTable):
        table, memory = events_of(model, ""), model.memory
        return {
            "device": table["device"].combine_chunks(),
            "time_ns": pa.array(memory.time_ns),
            "bytes": pa.array(memory.bytes),
            "address": _addresses(memory.address),
            "allocated_bytes": _known(memory.total_allocated),
            "reserved_bytes": _known(memory.total_reserved),
        }
    if not isinstance(model, Snapshot):
        return None
    table = events_of(model, "").combine_chunks()
    keys = {"event": "event_number", "action": "memory_action", "time_ns": "event_ns", "bytes": "block_size_bytes"}
    keys |= {"address": "address", "stream": "stream_name", "code_line": "allocation_line", "stack": "allocation_stack"}
    return {"device": _column(table, "device"), **{new: _column(table, old) for new, old in keys.items()}}


def _blocks(model: object) -> Columns | None:
    if not isinstance(model, Snapshot):
        return None
    parts = []
    for device in devices_of(model):
        table = block_table(device, np.arange(len(device.block("begin"))))
        parts.append(table.append_column("device", pa.repeat(device.name, len(table))))
    if not parts:
        return None
    table = pa.concat_tables(parts).combine_chunks()
    keys = {
        "bytes": "block_size_bytes",
        "requested_bytes": "requested_bytes",
        "address": "address",
        "category": "memory_category",
        "module": "block_module",
        "first_event": "begin_event",
        "last_event": "end_event",
        "start_ns": "begin_ns",
        "end_ns": "end_ns",
        "stream": "stream_name",
        "code_line": "allocation_line",
        "stack": "allocation_stack",
    }
    return {"device": _column(table, "device"), **{new: _column(table, old) for new, old in keys.items()}}


def _column(table: pa.Table, key: str) -> pa.Array:
    column = table[key].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


_EVENT = ("", "number of the event; the timeline opens it")
_START = ("ns", "start, since the start of the trace")
_DUR = ("ns", "duration")
_STEP = ("", "step to which views attribute the event")
_THREAD = ("", "thread")
_DEVICE = ("", "device")
_CODE = ("", "innermost line of your code")
_ON_DEVICE = {
    "device": _DEVICE,
    "stream": ("", "stream"),
    "operator": ("", "operator that launched the work"),
    "operator_event": ("", "event of that operator"),
    "launch_event": ("", "event of the runtime call that launched the work"),
    "step": _STEP,
}

TABLES: Mapping[str, SqlTable] = {
    table.name: table
    for table in (
        SqlTable(
            "events",
            "event with a duration",
            {
                "event": _EVENT,
                "name": ("", "name"),
                "kind": ("", "operator, annotation, python, module, runtime, kernel, memcpy, memset, ..."),
                "category": ("", "category in the file"),
                "start_ns": _START,
                "dur_ns": _DUR,
                "self_ns": ("ns", "duration without nested operators, modules and runtime calls"),
                "step": _STEP,
                "process": ("", "process"),
                "thread": ("", "thread or stream"),
                "device": _DEVICE,
                "parent": ("", "event of the enclosing operator, module or runtime call"),
                "operator_event": (
                    "",
                    "event of the enclosing operator; for device work, of the operator that launched it",
                ),
                "launch_event": ("", "event of the runtime call that launched the work"),
                "correlation": ("", "correlation id in the file"),
            },
            _trace(_events),
        ),
        SqlTable(
            "operators",
            "call of an operator",
            {
                "event": _EVENT,
                "name": ("", "operator"),
                "input_shapes": ("", "shapes of the inputs"),
                "start_ns": _START,
                "host_total_ns": ("ns", "CPU time with nested calls"),
                "host_self_ns": ("ns", "CPU time without nested operators and runtime calls"),
                "device_total_ns": ("ns", "device time of the work launched by the call and its nested calls"),
                "device_self_ns": ("ns", "device time of the work that the call itself launched"),
                "runtime_ns": ("ns", "CPU time of runtime calls made by the call itself"),
                "is_outermost": ("", "whether no call of the same operator encloses the call"),
                "parent": ("", "event of the enclosing operator"),
                "module": ("", "path of the enclosing modules"),
                "code_line": _CODE,
                "thread": _THREAD,
                "step": _STEP,
            },
            _trace(_operators),
        ),
        SqlTable(
            "kernels",
            "kernel",
            {
                "event": _EVENT,
                "name": ("", "full name"),
                "label": ("", "readable name"),
                "class": ("", "gemm, attention, elementwise, communication, ..."),
                "start_ns": _START,
                "dur_ns": _DUR,
                **_ON_DEVICE,
                "is_collective": ("", "whether the kernel communicates"),
                "uses_matrix_unit": ("", "whether the kernel uses Tensor Cores or other matrix units"),
                "grid": ("", "grid size"),
                "block": ("", "block size"),
                "registers": ("", "registers per thread"),
                "shared_memory_bytes": ("bytes", "shared memory per block"),
                "blocks_per_sm": ("", "blocks per multiprocessor"),
                "occupancy": ("0..1", "estimated achieved occupancy"),
            },
            _trace(_kernels),
        ),
        SqlTable(
            "launches",
            "kernel, copy or memset whose launch is recorded",
            {
                "event": _EVENT,
                "name": ("", "name of the work"),
                "launch_event": ("", "event of the call"),
                "call": ("", "runtime call"),
                "call_start_ns": ("ns", "start of the call"),
                "call_ns": ("ns", "duration of the call"),
                "queue_ns": ("ns", "wait for earlier work after the call"),
                "latency_ns": ("ns", "delay until the start, while the stream is free"),
                "is_queued": ("", "whether earlier work ran when the call returned"),
                "is_graph": ("", "whether the call launched a graph"),
                "operator": ("", "operator that launched the work"),
                "device": _DEVICE,
                "thread": ("", "thread of the call"),
                "step": _STEP,
            },
            _trace(_launches),
        ),
        SqlTable(
            "copies",
            "copy or memset on a device",
            {
                "event": _EVENT,
                "name": ("", "name"),
                "kind": ("", "memcpy or memset"),
                "direction": ("", "direction of the copy"),
                "bytes": ("bytes", "size"),
                "start_ns": _START,
                "dur_ns": _DUR,
                **_ON_DEVICE,
            },
            _trace(_copies),
        ),
        SqlTable(
            "runtime_calls",
            "call of the device's runtime or driver",
            {
                "event": _EVENT,
                "name": ("", "function"),
                "start_ns": _START,
                "dur_ns": _DUR,
                "self_ns": ("ns", "duration without nested calls"),
                "device_idle_ns": ("ns", "self time while the device idles"),
                "launched": ("", "number of kernels, copies and memsets that the call launched"),
                "bytes": ("bytes", "size of the copies that the call launched"),
                "operator": ("", "enclosing operator"),
                "operator_event": ("", "event of that operator"),
                "phase": ("", "enclosing annotation"),
                "code_line": _CODE,
                "thread": _THREAD,
                "step": _STEP,
            },
            _trace(_runtime_calls),
        ),
        SqlTable(
            "modules",
            "call of an nn.Module",
            {
                "event": _EVENT,
                "name": ("", "module"),
                "path": ("", "path of the module"),
                "start_ns": _START,
                "dur_ns": ("ns", "CPU time with nested calls"),
                "parent": ("", "event of the enclosing Python or module call"),
                "thread": _THREAD,
                "step": _STEP,
            },
            _trace(_modules),
        ),
        SqlTable(
            "phases",
            "annotation (record_function, NVTX range)",
            {
                "event": _EVENT,
                "name": ("", "annotation"),
                "start_ns": _START,
                "dur_ns": _DUR,
                "thread": _THREAD,
                "step": _STEP,
            },
            _trace(_phases),
        ),
        SqlTable(
            "steps",
            "step",
            {
                "step": ("", "label"),
                "start_ns": _START,
                "dur_ns": ("ns", "duration, with its device work"),
                "host_start_ns": ("ns", "start on the CPU"),
                "host_dur_ns": ("ns", "duration on the CPU"),
                "kernel_ns": ("ns", "compute kernels; each moment counts for the first active part, in this order"),
                "memcpy_ns": ("ns", "copies"),
                "memset_ns": ("ns", "memsets"),
                "unrecorded_ns": ("ns", "device work that was not recorded"),
                "communication_ns": ("ns", "communication not overlapped with compute"),
                "runtime_ns": ("ns", "runtime calls"),
                "dataloader_ns": ("ns", "data loading"),
                "cpu_ns": ("ns", "operators and annotations"),
                "other_ns": ("ns", "nothing recorded"),
            },
            _trace(_steps),
        ),
        SqlTable(
            "collectives",
            "recorded arguments of a collective, of its CPU call or of its kernel",
            {
                "event": _EVENT,
                "collective": ("", "allreduce, all_gather, send, ..."),
                "name": ("", "name of the event"),
                "kind": ("", "kind of the event: kernel, operator or annotation"),
                "start_ns": _START,
                "dur_ns": _DUR,
                "dtype": ("", "data type"),
                "in_elements": ("", "number of input elements"),
                "out_elements": ("", "number of output elements"),
                "process_group": ("", "process group"),
                "group_size": ("", "number of ranks in the group"),
                "sequence": ("", "sequence number in the group"),
                "source_rank": ("", "sender of a recv"),
                "destination_rank": ("", "receiver of a send"),
                "device": _DEVICE,
                "step": _STEP,
            },
            _trace(_collectives),
        ),
        SqlTable(
            "counters",
            "value of a recorded counter",
            {
                "time_ns": ("ns", "time, since the start of the trace"),
                "name": ("", "counter"),
                "series": ("", "series of the counter"),
                "value": ("", "value, in the unit of the counter"),
                "process": ("", "process id"),
            },
            _trace(_counters),
        ),
        SqlTable(
            "findings",
            "finding, largest expected saving first",
            {
                "rule": ("", "rule"),
                "title": ("", "title of the rule"),
                "severity": ("", "high, medium, low or info"),
                "confidence": ("", "how certain the cause is"),
                "saving_low_ns": ("ns", "lower bound of the saving per step"),
                "saving_high_ns": ("ns", "upper bound of the saving per step"),
                "event": ("", "number of the first event that shows the problem"),
                "events": ("", "number of events that show the problem"),
            },
            _trace(_findings),
        ),
        SqlTable(
            "memory_events",
            "allocation or release, of a trace or snapshot",
            {
                "device": _DEVICE,
                "event": ("", "number of the event on its device; snapshots only"),
                "action": ("", "alloc, free_completed, ...; snapshots only"),
                "time_ns": ("ns", "time"),
                "bytes": ("bytes", "size; negative for a release in a trace"),
                "address": ("", "address"),
                "allocated_bytes": ("bytes", "allocated memory after the event; traces only"),
                "reserved_bytes": ("bytes", "reserved memory after the event; traces only"),
                "stream": ("", "stream; snapshots only"),
                "code_line": ("", "innermost line of your code; snapshots only"),
                "stack": ("", "call stack; snapshots only"),
            },
            _memory_events,
        ),
        SqlTable(
            "blocks",
            "memory block of a snapshot",
            {
                "device": _DEVICE,
                "bytes": ("bytes", "size"),
                "requested_bytes": ("bytes", "requested size"),
                "address": ("", "address"),
                "category": ("", "parameters, gradients, activations, ..."),
                "module": ("", "module that allocated the block"),
                "first_event": ("", "event that allocated the block"),
                "last_event": ("", "event that released the block"),
                "start_ns": ("ns", "time of the allocation"),
                "end_ns": ("ns", "time of the release"),
                "stream": ("", "stream"),
                "code_line": _CODE,
                "stack": ("", "call stack"),
            },
            _blocks,
        ),
    )
}

NAMES = (COLUMNS, *TABLES)


def _columns() -> pa.Table:
    """Returns one row per column of each table."""
    rows = [(table.name, name, unit, what) for table in TABLES.values() for name, (unit, what) in table.columns.items()]
    names = ("table_name", "column_name", "unit", "meaning")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def table_of(model: object, name: str) -> pa.Table | None:
    """Returns a table of a profile. None if profiles of this kind have no such table."""
    if name == COLUMNS:
        return _columns()
    table = TABLES[name]
    columns = table.of(model)
    return None if columns is None else pa.table({key: columns[key] for key in table.columns if key in columns})
