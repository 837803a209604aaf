"""CPU and device time of operators by name, shapes and stack.

All tables use the same calls (``operator_calls``). The table ``no_operator`` has the device time without an
operator.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.donuts import donut
from tb_plugin.analysis.forest import outermost_of
from tb_plugin.analysis.graphs.attribution import REPLAYED, attribution_shares
from tb_plugin.analysis.matrix_unit import matrix_units
from tb_plugin.analysis.metrics import CHOSEN, SHARED, SUM, define
from tb_plugin.analysis.operator_calls import Calls, operator_calls, reported_calls
from tb_plugin.analysis.phrases import capitalized
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.unattributed_kernels import kernels_without, reason_breakdown, reason_times
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work.operator_work import operator_work
from tb_plugin.analysis.work.rates import COLUMNS as RATE_COLUMNS
from tb_plugin.analysis.work.rates import HIDDEN as HIDDEN_RATES
from tb_plugin.analysis.work.rates import METRICS as RATES
from tb_plugin.analysis.work.rates import NestedWork, nested_work, rates, without_empty
from tb_plugin.analysis.work_answers import METRICS as ANSWER_METRICS
from tb_plugin.analysis.work_answers import answer, operators_answer
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Groups, group, ratio, shares
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Notices, Payload, Sort
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.operators import VIEW

METRICS = SHARED.adding(
    REPLAYED,
    RATES,
    define(
        CHOSEN,
        "ratio",
        {
            "core_self_ratio": ("AI cores, self", "Share of device self time on AI cores."),
            "core_total_ratio": ("AI cores, total", "Share of device total time on AI cores."),
            "matrix_self_ratio": ("Matrix units, self", "Share of self kernel time on matrix units."),
            "matrix_total_ratio": ("Matrix units, total", "Share of total kernel time on matrix units."),
            "runtime_ratio": ("Runtime share", "Runtime call time divided by host self plus runtime call time."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "runtime_self_ns": ("Runtime calls", "Host time of runtime and driver calls made directly.", SUM),
            "core_self_ns": ("AI core time, self", "Self kernel time on AI cores.", SUM),
            "core_total_ns": ("AI core time, total", "Total kernel time on AI cores.", SUM),
        },
    ),
    define(
        CHOSEN,
        "bool",
        {
            "core_eligible": ("AI core eligible", "At least one kernel ran on AI cores."),
            "has_stack": ("Stack", "At least one call has a call stack."),
        },
    ),
)


_SHARED_TOTALS = ("device_total_ns", "device_total_share", "host_total_ns", "host_total_share")
_CORES = ("core_eligible", "core_self_ns", "core_self_ratio", "core_total_ns", "core_total_ratio")


class _Shown(msgspec.Struct, frozen=True):
    device: bool
    units: str
    cores: str
    runtime: bool
    replayed: bool


class Operators(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        stated = reported_calls(trace)
        calls = operator_calls(trace, selection) if stated is None else stated
        has_device = bool(calls.device_total_ns.any() or calls.no_operator_ns)
        kernels = selection.of(trace, EventKind.KERNEL)
        units = matrix_units(trace, kernels) if stated is None else ""
        cores = trace.recorder.kernels.counted_word if has_device else ""
        work = operator_work(trace, *selection.chosen)
        rated = nested_work(trace, work, calls, kernels) if len(work.row) else None
        shown = _Shown(has_device, units, cores, bool(calls.runtime_self_ns.any()), bool(len(calls.enclosed)))
        frames = {
            "operators": _by(calls, shown, "operators", "Operators", ("name",), rated),
            "operators_by_shape": _by(
                calls, shown, "operators_by_shape", "Operators by input shapes", ("name", "input_shape"), rated
            ),
            "operators_outermost": _outermost(calls, shown),
            "stacks": _by(calls, shown, "stacks", "Call stacks", ("name", "input_shape", "call_stack")),
        }
        first = operators_answer(trace, kernels) or _host_answer(frames["operators"])
        payloads: dict[str, Payload] = {"answer": first} if first else {}
        payloads |= _donuts(frames["operators"], frames["operators_outermost"], has_device)
        facts = {"operators.calls": int((~calls.is_replayed).sum()), "operators.names": len(np.unique(calls.name))}
        if has_device:
            times = reason_times(trace, calls.no_operator)
            facts |= {f"operators.no_operator_{reason.name.lower()}_ns": ns for reason, ns in times.items()}
        if calls.no_operator_ns:
            frames["no_operator"] = kernels_without(trace, calls.no_operator)
            payloads["no_operator"] = reason_breakdown(times, METRICS.metric("device_self_ns"))
        if told := attribution_shares(trace, selection.of(trace, *DEVICE_WORK), EventKind.OPERATOR):
            payloads["replayed"] = told
        if shown.runtime:
            payloads["left_out"] = _left_out(calls)
        return Part(
            coverage=selection.coverage,
            facts=facts,
            frames=with_sql(frames, params),
            payloads=payloads,
            layout=(*payloads, "operators"),
        )


def _by(
    calls: Calls, shown: _Shown, name: str, title: str, keys: tuple[str, ...], rated: NestedWork | None = None
) -> Frame:
    by_stack = "call_stack" in keys
    some: Bool | slice = calls.stack != MISSING if by_stack else slice(None)
    ids = {"name": calls.name, "input_shape": calls.shape, "call_stack": calls.stack}
    groups = group(*(ids[key][some] for key in keys))
    counted = outermost_of(calls.name if by_stack else groups.of, calls.spans, calls.parent)
    data = _sums(calls, groups, counted, some)
    found = {} if rated is None else rates(rated.grouped(groups, counted))
    data |= found
    for key in keys:
        first = ids[key][some][groups.first]
        texts = pa.array(calls.stacks, pa.large_string()) if key == "call_stack" else calls.texts
        data[key] = texts.take(pa.array(first) if key == "call_stack" else first)
    columns = without_empty([*keys, *_columns(shown)], found)
    if by_stack:
        return _frame(name, title, columns, pa.table(data), keys, shown)
    data["has_stack"] = pa.array(groups.any(calls.stack != MISSING))
    table = _with_rest(data, calls.no_operator_ns)
    return _frame(name, title, [*columns, "has_stack"], table, keys, shown)


def _outermost(calls: Calls, shown: _Shown) -> Frame:
    """Returns top-level calls by name. Each nanosecond of CPU or device time is in exactly one row."""
    # Reported calls do not say which are top-level.
    roots = np.flatnonzero((calls.parent == MISSING) & ((calls.row != MISSING) | calls.is_replayed))
    groups = group(calls.name[roots])
    data = {
        "name": calls.texts.take(calls.name[roots][groups.first]),
        "outer_calls": pa.array(groups.sum((~calls.is_replayed[roots]).astype(np.int64))),
        "replayed_calls": pa.array(_in_replays(calls, groups, roots)),
        "device_total_ns": pa.array(groups.sum(calls.device_total_ns[roots])),
        "host_total_ns": pa.array(groups.sum(calls.host_total_ns[roots])),
    }
    table = _with_shares(_with_rest(data, calls.no_operator_ns), "device_total_ns", "host_total_ns")
    replayed = ["replayed_calls"] if shown.replayed else []
    keys = [
        "name",
        "outer_calls",
        *replayed,
        *(key for key in _SHARED_TOTALS if shown.device or key.startswith("host")),
    ]
    first = "device_total_ns" if shown.device else "host_total_ns"
    order = [(first, "descending"), ("host_total_ns", "descending"), ("name", "ascending")]
    columns = METRICS.columns(*keys, share=("device_total_ns", "host_total_ns"))
    sort = Sort(first, True)
    return Frame(
        "operators_outermost", "Outermost operators", columns, sorted_by(table, order), ("name",), "name", sort
    )


def _columns(shown: _Shown) -> list[str]:
    device = ["device_self_ns", "device_self_share", "device_total_ns", *RATE_COLUMNS] if shown.device else []
    runtime = ["runtime_self_ns", "runtime_ratio"] if shown.runtime else []
    cores = [*_CORES] if shown.cores else []
    matrix = ["matrix_eligible", "matrix_self_ratio", "matrix_total_ratio"] if shown.units else []
    host = ["host_self_ns", "host_self_share", "host_total_ns"]
    return ["calls", *(["replayed_calls"] if shown.replayed else []), *device, *host, *runtime, *cores, *matrix]


def _sums(calls: Calls, groups: Groups, counted: Bool, some: Bool | slice) -> dict[str, pa.Array]:
    once = counted[some]

    def self_sum(values: Int64) -> Int64:
        # Many columns are empty, for example matrix unit time.
        return groups.sum(values[some]) if values.any() else np.zeros(len(groups), np.int64)

    def total_sum(values: Int64) -> Int64:
        return groups.sum(np.where(once, values[some], 0)) if values.any() else np.zeros(len(groups), np.int64)

    host_self, runtime = self_sum(calls.host_self_ns), self_sum(calls.runtime_self_ns)
    device_self, device_total = self_sum(calls.device_self_ns), total_sum(calls.device_total_ns)
    core_self, core_total = self_sum(calls.core_self_ns), total_sum(calls.core_total_ns)
    data = {
        "calls": groups.sum((~calls.is_replayed[some]).astype(np.int64)),
        "replayed_calls": _in_replays(calls, groups, some),
        "host_self_ns": host_self,
        "host_total_ns": total_sum(calls.host_total_ns),
        "runtime_self_ns": runtime,
        "runtime_ratio": ratio(runtime, host_self + runtime),
        "device_self_ns": device_self,
        "device_total_ns": device_total,
        "core_self_ns": core_self,
        "core_total_ns": core_total,
        "core_eligible": groups.any(calls.core_total_ns[some] > 0),
        "core_self_ratio": ratio(core_self, device_self),
        "core_total_ratio": ratio(core_total, device_total),
        "matrix_eligible": groups.any(calls.eligible[some]),
        "matrix_self_ratio": ratio(self_sum(calls.matrix_self_ns), self_sum(calls.kernel_self_ns)),
        "matrix_total_ratio": ratio(total_sum(calls.matrix_total_ns), total_sum(calls.kernel_total_ns)),
    }
    return {key: pa.array(values) for key, values in data.items()}


def _in_replays(calls: Calls, groups: Groups, grouped: Int64 | Bool | slice) -> Int64:
    of = np.full(len(calls.row), MISSING, np.int64)
    of[grouped] = groups.of
    return calls.enclosed.count(of, len(groups))


def _with_rest(data: dict[str, pa.Array], no_operator_ns: int) -> pa.Table:
    table = pa.table(data)
    if not no_operator_ns:
        return table
    zeros = ("calls", "outer_calls", "replayed_calls", "host_self_ns", "host_total_ns", "runtime_self_ns")
    rest = dict.fromkeys(zeros, 0) | {"name": NO_OPERATOR, "has_stack": False}
    rest |= dict.fromkeys(("device_self_ns", "device_total_ns"), no_operator_ns)
    row = pa.table({f.name: pa.array([rest.get(f.name)], f.type) for f in table.schema})
    return pa.concat_tables([table, row])


def _with_shares(table: pa.Table, *keys: str) -> pa.Table:
    for key in keys:
        table = table.append_column(key.replace("_ns", "_share"), pa.array(shares(table[key].to_numpy())))
    return table


def _frame(name: str, title: str, keys: list[str], table: pa.Table, row_key: tuple[str, ...], shown: _Shown) -> Frame:
    table = _with_shares(table, "device_self_ns", "host_self_ns")
    first = "device_self_ns" if shown.device else "host_self_ns"
    order = [(first, "descending"), ("host_self_ns", "descending"), *((key, "ascending") for key in row_key)]
    hidden: tuple[str, ...] = ("runtime_self_ns", "matrix_eligible", "matrix_total_ratio", "has_stack")
    hidden += HIDDEN_RATES
    hidden += ("core_eligible", "core_self_ns", "core_total_ns", "core_total_ratio")
    hidden += ("matrix_self_ratio",) if shown.cores else ()
    share = tuple(key for key in keys if key in ("device_self_ns", "host_self_ns"))
    units, cores = capitalized(shown.units), shown.cores
    titles = {
        "matrix_eligible": f"{units} eligible",
        "matrix_self_ratio": f"{units} self",
        "matrix_total_ratio": f"{units} total",
        "core_eligible": f"{cores} eligible",
        "core_self_ns": f"On {cores}, self",
        "core_total_ns": f"On {cores}, total",
        "core_self_ratio": f"{cores} self",
        "core_total_ratio": f"{cores} total",
    }
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*keys, hidden=hidden, share=share, titles=titles),
        data=sorted_by(table, order),
        row_key=row_key,
        name_column="name",
        sort=Sort(first, True),
    )


def _host_answer(by_name: Frame) -> Notices | None:
    total = int(pc.sum(by_name.data["host_self_ns"]).as_py() or 0)
    if not total:
        return None
    row = sorted_by(by_name.data, [("host_self_ns", "descending")]).slice(0, 1).to_pylist()[0]
    text = "{leading_name} takes the most CPU self time of all operators: {leading_ns} ({leading_ratio})."
    values = {"leading_name": row["name"], "leading_ns": row["host_self_ns"]}
    return answer(
        "operators_answer", text, ANSWER_METRICS.figures(values | {"leading_ratio": row["host_self_ns"] / total})
    )


def _left_out(calls: Calls) -> Figures:
    runtime, own = int(calls.runtime_self_ns.sum()), int(calls.host_self_ns.sum())
    figures = [METRICS.figure("runtime_self_ns", runtime), METRICS.figure("runtime_ratio", runtime / (runtime + own))]
    return Figures("left_out", "Excluded from host self", "", figures)


def _donuts(by_name: Frame, outermost: Frame, has_device: bool) -> dict[str, Payload]:
    titles = {
        "device_self_ns": "Device self time",
        "device_total_ns": "Device total time of top-level operators",
        "host_self_ns": "Host self time",
        "host_total_ns": "Host total time of top-level operators",
    }
    shown = [key for key in titles if has_device or key.startswith("host")]
    found: dict[str, Payload] = {}
    for key in shown:
        if key.endswith("_self_ns"):
            found[key[:-3]] = donut(key[:-3], titles[key], by_name, key, view="operators")
        elif outermost.data.num_rows or not by_name.data.num_rows:  # reported calls do not say which are top-level
            found[key[:-3]] = donut(key[:-3], titles[key], outermost, key, "operators", outermost.name)
    return found
