"""SQL tables of operators, modules, phases, steps, counters and findings.

In one file: the tables share columns, and a reader compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.forest import Forest, Spans, outermost_of
from tb_plugin.analysis.host_calls import HostCalls, called_modules, host_calls
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.analysis.operator_calls import Calls, operator_calls
from tb_plugin.analysis.phase_calls import PhaseCalls, phase_calls, sums_of
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.step_shares import StepShares, break_down
from tb_plugin.analysis.work.operator_work import FORMAT_TITLES, OperatorWork, operator_work
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import Groups
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import CounterEvents, TraceTable
from tb_plugin.sql.columns import (
    DEVICE,
    DUR,
    EVENT,
    LAUNCH_EVENT,
    NAME,
    START,
    STEP,
    THREAD,
    Events,
    SqlColumn,
    SqlTable,
    coded,
    nullable,
    of_trace,
    renamed,
    thread_of,
    word_of_kind,
)

C = SqlColumn
_CODE: SqlColumn[Events] = C(
    "code_line",
    "",
    "innermost line of your code",
    lambda at: coded(at.of(code_lines(at.trace).of), code_lines(at.trace).texts),
)

EVENTS: SqlTable[Events] = SqlTable(
    "events",
    "event with a duration",
    of_trace(lambda trace: Events(trace, np.arange(len(trace)))),
    (
        EVENT,
        NAME,
        C("kind", "", "operator, annotation, python, module, runtime, kernel, memcpy, memset, ...", word_of_kind),
        C("category", "", "category in the file", lambda at: at.text(at.trace.category)),
        START,
        DUR,
        C(
            "self_ns",
            "ns",
            "duration without nested operators, modules and runtime calls",
            lambda at: pa.array(at.trace.self_ns),
        ),
        STEP,
        C("process", "", "process", lambda at: coded(at.trace.track, [track.process for track in at.trace.tracks])),
        C("thread", "", "thread or stream", lambda at: thread_of(at.trace, at.rows)),
        DEVICE,
        C(
            "parent",
            "",
            "event of the enclosing operator, module or runtime call",
            lambda at: nullable(at.trace.parent),
        ),
        C(
            "operator_event",
            "",
            "event of the enclosing operator; for device work, of the operator that launched it",
            lambda at: nullable(at.trace.operator),
        ),
        LAUNCH_EVENT,
        C("correlation", "", "correlation id in the file", lambda at: nullable(at.trace.correlation)),
    ),
)


class _Operators(Events, frozen=True, eq=False):
    calls: Calls
    recorded: Int64


def _operators(trace: TraceTable) -> _Operators:
    calls = operator_calls(trace, select_rows(trace, None))
    recorded = np.flatnonzero(calls.row != MISSING)
    return _Operators(trace, calls.row[recorded], calls, recorded)


def _of_work(at: _Operators, values: Callable[[OperatorWork], Int64 | Float64]) -> pa.Array:
    """Returns a column of the calls with known FLOPs and bytes; null for others."""
    work = operator_work(at.trace, None)
    column, known = np.zeros(len(at.rows)), np.zeros(len(at.rows), np.bool_)
    place = np.searchsorted(at.rows, work.row)
    column[place], known[place] = values(work), True
    return pa.array(np.rint(column).astype(np.int64), mask=~known)


def _number_format(at: _Operators) -> pa.Array:
    work = operator_work(at.trace, None)
    place = np.full(len(at.rows), MISSING, np.int64)
    place[np.searchsorted(at.rows, work.row)] = work.number_format
    return pa.array(FORMAT_TITLES, pa.string()).take(pa.array(place, mask=place == MISSING))


OPERATORS: SqlTable[_Operators] = SqlTable(
    "operators",
    "call of an operator",
    of_trace(_operators),
    (
        EVENT,
        C("name", "", "operator", lambda at: at.text(at.calls.name[at.recorded])),
        C("input_shapes", "", "shapes of the inputs", lambda at: at.text(at.calls.shape[at.recorded])),
        START,
        C(
            "host_total_ns",
            "ns",
            "CPU time with nested calls",
            lambda at: pa.array(at.calls.host_total_ns[at.recorded]),
        ),
        C(
            "host_self_ns",
            "ns",
            "CPU time without nested operators and runtime calls",
            lambda at: pa.array(at.calls.host_self_ns[at.recorded]),
        ),
        C(
            "device_total_ns",
            "ns",
            "device time of the work launched by the call and its nested calls",
            lambda at: pa.array(at.calls.device_total_ns[at.recorded]),
        ),
        C(
            "device_self_ns",
            "ns",
            "device time of the work that the call itself launched",
            lambda at: pa.array(at.calls.device_self_ns[at.recorded]),
        ),
        C(
            "runtime_ns",
            "ns",
            "CPU time of runtime calls made by the call itself",
            lambda at: pa.array(at.calls.runtime_self_ns[at.recorded]),
        ),
        C(
            "is_outermost",
            "",
            "whether no call of the same operator encloses the call",
            lambda at: pa.array(outermost_of(at.calls.name, at.calls.spans, at.calls.parent)[at.recorded]),
        ),
        C(
            "parent",
            "",
            "event of the enclosing operator",
            lambda at: nullable(np.append(at.calls.row, MISSING)[at.calls.parent[at.recorded]]),
        ),
        C("number_format", "", "number format of the inputs, if flops is known", _number_format),
        C("flops", "", "floating-point operations; null if unknown", lambda at: _of_work(at, lambda of: of.flops)),
        C(
            "moved_bytes",
            "bytes",
            "inputs and outputs, if flops is known",
            lambda at: _of_work(at, lambda of: of.bytes),
        ),
        C("work_kernel_ns", "ns", "kernel time, if flops is known", lambda at: _of_work(at, lambda of: of.kernel_ns)),
        C(
            "module",
            "",
            "path of the enclosing modules",
            lambda at: coded(at.of(module_paths(at.trace).of), module_paths(at.trace).texts),
        ),
        _CODE,
        THREAD,
        STEP,
    ),
)


class _Modules(Events, frozen=True, eq=False):
    calls: HostCalls
    recorded: Int64
    is_outermost: Bool
    total: Forest


@cached_by_argument
def _modules(trace: TraceTable) -> _Modules:
    selection = select_rows(trace, None)
    calls = host_calls(trace, selection, called_modules(trace, selection.of(trace, EventKind.MODULE)))
    recorded = np.flatnonzero(~calls.is_replayed)
    once = outermost_of(calls.key, calls.spans, calls.parent)
    return _Modules(trace, calls.row[recorded], calls, recorded, once[recorded], Forest(calls.parent))


def _with_nested(at: _Modules, values: Int64) -> pa.Array:
    return pa.array(at.total.sums(values)[at.recorded])


MODULES: SqlTable[_Modules] = SqlTable(
    "modules",
    "call of an nn.Module",
    of_trace(_modules),
    (
        EVENT,
        C("name", "", "module", lambda at: renamed(at.trace, at.of(at.trace.name), module_label)),
        C(
            "path",
            "",
            "path of the module",
            lambda at: coded(at.of(module_paths(at.trace).of), module_paths(at.trace).texts),
        ),
        START,
        C("dur_ns", "ns", "CPU time with nested calls", DUR.values),
        C(
            "host_self_ns",
            "ns",
            "CPU time without nested modules, operators and runtime calls",
            lambda at: pa.array(at.calls.host_self_ns[at.recorded]),
        ),
        C(
            "device_total_ns",
            "ns",
            "device time of the work launched by the call and its nested modules, forward",
            lambda at: _with_nested(at, at.calls.device),
        ),
        C(
            "device_self_ns",
            "ns",
            "device time of the work launched outside nested modules, forward",
            lambda at: pa.array(at.calls.device[at.recorded]),
        ),
        C(
            "backward_device_total_ns",
            "ns",
            "device time of the backward operators of the call and its nested modules",
            lambda at: _with_nested(at, at.calls.backward_device),
        ),
        C(
            "backward_device_self_ns",
            "ns",
            "device time of the backward operators of the call",
            lambda at: pa.array(at.calls.backward_device[at.recorded]),
        ),
        C(
            "recomputed_device_ns",
            "ns",
            "part of device_total_ns that recomputes activations",
            lambda at: _with_nested(at, at.calls.recomputed),
        ),
        C(
            "backward_host_total_ns",
            "ns",
            "CPU time of the backward operators of the call and its nested modules",
            lambda at: _with_nested(at, at.calls.backward_host),
        ),
        C(
            "operators",
            "",
            "number of operators directly in the call",
            lambda at: pa.array(at.calls.operators[at.recorded]),
        ),
        C(
            "is_outermost",
            "",
            "whether no call of the same module encloses the call",
            lambda at: pa.array(at.is_outermost),
        ),
        C(
            "parent",
            "",
            "event of the enclosing Python or module call",
            lambda at: nullable(at.of(at.trace.python_parent)),
        ),
        THREAD,
        STEP,
    ),
)


class _Phases(Events, frozen=True, eq=False):
    found: PhaseCalls
    sums: dict[str, Any]
    is_outermost: Bool


@cached_by_argument
def _phases(trace: TraceTable) -> _Phases:
    found = phase_calls(trace, select_rows(trace, None))
    each = np.arange(len(found.of))
    once = outermost_of(found.of, Spans(found.calls.track, found.calls.start, found.calls.end), found.calls.parent)
    return _Phases(trace, found.calls.row, found, sums_of(found, Groups(each, each)), once)


PHASES: SqlTable[_Phases] = SqlTable(
    "phases",
    "annotation (record_function, NVTX range)",
    of_trace(_phases),
    (
        EVENT,
        C("name", "", "annotation", NAME.values),
        C(
            "phase",
            "",
            "phase: names that differ only in numbers",
            lambda at: coded(at.found.of, at.found.phases.labels),
        ),
        START,
        DUR,
        C(
            "device_ns",
            "ns",
            "device time of the work launched in the annotation; work that runs at the same time counts once",
            lambda at: pa.array(at.sums["phase_device_ns"]),
        ),
        C(
            "backward_device_ns",
            "ns",
            "device time of the backward operators of the annotation",
            lambda at: pa.array(at.sums["phase_backward_ns"]),
        ),
        C(
            "backward_host_ns",
            "ns",
            "CPU time of the backward operators of the annotation",
            lambda at: pa.array(at.sums["phase_backward_host_ns"]),
        ),
        C(
            "communication_ns",
            "ns",
            "device time of collectives launched in the annotation, and communication on the CPU during it",
            lambda at: pa.array(at.sums["phase_communication_ns"]),
        ),
        C(
            "idle_ns",
            "ns",
            "time of the annotation while no device works",
            lambda at: pa.array(at.sums["phase_idle_ns"]) if len(at.found.busy) else pa.nulls(len(at.rows), pa.int64()),
        ),
        C(
            "is_outermost",
            "",
            "whether no call of the same phase encloses the call",
            lambda at: pa.array(at.is_outermost),
        ),
        THREAD,
        STEP,
    ),
)


class _Steps(Struct, frozen=True, eq=False):
    trace: TraceTable
    shares: StepShares


def _part(category: str, meaning: str) -> SqlColumn[_Steps]:
    return C(f"{category}_ns", "ns", meaning, lambda at: pa.array(at.shares.parts[category]))


STEPS: SqlTable[_Steps] = SqlTable(
    "steps",
    "step",
    of_trace(lambda trace: _Steps(trace, break_down(trace, None))),
    (
        C("step", "", "label", lambda at: pa.array(at.trace.steps.label, pa.large_string())),
        C("start_ns", "ns", START.meaning, lambda at: pa.array(at.trace.steps.start_ns)),
        C("dur_ns", "ns", "duration, with its device work", lambda at: pa.array(at.shares.total)),
        C("host_start_ns", "ns", "start on the CPU", lambda at: pa.array(at.trace.steps.host_start_ns)),
        C(
            "host_dur_ns",
            "ns",
            "duration on the CPU",
            lambda at: pa.array(at.trace.steps.host_end_ns - at.trace.steps.host_start_ns),
        ),
        _part("kernel", "compute kernels; each moment counts for the first active part, in this order"),
        _part("memcpy", "copies"),
        _part("memset", "memsets"),
        _part("unrecorded", "device work that was not recorded"),
        _part("communication", "communication not overlapped with compute"),
        _part("runtime", "runtime calls"),
        _part("dataloader", "data loading"),
        _part("cpu", "operators and annotations"),
        _part("other", "nothing recorded"),
    ),
)


class _CounterValues(Struct, frozen=True, eq=False):
    trace: TraceTable
    counters: CounterEvents

    def text(self, ids: Any) -> pa.Array:
        return coded(ids, self.trace.strings.array)


COUNTERS: SqlTable[_CounterValues] = SqlTable(
    "counters",
    "value of a recorded counter",
    of_trace(lambda trace: _CounterValues(trace, trace.counters)),
    (
        C("time_ns", "ns", "time, since the start of the trace", lambda at: pa.array(at.counters.time_ns)),
        C("name", "", "counter", lambda at: at.text(at.counters.name)),
        C("series", "", "series of the counter", lambda at: at.text(at.counters.series)),
        C("value", "", "value, in the unit of the counter", lambda at: pa.array(at.counters.value)),
        C("process", "", "process id", lambda at: at.text(at.counters.pid)),
    ),
)


def _findings(trace: TraceTable) -> list[Any]:
    from tb_plugin.rules._ordered_findings import findings_of

    return list(findings_of(trace, None).all)


def _bound(found: list[Any], key: str) -> pa.Array:
    savings = [each.notice.saving for each in found]
    return pa.array([None if each is None else getattr(each, key) for each in savings], pa.float64())


FINDINGS: SqlTable[list[Any]] = SqlTable(
    "findings",
    "finding, largest expected saving first",
    of_trace(_findings),
    (
        C("rule", "", "rule", lambda found: pa.array([each.rule.id for each in found], pa.string())),
        C("title", "", "title of the rule", lambda found: pa.array([each.rule.title for each in found], pa.string())),
        C(
            "severity",
            "",
            "high, medium, low or info",
            lambda found: pa.array([each.notice.severity for each in found], pa.string()),
        ),
        C(
            "confidence",
            "",
            "how certain the cause is",
            lambda found: pa.array([each.notice.confidence for each in found], pa.string()),
        ),
        C("saving_low_ns", "ns", "lower bound of the saving per step", lambda found: _bound(found, "low_ns")),
        C("saving_high_ns", "ns", "upper bound of the saving per step", lambda found: _bound(found, "high_ns")),
        C(
            "event",
            "",
            "number of the first event that shows the problem",
            lambda found: pa.array([each.events[0] if len(each.events) else None for each in found], pa.int64()),
        ),
        C(
            "events",
            "",
            "number of events that show the problem",
            lambda found: pa.array([each.event_count for each in found], pa.int64()),
        ),
    ),
)
