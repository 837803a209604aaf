"""The tables of compiled code: its regions, and where it breaks off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.compiled.metrics import METRICS
from tb_plugin.analyses.grouping import Groups, group, sum_by
from tb_plugin.analyses.host_calls import host_calls, sums_of
from tb_plugin.analyses.names import GRAPH, module_label
from tb_plugin.analyses.regions.breaks import breaks_of, number_of, place_of
from tb_plugin.analyses.regions.compiling import cold_calls, compilations_of, guards_of, wrapper_times
from tb_plugin.analyses.regions.found import regions_of
from tb_plugin.analyses.selection import Selection
from tb_plugin.payloads import Sort
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import innermost, nest

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Strings = list[str | None]


def regions_frame(trace: TraceTable, selection: Selection) -> Frame:
    """Returns a row a region that ran or was compiled in the chosen steps, those that took most time first."""
    every = regions_of(trace)
    at = np.flatnonzero(selection.rows[every.row])
    row = every.row[at]
    compiled, guards = compilations_of(trace), guards_of(trace)
    chosen = selection.rows[compiled.row] & (compiled.region != MISSING)
    groups = group(trace.name[row].astype(np.int64))
    number = [number_of(trace, int(name)) for name in trace.name[row[groups.first]]]
    # A region that was only compiled is one, too.
    number += [
        name for i, name in enumerate(compiled.names) if name not in number and (compiled.region[chosen] == i).any()
    ]
    place = {name: i for i, name in enumerate(number)}
    count = len(number)
    of = np.array([place.get(name, MISSING) for name in compiled.names], np.int64)

    def padded(values: npt.NDArray[np.integer]) -> Int64:
        return np.append(values, np.zeros(count - len(values), np.int64)).astype(np.int64)

    sums = {
        key: padded(values) for key, values in sums_of(host_calls(trace, selection, row, groups.of), groups).items()
    }
    cold = cold_calls(trace)[at]
    checked = np.flatnonzero(selection.rows[guards.row])
    led = guards.region[checked]
    to_call = led != MISSING
    to_make = guards.compilation[checked] != MISSING
    where = np.full(len(every.row), MISSING, np.int64)
    where[at] = groups.of
    guard_ns = sum_by(where[led[to_call]], trace.dur_ns[guards.row[checked[to_call]]], count)
    made = compiled.region[guards.compilation[checked[to_make]]]
    guard_ns = guard_ns + sum_by(np.append(of, MISSING)[made], trace.dur_ns[guards.row[checked[to_make]]], count)
    data: dict[str, object] = {
        "region": pa.array(number, pa.string()),
        "compiled_code": _known(trace, every.code[at], groups, count),
        "region_modules": pa.array(_modules(trace, selection, row, groups.of, count), pa.string()),
        "calls": sums["calls"],
        "cold_calls": padded(groups.sum(cold.astype(np.int64))),
        "region_compile_ns": sum_by(of[compiled.region[chosen]], trace.dur_ns[compiled.row[chosen]], count),
        "cold_mean_ns": _mean(trace.dur_ns[row], groups, cold, count),
        "warm_mean_ns": _mean(trace.dur_ns[row], groups, ~cold, count),
        "device_total_ns": sums["device_total_ns"],
        "backward_device_total_ns": sums["backward_device_total_ns"],
        "host_total_ns": sums["host_total_ns"],
        "backward_host_total_ns": sums["backward_host_total_ns"],
        "guard_ns": guard_ns,
        "wrapper_ns": padded(groups.sum(wrapper_times(trace)[at])),
        "graph": _graphs(_known(trace, every.graph[at], groups, count)),
        "backward_graph": _graphs(_known(trace, every.backward[at], groups, count)),
    }
    if not (sums["device_total_ns"].any() or sums["backward_device_total_ns"].any()):
        del data["device_total_ns"], data["backward_device_total_ns"]
    first = "device_total_ns" if "device_total_ns" in data else "host_total_ns"
    return _frame("regions", "Regions", data, ("region",), first)


def breaks_frame(trace: TraceTable, selection: Selection) -> Frame:
    """Returns a row a graph break in the chosen steps, the costliest first."""
    every, regions = breaks_of(trace), regions_of(trace)
    at = np.flatnonzero(selection.rows[regions.row[every.call]])
    call = every.call[at]
    groups = group(every.function[at])
    code = _first_known(regions.code[call], groups)
    data: dict[str, object] = {
        "break_at": pa.array([place_of(trace, int(each)) for each in code], pa.string()),
        "break_from": _numbers(trace, trace.name[regions.row[regions.parent[call]]], groups),
        "break_to": _numbers(trace, trace.name[regions.row[call]], groups),
        "break_calls": groups.count(),
        "break_ns": groups.sum(every.cost_ns[at]),
    }
    return _frame("graph_breaks", "Graph breaks", data, ("break_from", "break_to"), "break_ns")


def _frame(name: str, title: str, data: dict[str, object], key: tuple[str, ...], first: str) -> Frame:
    table = pa.table({column: pa.array(values) for column, values in data.items()})
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*data, share=(first,)),
        data=table.sort_by([(first, "descending"), (key[-1], "ascending")]),
        row_key=key,
        name_column=key[-1],
        sort=Sort(first, True),
    )


def _mean(values: Int64, groups: Groups, chosen: npt.NDArray[np.bool_], count: int) -> pa.Array:
    """Means of the chosen values of each group, null where there is none; rounded to whole nanoseconds."""
    calls = sum_by(groups.of[chosen], np.ones(int(chosen.sum()), np.int64), count)
    total = sum_by(groups.of[chosen], values[chosen], count)
    return pa.array((total + calls // 2) // np.maximum(calls, 1), pa.int64(), mask=calls == 0)


def _first_known(values: Int32, groups: Groups) -> Int64:
    """The first value of each group that is not -1, if there is any."""
    found = np.full(len(groups), MISSING, np.int64)
    known = np.flatnonzero(values != MISSING)[::-1]
    found[groups.of[known]] = values[known]
    return found


def _known(trace: TraceTable, values: Int32, groups: Groups, count: int) -> pa.Array:
    found = np.append(_first_known(values, groups), np.full(count - len(groups), MISSING, np.int64))
    return trace.strings.take(found)


def _graphs(names: pa.Array) -> pa.Array:
    """The keys of graphs by their names; null where none was called."""
    found = [GRAPH.match(name) if name else None for name in names.to_pylist()]
    return pa.array([match and match[1] for match in found], pa.string())


def _modules(trace: TraceTable, selection: Selection, row: Int64, of: Int64, count: int) -> Strings:
    """Names of the innermost modules that are open around the rows of each group, in order of execution."""
    modules = selection.of(trace, EventKind.MODULE)
    track, start, end = trace.track[modules], trace.start_ns[modules], trace.ends(modules)
    owner = innermost(track, start, end, nest(track, start, end).parent, trace.track[row], trace.start_ns[row])
    ran = np.flatnonzero(owner != MISSING)
    names: dict[int, dict[str, None]] = {}
    if len(ran):
        called = modules[owner[ran]]
        for one in np.sort(group(of[ran], trace.name[called].astype(np.int64)).first).tolist():
            label = module_label(trace.strings[int(trace.name[called[one]])])
            names.setdefault(int(of[ran[one]]), {})[label] = None
    return [", ".join(names[place]) if place in names else None for place in range(count)]


def _numbers(trace: TraceTable, names: Int32, groups: Groups) -> pa.Array:
    """Numbers of the regions in each group, in order of execution."""
    found: list[dict[str, None]] = [{} for _ in range(len(groups))]
    for one in np.sort(group(groups.of, names.astype(np.int64)).first).tolist():
        found[int(groups.of[one])][number_of(trace, int(names[one]))] = None
    return pa.array([", ".join(each) for each in found], pa.string())
