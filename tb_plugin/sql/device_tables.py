"""SQL tables of device work, its launches and collectives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_classes import classify_kernels, word_of
from tb_plugin.analysis.kernel_labels import kernel_label
from tb_plugin.analysis.launches.phases import launch_phases
from tb_plugin.analysis.launches.recorded import Launches
from tb_plugin.analysis.runtime_calls import RuntimeCalls, callers, runtime_calls
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.sql.columns import (
    DEVICE,
    DUR,
    EVENT,
    LAUNCH_EVENT,
    NAME,
    OPERATOR_EVENT,
    START,
    STEP,
    THREAD,
    Events,
    SqlColumn,
    SqlTable,
    coded,
    nullable,
    of_kind,
    of_trace,
    real,
    renamed,
    word_of_kind,
)

C = SqlColumn
_ON_DEVICE: tuple[SqlColumn[Events], ...] = (
    DEVICE,
    C("stream", "", "stream", lambda at: at.text(at.device_arg("stream"))),
    C("operator", "", "operator that launched the work", lambda at: at.text(operator_names(at.trace, at.rows))),
    OPERATOR_EVENT,
    LAUNCH_EVENT,
    STEP,
)


def _class(at: Events) -> pa.Array:
    return coded(
        classify_kernels(at.trace).of(at.of(at.trace.name)).astype(np.int32), [word_of(each) for each in KernelClass]
    )


def _matrix_unit(at: Events) -> pa.Array:
    use = at.of(at.trace.uses_matrix_unit)
    return pa.array(use == MatrixUse.YES, mask=use == MatrixUse.UNKNOWN)


KERNELS: SqlTable[Events] = SqlTable(
    "kernels",
    "kernel",
    of_kind(EventKind.KERNEL),
    (
        EVENT,
        C("name", "", "full name", NAME.values),
        C("label", "", "readable name", lambda at: renamed(at.trace, at.of(at.trace.name), kernel_label)),
        C("class", "", "gemm, attention, elementwise, communication, ...", _class),
        START,
        DUR,
        *_ON_DEVICE,
        C(
            "is_collective",
            "",
            "whether the kernel communicates",
            lambda at: pa.array(at.of(at.trace.is_collective)),
        ),
        C("uses_matrix_unit", "", "whether the kernel uses Tensor Cores or other matrix units", _matrix_unit),
        C("grid", "", "grid size", lambda at: at.text(at.device_arg("grid"))),
        C("block", "", "block size", lambda at: at.text(at.device_arg("block"))),
        C("registers", "", "registers per thread", lambda at: nullable(at.device_arg("registers"))),
        C(
            "shared_memory_bytes",
            "bytes",
            "shared memory per block",
            lambda at: nullable(at.device_arg("shared_memory")),
        ),
        C(
            "blocks_per_sm",
            "",
            "blocks per multiprocessor",
            lambda at: real(at.device_arg("blocks_per_sm", np.nan)),
        ),
        C(
            "occupancy",
            "0..1",
            "estimated achieved occupancy",
            lambda at: real(at.device_arg("occupancy", np.nan)),
        ),
    ),
)


class _Launches(Events, frozen=True, eq=False):
    """Launched work. ``of_call`` has the calls."""

    every: Launches
    known: Int64
    of_call: Events


def _launches(trace: TraceTable) -> _Launches:
    every = launch_phases(trace)
    found = np.flatnonzero(every.call != MISSING)
    return _Launches(trace, every.row[found], every, found, Events(trace, every.call[found]))


LAUNCHES: SqlTable[_Launches] = SqlTable(
    "launches",
    "kernel, copy or memset whose launch is recorded",
    of_trace(_launches),
    (
        EVENT,
        C("name", "", "name of the work", NAME.values),
        C("launch_event", "", "event of the call", lambda at: EVENT.values(at.of_call)),
        C("call", "", "runtime call", lambda at: NAME.values(at.of_call)),
        C("call_start_ns", "ns", "start of the call", lambda at: START.values(at.of_call)),
        C("call_ns", "ns", "duration of the call", lambda at: DUR.values(at.of_call)),
        C("queue_ns", "ns", "wait for earlier work after the call", lambda at: pa.array(at.every.queue_ns[at.known])),
        C(
            "latency_ns",
            "ns",
            "delay until the start, while the stream is free",
            lambda at: pa.array(at.every.latency_ns[at.known]),
        ),
        C(
            "is_queued",
            "",
            "whether earlier work ran when the call returned",
            lambda at: pa.array(at.every.is_queued[at.known]),
        ),
        C("is_graph", "", "whether the call launched a graph", lambda at: pa.array(at.every.is_graph[at.known])),
        C("operator", "", "operator that launched the work", lambda at: at.text(operator_names(at.trace, at.rows))),
        DEVICE,
        C("thread", "", "thread of the call", lambda at: THREAD.values(at.of_call)),
        STEP,
    ),
)

COPIES: SqlTable[Events] = SqlTable(
    "copies",
    "copy or memset on a device",
    of_kind(EventKind.MEMCPY, EventKind.MEMSET),
    (
        EVENT,
        NAME,
        C(
            "kind",
            "",
            "memcpy or memset",
            lambda at: coded((at.of(at.trace.kind) == EventKind.MEMSET).astype(np.int32), ["memcpy", "memset"]),
        ),
        C(
            "direction",
            "",
            "direction of the copy",
            lambda at: coded(
                directions_of(at.trace, at.rows.astype(np.int64)), [direction.words for direction in DIRECTIONS]
            ),
        ),
        C("bytes", "bytes", "size", lambda at: nullable(at.device_arg("bytes"))),
        START,
        DUR,
        *_ON_DEVICE,
    ),
)


class _RuntimeCalls(Events, frozen=True, eq=False):
    calls: RuntimeCalls


def _runtime_calls(trace: TraceTable) -> _RuntimeCalls:
    calls = runtime_calls(trace)
    return _RuntimeCalls(trace, calls.row, calls)


def _idle(at: _RuntimeCalls) -> pa.Array:
    idle = at.calls.device_idle_ns
    return pa.nulls(len(at.rows), pa.int64()) if idle is None else pa.array(idle)


RUNTIME_CALLS: SqlTable[_RuntimeCalls] = SqlTable(
    "runtime_calls",
    "call of the device's runtime or driver",
    of_trace(_runtime_calls),
    (
        EVENT,
        C("name", "", "function", NAME.values),
        START,
        DUR,
        C("self_ns", "ns", "duration without nested calls", lambda at: pa.array(at.of(at.trace.self_ns))),
        C("device_idle_ns", "ns", "self time while the device idles", _idle),
        C(
            "launched",
            "",
            "number of kernels, copies and memsets that the call launched",
            lambda at: pa.array(at.calls.launched),
        ),
        C("bytes", "bytes", "size of the copies that the call launched", lambda at: nullable(at.calls.bytes)),
        C(
            "operator",
            "",
            "enclosing operator",
            lambda at: at.text(np.append(at.trace.name, np.int32(MISSING))[at.of(at.trace.operator)]),
        ),
        OPERATOR_EVENT,
        C("phase", "", "enclosing annotation", lambda at: at.text(callers(at.trace).phase)),
        C(
            "code_line",
            "",
            "innermost line of your code",
            lambda at: coded(callers(at.trace).frame, callers(at.trace).frames),
        ),
        THREAD,
        STEP,
    ),
)


COLLECTIVES: SqlTable[Events] = SqlTable(
    "collectives",
    "recorded arguments of a collective, of its CPU call or of its kernel",
    of_trace(lambda trace: Events(trace, trace.collectives.row)),
    (
        EVENT,
        C(
            "collective",
            "",
            "allreduce, all_gather, send, ...",
            lambda at: at.text(at.trace.collectives.name),
        ),
        C("name", "", "name of the event", NAME.values),
        C("kind", "", "kind of the event: kernel, operator or annotation", word_of_kind),
        START,
        DUR,
        C("dtype", "", "data type", lambda at: at.text(at.trace.collectives.dtype)),
        C("in_elements", "", "number of input elements", lambda at: nullable(at.trace.collectives.in_elements)),
        C("out_elements", "", "number of output elements", lambda at: nullable(at.trace.collectives.out_elements)),
        C("process_group", "", "process group", lambda at: at.text(at.trace.collectives.group_name)),
        C("group_size", "", "number of ranks in the group", lambda at: nullable(at.trace.collectives.group_size)),
        C("sequence", "", "sequence number in the group", lambda at: nullable(at.trace.collectives.sequence)),
        C("source_rank", "", "sender of a recv", lambda at: nullable(at.trace.collectives.source_rank)),
        C("destination_rank", "", "receiver of a send", lambda at: nullable(at.trace.collectives.destination_rank)),
        DEVICE,
        STEP,
    ),
)
