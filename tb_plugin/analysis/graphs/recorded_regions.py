"""Scopes that the profiler recorded with replayed work.

They are regions of the program and Python calls that enclose the captured launch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.graphs.scopes import concatenate
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.extra_columns import BACKWARD_PHASE, REGION, REGION_PHASE, REGIONS
from tb_plugin.model.trace.graph_capture import NodeStacks, Scopes, scopes_of_kind
from tb_plugin.model.trace.graph_regions import Region, listed_regions
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


def recorded_scopes(trace: TraceTable, work: Int64, node: Int64, has_python: Bool) -> tuple[Scopes, Int32]:
    """Returns the scopes recorded with replayed rows, and the index of the innermost scope of each row (-1 = none).

    ``node`` contains node ids; their upper bits are the graph id. Where ``has_python`` is set, recorded Python
    calls of the node are ignored.
    """
    regions = np.stack([first_reported_text(trace, (key,), work) for key in (REGION, REGION_PHASE, REGIONS)])
    stacks = trace.captured.stacks
    inner = np.where(has_python, MISSING, _stack_of(stacks, node))
    keys = group(*regions, inner)
    first = keys.first
    said = _regions(trace.strings, *regions[:, first])
    ids = _ids(trace.strings, sorted({name for each in said for name, _ in each}))
    names: list[int] = []
    parents: list[int] = []
    backward: list[bool] = []
    last: list[int] = []
    for above, each in zip(inner[first].tolist(), said, strict=True):
        at = above
        for name, is_backward in each:
            if ids[name] == MISSING:
                continue
            names.append(ids[name])
            parents.append(at)
            backward.append(is_backward)
            at = len(stacks.scopes) + len(names) - 1
        last.append(at)
    none = np.full(len(names), MISSING, np.int32)
    region_scopes = scopes_of_kind(EventKind.ANNOTATION, np.array(names, np.int32), none, np.array(backward, np.bool_))
    scopes = concatenate(stacks.scopes, region_scopes)
    scopes.parent[len(stacks.scopes) :] = parents
    return scopes, np.array(last, np.int32)[keys.of] if len(work) else np.empty(0, np.int32)


def _stack_of(stacks: NodeStacks, node: Int64) -> Int32:
    if not len(stacks.node):
        return np.full(len(node), MISSING, np.int32)
    place = np.minimum(np.searchsorted(stacks.node, node), len(stacks.node) - 1)
    return np.where((stacks.node[place] == node) & (node != MISSING), stacks.scope[place], MISSING).astype(np.int32)


def _regions(strings: StringTable, name: Int32, phase: Int32, listed: Int32) -> list[list[Region]]:
    known = {int(each): strings[int(each)] for each in np.unique(np.concatenate((name, phase, listed)))}
    parsed = {int(each): listed_regions(known[int(each)]) for each in np.unique(listed)}
    found = []
    for region, part, text in zip(name.tolist(), phase.tolist(), listed.tolist(), strict=True):
        single = [(known[region], known[part] == BACKWARD_PHASE)] if known[region] else []
        found.append([*parsed[text], *single])
    return found


def _ids(strings: StringTable, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    places = pc.index_in(pa.array(names, pa.large_string()), strings.array).fill_null(MISSING)
    return dict(zip(names, places.to_pylist(), strict=True))
