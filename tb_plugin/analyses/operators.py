"""Operators: host and device time by name, by name and input shapes, and by call stack.

In one file, for all tables are made from one set of calls (``Calls``); what has no operator is in ``no_operator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.base import OWN_ONLY, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analyses.donuts import donut
from tb_plugin.analyses.grouping import (
    Forest,
    Groups,
    Spans,
    group,
    outermost_of,
    ratio,
    shares,
    sum_by,
    with_ancestors,
)
from tb_plugin.analyses.matrix_unit import matrix_units
from tb_plugin.analyses.metrics import CHOSEN, SHARED, define
from tb_plugin.analyses.no_operator import kernels_without, reason_breakdown, reason_times
from tb_plugin.analyses.selection import Selection, select_rows
from tb_plugin.payloads import Figures, Payload, Sort, Table, View
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, EventKind, MatrixUse, of_kind
from tb_plugin.trace.table import TraceTable

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ratio",
        {
            "matrix_self_ratio": (
                "On matrix units, self",
                "Share of the operator's own kernel time that ran in kernels known (by name) to use matrix units.",
            ),
            "matrix_total_ratio": ("On matrix units, total", "The same over the kernels of nested operators as well."),
            "runtime_ratio": (
                "Runtime calls",
                "Share of runtime and driver calls made directly by it in host self and them together.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "runtime_self_ns": (
                "In runtime calls",
                "Time on the host in runtime and driver calls made directly by it, which host self leaves out.",
            ),
        },
    ),
    define(
        CHOSEN,
        "bool",
        {
            "has_stack": ("Stack", "A call stack is known for at least one call."),
        },
    ),
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

_SHARED_TOTALS = ("device_total_ns", "device_total_share", "host_total_ns", "host_total_share")
TIMES = ("host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns")


@dataclass(frozen=True, eq=False)
class Calls:
    """All chosen operator calls, by time. Times in nanoseconds; ``parent`` is a position among them."""

    row: Int64
    spans: Spans
    parent: Int32
    name: Int32
    shape: Int32
    stack: Int32
    host_self_ns: Int64
    host_total_ns: Int64
    runtime_self_ns: Int64
    """Self time of the runtime calls whose innermost operator it is."""
    device_self_ns: Int64
    device_total_ns: Int64
    matrix_self_ns: Int64
    matrix_total_ns: Int64
    kernel_self_ns: Int64
    kernel_total_ns: Int64
    eligible: Bool
    stacks: list[str]
    """Texts that ``stack`` counts into."""
    no_operator: Int64
    """Chosen device events without a chosen operator: rows of the trace."""
    no_operator_ns: int
    """Their device time."""


@dataclass(frozen=True)
class _Shown:
    """Which columns say something about a trace."""

    device: bool
    units: str
    """What the matrix units of its devices are called, "" when they have none."""
    runtime: bool
    """Whether operators made runtime calls."""


class Operators:
    """The operator tables."""

    id = "operators"
    title = "Operators"
    model = TraceTable
    traits = Traits("Work", whole="", tables=("operators", "operators_by_shape"))
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, trace: TraceTable) -> Missing | None:
        """Needs host operators, or device time that could have had one."""
        if of_kind(trace.kind, EventKind.OPERATOR, *DEVICE_WORK).any():
            return None
        return Missing("The trace holds no operators.", trace.recorder.todo("view.operators"))

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the chosen steps."""
        return params.chosen

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns all tables. Raises BadRequest for unknown steps."""
        selection = select_rows(trace, *params.chosen)
        calls = operator_calls(trace, selection)
        has_device = bool(calls.device_self_ns.any() or calls.no_operator_ns)
        units = matrix_units(trace, selection.of(trace, EventKind.KERNEL))
        shown = _Shown(has_device, units, bool(calls.runtime_self_ns.any()))
        frames = {
            "operators": _by_name(trace, calls, shown),
            "operators_by_shape": _by_shape(trace, calls, shown),
            "operators_outermost": _outermost(trace, calls, shown),
            "stacks": _by_stack(trace, calls, shown),
        }
        payloads = _donuts(frames["operators"], has_device)
        facts = {"operators.calls": len(calls.row), "operators.names": len(np.unique(trace.name[calls.row]))}
        if has_device:
            times = reason_times(trace, calls.no_operator)
            facts |= {f"operators.no_operator_{reason.name.lower()}_ns": ns for reason, ns in times.items()}
        if calls.no_operator_ns:
            frames["no_operator"] = kernels_without(trace, calls.no_operator)
            payloads["no_operator"] = reason_breakdown(times, METRICS.metric("device_self_ns"))
        if shown.runtime:
            payloads["left_out"] = _left_out(calls)
        return Part(
            coverage=selection.coverage,
            facts=facts,
            frames=frames,
            payloads=payloads,
            layout=(*payloads, "operators"),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or one of its tables."""
        return answer_view(self, parts[0], params)


def operator_calls(trace: TraceTable, selection: Selection) -> Calls:
    """Returns every chosen operator call with its own and its nested device time."""
    rows = selection.of(trace, EventKind.OPERATOR)
    position = places_of(rows, len(trace))
    parent = position[trace.operator[rows]]
    runtime = selection.of(trace, EventKind.RUNTIME)
    work = selection.of(trace, *DEVICE_WORK)
    owner = position[trace.operator[work]]
    kernel = trace.kind[work] == EventKind.KERNEL
    device_self = sum_by(owner, trace.dur_ns[work], len(rows))
    kernel_self = sum_by(owner[kernel], trace.dur_ns[work[kernel]], len(rows))
    matrix = kernel & (trace.uses_matrix_unit[work] == MatrixUse.YES)
    matrix_self = sum_by(owner[matrix], trace.dur_ns[work[matrix]], len(rows))
    shape = np.full(len(trace), MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    stack, stacks = _stacks(trace, rows)
    forest = Forest(parent)
    eligible = trace.matrix_eligible[rows] | (matrix_self > 0)
    return Calls(
        row=rows,
        spans=Spans(trace.track[rows], trace.start_ns[rows], trace.ends(rows)),
        parent=parent,
        name=trace.name[rows],
        shape=shape[rows],
        stack=stack,
        host_self_ns=trace.self_ns[rows],
        host_total_ns=trace.dur_ns[rows],
        runtime_self_ns=sum_by(position[trace.operator[runtime]], trace.self_ns[runtime], len(rows)),
        device_self_ns=device_self,
        device_total_ns=forest.sums(device_self),
        matrix_self_ns=matrix_self,
        matrix_total_ns=forest.sums(matrix_self),
        kernel_self_ns=kernel_self,
        kernel_total_ns=forest.sums(kernel_self),
        # By itself, by a kernel on a matrix unit, or by anything nested in it.
        eligible=eligible | forest.any_below(eligible),
        stacks=stacks,
        no_operator=work[owner == MISSING],
        no_operator_ns=int(trace.dur_ns[work[owner == MISSING]].sum()),
    )


def _stacks(trace: TraceTable, rows: Int64) -> tuple[Int32, list[str]]:
    """Call stack of each row (position among the texts, -1 = none): as recorded, else the Python calls around it."""
    recorded = np.full(len(trace), MISSING, np.int32)
    recorded[trace.operators.row] = trace.operators.stack
    own, around = recorded[rows], trace.python_parent[rows]
    texts: list[str] = []
    stack = np.full(len(rows), MISSING, np.int32)
    has = own != MISSING
    if has.any():
        ids, which = np.unique(own[has], return_inverse=True)
        stack[has] = which
        texts += [trace.strings[int(i)] for i in ids]
    rebuilt = ~has & (around != MISSING)
    if rebuilt.any():
        path, python_texts = _python_paths(trace, around[rebuilt])
        stack[rebuilt] = path + len(texts)
        texts += python_texts
    return stack, texts


def _python_paths(trace: TraceTable, leaves: Int32) -> tuple[Int64, list[str]]:
    """Distinct paths of names from each Python call outwards, as stack texts (innermost first)."""
    members, parent = with_ancestors(trace.python_parent, leaves)
    path = Forest(parent).paths(trace.name[members])
    _, first, which = np.unique(path[np.searchsorted(members, leaves)], return_index=True, return_inverse=True)
    texts = []
    for leaf in first:
        frames, row = [], int(leaves[leaf])
        while row != MISSING:
            frames.append(trace.strings[int(trace.name[row])])
            row = int(trace.python_parent[row])
        texts.append(";".join(frames))
    return which.ravel(), texts


def _by_name(trace: TraceTable, calls: Calls, shown: _Shown) -> Frame:
    groups = group(calls.name)
    data = _sums(calls, groups, outermost_of(calls.name, calls.spans, calls.parent))
    data["name"] = trace.strings.take(calls.name[groups.first])
    data["has_stack"] = pa.array(groups.any(calls.stack != MISSING))
    table = _with_rest(data, calls.no_operator_ns)
    keys = _columns("name", shown=shown)
    return _frame("operators", "Operators", keys, table, ("name",), shown)


def _by_shape(trace: TraceTable, calls: Calls, shown: _Shown) -> Frame:
    groups = group(calls.name, calls.shape)
    data = _sums(calls, groups, outermost_of(groups.of, calls.spans, calls.parent))
    data["name"] = trace.strings.take(calls.name[groups.first])
    data["input_shape"] = trace.strings.take(calls.shape[groups.first])
    data["has_stack"] = pa.array(groups.any(calls.stack != MISSING))
    table = _with_rest(data, calls.no_operator_ns)
    keys = _columns("name", "input_shape", shown=shown)
    return _frame("operators_by_shape", "Operators by input shapes", keys, table, ("name", "input_shape"), shown)


def _outermost(trace: TraceTable, calls: Calls, shown: _Shown) -> Frame:
    """Calls without an operator around them, by name: each piece of device and host time stands in one row."""
    roots = np.flatnonzero(calls.parent == MISSING)
    groups = group(calls.name[roots])
    data = {
        "name": trace.strings.take(calls.name[roots][groups.first]),
        "outer_calls": pa.array(groups.count()),
        "device_total_ns": pa.array(groups.sum(calls.device_total_ns[roots])),
        "host_total_ns": pa.array(groups.sum(calls.host_total_ns[roots])),
    }
    table = _with_shares(_with_rest(data, calls.no_operator_ns), "device_total_ns", "host_total_ns")
    keys = ["name", "outer_calls", *(key for key in _SHARED_TOTALS if shown.device or key.startswith("host"))]
    first = keys[2]
    order = [(first, "descending"), ("host_total_ns", "descending"), ("name", "ascending")]
    columns = METRICS.columns(*keys, share=("device_total_ns", "host_total_ns"))
    sort = Sort(first, True)
    return Frame("operators_outermost", "Outermost operators", columns, table.sort_by(order), ("name",), "name", sort)


def _by_stack(trace: TraceTable, calls: Calls, shown: _Shown) -> Frame:
    """Calls with a known stack, by name, shapes and stack; totals leave out calls nested in one of the same name."""
    known = calls.stack != MISSING
    groups = group(calls.name[known], calls.shape[known], calls.stack[known])
    data = _sums(calls, groups, outermost_of(calls.name, calls.spans, calls.parent), known)
    data["name"] = trace.strings.take(calls.name[known][groups.first])
    data["input_shape"] = trace.strings.take(calls.shape[known][groups.first])
    texts = pa.array(calls.stacks, pa.large_string())
    data["call_stack"] = texts.take(pa.array(calls.stack[known][groups.first]))
    keys = ["name", "input_shape", "call_stack", *_columns(shown=shown)]
    keys.remove("has_stack")
    return _frame("stacks", "Call stacks", keys, pa.table(data), ("name", "input_shape", "call_stack"), shown)


def _columns(*names: str, shown: _Shown) -> list[str]:
    device = ["device_self_ns", "device_self_share", "device_total_ns"] if shown.device else []
    runtime = ["runtime_self_ns", "runtime_ratio"] if shown.runtime else []
    matrix = ["matrix_eligible", "matrix_self_ratio", "matrix_total_ratio"] if shown.units else []
    return [
        *names,
        "calls",
        *device,
        "host_self_ns",
        "host_self_share",
        "host_total_ns",
        *runtime,
        *matrix,
        "has_stack",
    ]


def _sums(calls: Calls, groups: Groups, counted: Bool, chosen: Bool | None = None) -> dict[str, pa.Array]:
    """The numeric columns. ``counted`` marks calls whose totals count; ``chosen`` the calls that were grouped."""
    some: Bool | slice = slice(None) if chosen is None else chosen
    once = counted[some]

    def self_sum(values: Int64) -> Int64:
        # Many columns are empty: what no device did, what ran on no matrix unit.
        return groups.sum(values[some]) if values.any() else np.zeros(len(groups), np.int64)

    def total_sum(values: Int64) -> Int64:
        return groups.sum(np.where(once, values[some], 0)) if values.any() else np.zeros(len(groups), np.int64)

    host_self, runtime = self_sum(calls.host_self_ns), self_sum(calls.runtime_self_ns)
    data = {
        "calls": groups.count(),
        "host_self_ns": host_self,
        "host_total_ns": total_sum(calls.host_total_ns),
        "runtime_self_ns": runtime,
        "runtime_ratio": ratio(runtime, host_self + runtime),
        "device_self_ns": self_sum(calls.device_self_ns),
        "device_total_ns": total_sum(calls.device_total_ns),
        "matrix_eligible": groups.any(calls.eligible[some]),
        "matrix_self_ratio": ratio(self_sum(calls.matrix_self_ns), self_sum(calls.kernel_self_ns)),
        "matrix_total_ratio": ratio(total_sum(calls.matrix_total_ns), total_sum(calls.kernel_total_ns)),
    }
    return {key: pa.array(values) for key, values in data.items()}


def _with_rest(data: dict[str, pa.Array], no_operator_ns: int) -> pa.Table:
    """The table, with a row for device time that has no operator."""
    table = pa.table(data)
    if not no_operator_ns:
        return table
    rest = {"name": NO_OPERATOR, "calls": 0, "device_self_ns": no_operator_ns, "device_total_ns": no_operator_ns}
    rest |= {"outer_calls": 0, "host_self_ns": 0, "host_total_ns": 0, "runtime_self_ns": 0, "has_stack": False}
    row = pa.table({f.name: pa.array([rest.get(f.name)], f.type) for f in table.schema})
    return pa.concat_tables([table, row])


def _with_shares(table: pa.Table, *keys: str) -> pa.Table:
    """The table with the part that each row has of the sum of these columns."""
    for key in keys:
        table = table.append_column(key.replace("_ns", "_share"), pa.array(shares(table[key].to_numpy())))
    return table


def _frame(name: str, title: str, keys: list[str], table: pa.Table, row_key: tuple[str, ...], shown: _Shown) -> Frame:
    table = _with_shares(table, "device_self_ns", "host_self_ns")
    first = "device_self_ns" if shown.device else "host_self_ns"
    order = [(first, "descending"), ("host_self_ns", "descending"), *((key, "ascending") for key in row_key)]
    hidden = ("runtime_self_ns", "matrix_eligible", "matrix_total_ratio", "has_stack")
    share = tuple(key for key in keys if key in ("device_self_ns", "host_self_ns"))
    units = shown.units
    titles = {
        "matrix_eligible": f"{units} eligible",
        "matrix_self_ratio": f"{units} self",
        "matrix_total_ratio": f"{units} total",
    }
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*keys, hidden=hidden, share=share, titles=titles),
        data=table.sort_by(order),
        row_key=row_key,
        name_column="name",
        sort=Sort(first, True),
    )


def _left_out(calls: Calls) -> Figures:
    """What Host self of all operators leaves out of runtime calls."""
    runtime, own = int(calls.runtime_self_ns.sum()), int(calls.host_self_ns.sum())
    figures = [METRICS.figure("runtime_self_ns", runtime), METRICS.figure("runtime_ratio", runtime / (runtime + own))]
    return Figures("left_out", "Host self leaves out", "", figures)


def _donuts(frame: Frame, has_device: bool) -> dict[str, Payload]:
    titles = {
        "device_self_ns": "Device self time",
        "device_total_ns": "Device total time",
        "host_self_ns": "Host self time",
        "host_total_ns": "Host total time",
    }
    shown = [key for key in titles if has_device or key.startswith("host")]
    return {key[:-3]: donut(key[:-3], titles[key], frame, key, view="operators") for key in shown}
