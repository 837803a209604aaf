"""Functions shared by the tables of compiled code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.compiled.graph_breaks import number_of
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest
from tb_plugin.payloads import Sort
from tb_plugin.views.compiled.metrics import METRICS

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


def table_frame(
    name: str, title: str, data: dict[str, object], key: tuple[str, ...], first: str, hidden: tuple[str, ...] = ()
) -> Frame:
    """Returns a table of these columns, sorted by column ``first`` in descending order.

    Columns without values are hidden.
    """
    table = pa.table({column: pa.array(values) for column, values in data.items()})
    unknown = tuple(column for column in data if table.num_rows and table[column].null_count == table.num_rows)
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*data, share=(first,), hidden=(*hidden, *unknown)),
        data=table.sort_by([(first, "descending"), (key[-1], "ascending")]),
        row_key=key,
        name_column=key[-1],
        sort=Sort(first, True),
    )


def innermost_modules(trace: TraceTable, selection: Selection, row: Int64, of: Int64, count: int) -> pa.Array:
    """Returns, for each group of rows, the names of the modules that enclose its rows, in order of execution.

    ``row`` may be -1 (none). ``of`` is the group of each row, and ``count`` is the number of groups.
    """
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
    """Returns the region numbers that occur in each group, in order of execution.

    ``names`` has the string ids of region names; -1 = none.
    """
    found: list[dict[str, None]] = [{} for _ in range(len(groups))]
    for one in np.sort(group(groups.of, names.astype(np.int64)).first).tolist():
        if names[one] != MISSING:
            found[int(groups.of[one])][number_of(trace, int(names[one]))] = None
    return pa.array([", ".join(each) or None for each in found], pa.string())
