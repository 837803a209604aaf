"""Tables of compiled code: regions, graph breaks, kernels and steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.compiled.compiling import cold_calls, compilations_of, guards_of, wrapper_times
from tb_plugin.analysis.compiled.graph_breaks import breaks_of, number_of, place_of
from tb_plugin.analysis.compiled.regions import called_of, regions_of
from tb_plugin.analysis.host_calls import HostCalls, host_calls, sums_of
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.range_patterns import GRAPH, module_label
from tb_plugin.analysis.selection import Selection, steps_of
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Groups, first_recorded, group, ratio, sum_by
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest
from tb_plugin.payloads import Sort
from tb_plugin.views.compiled.generated_kernels import generated_kernels, read_name
from tb_plugin.views.compiled.metrics import METRICS


def region_calls(trace: TraceTable, selection: Selection) -> HostCalls:
    every = regions_of(trace)
    return host_calls(trace, selection, called_of(trace, every.row[selection.rows[every.row]]))


def regions_frame(trace: TraceTable, selection: Selection, calls: HostCalls) -> Frame:
    """Returns one row per region that ran or was compiled in the selected steps, longest first."""
    every = regions_of(trace)
    at = np.flatnonzero(selection.rows[every.row])
    row = every.row[at]
    compiled, guards = compilations_of(trace), guards_of(trace)
    chosen = selection.rows[compiled.row] & (compiled.region != MISSING)
    groups = group(trace.name[row].astype(np.int64))
    number = [number_of(trace, int(name)) for name in trace.name[row[groups.first]]]
    # Include regions that were only compiled.
    number += [compiled.names[i] for i in np.unique(compiled.region[chosen]).tolist()]
    # Include regions that only exist in a capture.
    keyed = group(calls.key)
    named = [number_of(trace, int(name)) for name in calls.key[keyed.first]]
    number = list(dict.fromkeys([*number, *named]))
    place = {name: i for i, name in enumerate(number)}
    count = len(number)
    own = np.array([place[name] for name in named], np.int64)
    of = np.array([place.get(name, MISSING) for name in compiled.names], np.int64)

    def padded(values: npt.NDArray[np.integer]) -> Int64:
        return np.append(values, np.zeros(count - len(values), np.int64)).astype(np.int64)

    sums = {key: sum_by(own, values, count) for key, values in sums_of(calls, keyed).items()}
    cold = cold_calls(trace)[at]
    checked = np.flatnonzero(selection.rows[guards.row])
    led = guards.region[checked]
    to_call = led != MISSING
    to_make = guards.compilation[checked] != MISSING
    where = np.full(len(every.row), MISSING, np.int64)
    where[at] = groups.of
    guard_ns = sum_by(where[led[to_call]], trace.dur_ns[guards.row[checked[to_call]]], count)
    compiled_region = compiled.region[guards.compilation[checked[to_make]]]
    guard_ns = guard_ns + sum_by(
        np.append(of, MISSING)[compiled_region], trace.dur_ns[guards.row[checked[to_make]]], count
    )
    data: dict[str, object] = {
        "region": pa.array(number, pa.string()),
        "compiled_code": _known(trace, every.code[at], groups, count),
        "region_modules": innermost_modules(trace, selection, row, groups.of, count),
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
    return table_frame("regions", "Regions", data, ("region",), first, hidden=("graph", "backward_graph"))


def breaks_frame(trace: TraceTable, selection: Selection) -> Frame:
    """Returns one row per graph break in the selected steps, costliest first."""
    every, regions = breaks_of(trace), regions_of(trace)
    at = np.flatnonzero(selection.rows[regions.row[every.call]])
    call = every.call[at]
    groups = group(every.function[at])
    code = first_recorded(regions.code[call], groups)
    data: dict[str, object] = {
        "break_to": numbers_of(trace, trace.name[regions.row[call]], groups),
        "break_at": pa.array([place_of(trace, int(each)) for each in code], pa.string()),
        "break_from": numbers_of(trace, trace.name[regions.row[regions.parent[call]]], groups),
        "break_calls": groups.count(),
        "break_ns": groups.sum(every.cost_ns[at]),
    }
    return table_frame("graph_breaks", "Graph breaks", data, ("break_from", "break_to"), "break_ns")


def _mean(values: Int64, groups: Groups, chosen: npt.NDArray[np.bool_], count: int) -> pa.Array:
    calls = sum_by(groups.of[chosen], np.ones(int(chosen.sum()), np.int64), count)
    total = sum_by(groups.of[chosen], values[chosen], count)
    return pa.array(total / np.maximum(calls, 1), mask=calls == 0)


def _known(trace: TraceTable, values: Int32, groups: Groups, count: int) -> pa.Array:
    found = np.append(first_recorded(values, groups), np.full(count - len(groups), MISSING, np.int64))
    return trace.strings.take(found)


def _graphs(names: pa.Array) -> pa.Array:
    found = [GRAPH.match(name) if name else None for name in names.to_pylist()]
    return pa.array([match and match[1] for match in found], pa.string())


def kernels_frame(trace: TraceTable, selection: Selection) -> Frame:
    """Returns one row per generated kernel that ran in the selected steps, longest first."""
    every, regions = generated_kernels(trace), regions_of(trace)
    at = np.flatnonzero(selection.rows[every.row])
    row = every.row[at]
    groups = group(trace.name[row].astype(np.int64))
    texts = trace.strings.take(trace.name[row[groups.first]]).to_pylist()
    named = [read_name(trace.recorder.compiled, text) for text in texts]
    on_host = trace.kind[row] != EventKind.KERNEL
    calls, runs = groups.sum(on_host.astype(np.int64)), groups.sum((~on_host).astype(np.int64))
    device = groups.sum(np.where(on_host, 0, trace.dur_ns[row]))
    region = every.region[at]
    names = np.where(region == MISSING, MISSING, np.append(trace.name[regions.row], MISSING)[region])
    data: dict[str, object] = {
        "generated_kernel": pa.array(texts, pa.string()),
        "kernel_kind": pa.array([each and each.kind for each in named], pa.string()),
        "fused_operators": pa.array([", ".join(each.operators) if each else None for each in named], pa.string()),
        "kernel_launches": np.where(runs > 0, runs, calls),
        "kernel_device_ns": device,
        "kernel_host_ns": groups.sum(np.where(on_host, trace.dur_ns[row], 0)),
        "region_numbers": numbers_of(trace, names, groups),
        "kernel_modules": innermost_modules(trace, selection, every.origin[at], groups.of, len(groups)),
        "kernel_file": _files(trace, row, groups),
    }
    if not runs.any():
        del data["kernel_device_ns"]
    if data["kernel_file"].null_count == len(groups):  # type: ignore[attr-defined]
        del data["kernel_file"]
    first = "kernel_device_ns" if "kernel_device_ns" in data else "kernel_host_ns"
    return table_frame("generated_kernels", "Generated kernels", data, ("generated_kernel",), first)


def _files(trace: TraceTable, row: Int64, groups: Groups) -> pa.Array:
    key = trace.recorder.compiled.file
    texts = first_reported_text(trace, (key,) if key else (), row)
    found = np.full(len(groups), MISSING, np.int64)
    known = np.flatnonzero(texts != MISSING)[::-1]
    found[groups.of[known]] = texts[known]
    return trace.strings.take(found)


def steps_frame(trace: TraceTable, chosen: tuple[str, ...] | None) -> Frame:
    steps = steps_of(trace, chosen)
    steps = steps if steps.recorded else steps.take([])
    compilations, guards, regions = compilations_of(trace), guards_of(trace), regions_of(trace)
    begin, end = steps.host_start_ns, steps.host_end_ns
    compiling = measure_within(union(trace.start_ns[compilations.row], trace.ends(compilations.row)), begin, end)

    def within(row: Int64, values: Int64) -> Int64:
        at = steps.at(trace.start_ns[row], on_host=True)
        return sum_by(at[at != MISSING], values[at != MISSING], len(steps.label))

    data = {
        "step": pa.array(steps.label, pa.string()),
        "compiling_in_step_ns": pa.array(compiling),
        "compiling_ratio": pa.array(ratio(compiling, end - begin)),
        "compilations": pa.array(within(compilations.row, np.ones(len(compilations.row), np.int64))),
        "calls": pa.array(within(regions.row, np.ones(len(regions.row), np.int64))),
        "guard_ns": pa.array(within(guards.row, trace.dur_ns[guards.row])),
        "wrapper_ns": pa.array(within(regions.row, wrapper_times(trace))),
    }
    return Frame(
        name="compiled_steps",
        title="Compilation by step",
        columns=METRICS.columns(*data, share=("compiling_in_step_ns",)),
        data=pa.table(data),
        row_key=("step",),
        name_column="step",
    )


def table_frame(
    name: str, title: str, data: dict[str, object], key: tuple[str, ...], first: str, hidden: tuple[str, ...] = ()
) -> Frame:
    """Returns ``data`` sorted by column ``first``, descending. Columns without values are hidden."""
    table = pa.table({column: pa.array(values) for column, values in data.items()})
    unknown = tuple(column for column in data if table.num_rows and table[column].null_count == table.num_rows)
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*data, share=(first,), hidden=(*hidden, *unknown)),
        data=sorted_by(table, [(first, "descending"), (key[-1], "ascending")]),
        row_key=key,
        name_column=key[-1],
        sort=Sort(first, True),
    )


def innermost_modules(trace: TraceTable, selection: Selection, row: Int64, of: Int64, count: int) -> pa.Array:
    """Returns the modules around the rows (-1 = none) of each of ``count`` groups, in order of execution."""
    modules = selection.of(trace, EventKind.MODULE)
    track, start, end = trace.track[modules], trace.start_ns[modules], trace.ends(modules)
    owner = np.full(len(row), MISSING, np.int32)
    at = row[row != MISSING]
    parent = nest(track, start, end).parent
    owner[row != MISSING] = innermost_at(track, start, end, parent, trace.track[at], trace.start_ns[at])
    ran = np.flatnonzero(owner != MISSING)
    names: dict[int, dict[str, None]] = {}
    if len(ran):
        called = modules[owner[ran]]
        for one in np.sort(group(of[ran], trace.name[called].astype(np.int64)).first).tolist():
            label = module_label(trace.strings[int(trace.name[called[one]])])
            names.setdefault(int(of[ran[one]]), {})[label] = None
    return pa.array([", ".join(names[place]) if place in names else None for place in range(count)], pa.string())


def numbers_of(trace: TraceTable, names: npt.NDArray[np.integer], groups: Groups) -> pa.Array:
    """Returns the region numbers of each group. ``names`` contains string ids of regions (-1 = none)."""
    found: list[dict[str, None]] = [{} for _ in range(len(groups))]
    for one in np.sort(group(groups.of, names.astype(np.int64)).first).tolist():
        if names[one] != MISSING:
            found[int(groups.of[one])][number_of(trace, int(names[one]))] = None
    return pa.array([", ".join(each) or None for each in found], pa.string())
