"""Compiled code in modules."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.compiled.regions import called_of, regions_of, wrapped_calls
from tb_plugin.analysis.host_calls import HostCalls, host_calls, sums_of
from tb_plugin.analysis.range_patterns import GRAPH, REGION, module_label
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Groups, first_recorded, group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at
from tb_plugin.payloads import Sort
from tb_plugin.views.modules.metrics import METRICS

TIMES = ("device_total_ns", "backward_device_total_ns", "host_total_ns", "backward_host_total_ns")


class Compiled(msgspec.Struct, frozen=True, eq=False):
    """Selected calls of compiled regions, and the module calls around these region calls (-1 = none in all
    columns).

    ``owner`` is the innermost module call around each region call. If a module call belongs to a wrapped module,
    ``wrapper`` is the call of the wrapper.
    """

    calls: HostCalls
    """Calls of compiled regions. Their keys are the string ids of the region names."""
    code: Int32
    graph: Int32
    backward: Int32
    owner: Int32
    wrapper: Int32

    def __bool__(self) -> bool:
        return bool((self.owner != MISSING).any() or (self.wrapper != MISSING).any())


def compiled_in(trace: TraceTable, selection: Selection, modules: HostCalls) -> Compiled:
    every = regions_of(trace)
    at = np.flatnonzero(selection.rows[every.row])
    row = every.row[at]
    # Replayed calls have no CPU time, so only calls of the trace can contain one.
    ran = np.flatnonzero(~modules.is_replayed)
    spans = modules.spans
    track, start, end, parent = spans.track[ran], spans.start[ran], spans.end[ran], modules.parent[ran]
    return Compiled(
        calls=host_calls(trace, selection, called_of(trace, row)),
        code=every.code[at],
        graph=every.graph[at],
        backward=every.backward[at],
        owner=innermost_at(track, start, end, parent, trace.track[row], trace.start_ns[row]),
        wrapper=wrapped_calls(trace, modules.row[ran], parent),
    )


def compiled_summary(
    trace: TraceTable, modules: HostCalls, compiled: Compiled, groups: Groups
) -> dict[str, list[str | None]]:
    """Returns the columns ``compiled_code`` and ``regions``, with one value per group of module calls."""
    if not compiled:
        return {}
    ran = np.flatnonzero(compiled.owner != MISSING)
    outer = compiled.wrapper[compiled.owner[ran]]
    # A region of a wrapped module also belongs to the wrapper.
    call = np.concatenate((compiled.owner[ran], outer[outer != MISSING]))
    region = np.concatenate((ran, ran[outer != MISSING]))
    node, name = groups.of[call], compiled.calls.key[region]
    regions: dict[int, list[str]] = {}
    code: dict[int, str] = {}
    for one in np.sort(group(node, name).first).tolist() if len(node) else []:
        regions.setdefault(int(node[one]), []).append(_number(trace, int(name[one])))
        if (source := int(compiled.code[region[one]])) != MISSING:
            code.setdefault(int(node[one]), trace.strings[source])
    stood = np.flatnonzero(compiled.wrapper != MISSING)
    places = groups.of[compiled.wrapper[stood]]
    # The name of the wrapped module is more informative than the code of its region.
    for one in group(places).first.tolist() if len(stood) else []:
        code[int(places[one])] = module_label(trace.strings[int(trace.name[modules.row[stood[one]]])])
    return {
        "compiled_code": [code.get(place) for place in range(len(groups))],
        "regions": [", ".join(regions[place]) if place in regions else None for place in range(len(groups))],
    }


def _number(trace: TraceTable, name: int) -> str:
    return trace.strings[name].removeprefix(REGION)


def regions_frame(trace: TraceTable, modules: HostCalls, compiled: Compiled) -> Frame:
    calls = compiled.calls
    groups = group(calls.key)
    sums = sums_of(calls, groups)
    data: dict[str, object] = {
        "region": [_number(trace, int(name)) for name in calls.key[groups.first]],
        "compiled_code": trace.strings.take(first_recorded(compiled.code, groups)),
        "region_modules": _modules_of(trace, modules, compiled, groups),
        "calls": sums["calls"],
        **({"replayed_calls": sums["replayed_calls"]} if len(calls.enclosed) else {}),
        **{key: sums[key] for key in TIMES if sums[key].any() or key == "host_total_ns"},
        "graph": _graphs(trace, first_recorded(compiled.graph, groups)),
        "backward_graph": _graphs(trace, first_recorded(compiled.backward, groups)),
    }
    first = "device_total_ns" if "device_total_ns" in data else "host_total_ns"
    table = pa.table({name: pa.array(values) for name, values in data.items()})
    return Frame(
        name="compiled",
        title="Compiled code",
        columns=METRICS.columns(*data, share=(first,)),
        data=sorted_by(table, [(first, "descending"), ("region", "ascending")]),
        row_key=("region",),
        name_column="region",
        sort=Sort(first, True),
    )


def _modules_of(trace: TraceTable, modules: HostCalls, compiled: Compiled, groups: Groups) -> pa.Array:
    ran = np.flatnonzero(compiled.owner != MISSING)
    call = compiled.owner[ran]
    names: dict[int, list[str]] = {}
    for one in np.sort(group(groups.of[ran], modules.key[call]).first).tolist() if len(ran) else []:
        name = module_label(trace.strings[int(modules.name[call[one]])])
        names.setdefault(int(groups.of[ran[one]]), []).append(name)
    texts = [", ".join(names[place]) if place in names else None for place in range(len(groups))]
    return pa.array(texts, pa.large_string())


def _graphs(trace: TraceTable, names: Int64) -> pa.Array:
    found = [GRAPH.match(trace.strings[int(name)]) if name != MISSING else None for name in names]
    return pa.array([match and match[1] for match in found], pa.string())
