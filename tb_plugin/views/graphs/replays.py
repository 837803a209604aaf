"""Selected graph replays and the device work of the replays."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.replays import Replays, replays_of
from tb_plugin.analysis.graphs.scopes import scopes_around
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import measure_by, measure_within
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable


class Work(msgspec.Struct, frozen=True, eq=False):
    """Device work of the selected replays, sorted by replay and node (-1 = missing)."""

    row: Int64
    of: Int64
    """Index of the replay in ``SelectedReplays``."""
    graph: Int64
    node: Int32
    """As ``Replays.node``."""
    dur_ns: Int64
    way: UInt8
    """How the work was matched to an operator, or else to a module or phase (``Way``)."""
    operator: Int32
    """Index of the operator in ``scopes``."""
    module: Int32
    """Index of the module or annotated region in ``scopes``."""


class SelectedReplays(msgspec.Struct, frozen=True, eq=False):
    """Selected graph replays, sorted by time (-1 = missing)."""

    replays: Replays
    graph: Int64
    call: Int64
    start_ns: Int64
    end_ns: Int64
    nodes: Int64
    device_ns: Int64
    node_gaps_ns: Int64
    gap_ns: Int64
    launch_ns: Int64
    work: Work
    scopes: Scopes

    def __len__(self) -> int:
        return len(self.graph)


def selected_replays(trace: TraceTable, chosen: Bool) -> SelectedReplays:
    replays = replays_of(trace)
    size = np.diff(replays.begin)
    every = np.repeat(np.arange(len(replays)), size)
    keep = np.flatnonzero(chosen[replays.work])
    numbers, of = np.unique(every[keep], return_inverse=True)
    row = replays.work[keep].astype(np.int64)
    work, scopes = _known(trace, replays, keep, row, of.astype(np.int64), every)
    count = len(numbers)
    start = np.full(count, np.iinfo(np.int64).max)
    end = np.zeros(count, np.int64)
    np.minimum.at(start, of, trace.start_ns[row])
    np.maximum.at(end, of, trace.ends(row))
    busy = measure_by(of.astype(np.int64), trace.start_ns[row], trace.ends(row), count)
    call = replays.call[numbers].astype(np.int64)
    return SelectedReplays(
        replays=replays,
        graph=replays.graph[numbers].astype(np.int64),
        call=call,
        start_ns=start,
        end_ns=end,
        nodes=np.bincount(of, minlength=count).astype(np.int64),
        device_ns=sum_by(of, trace.dur_ns[row], count),
        node_gaps_ns=end - start - busy,
        gap_ns=_gaps(trace, row, of, start, end),
        launch_ns=np.where(call == MISSING, MISSING, trace.dur_ns[call]) if len(call) else call,
        work=work,
        scopes=scopes,
    )


def _known(
    trace: TraceTable, replays: Replays, keep: Int64, row: Int64, of: Int64, every: Int64
) -> tuple[Work, Scopes]:
    origins = origins_of(trace)
    place = np.searchsorted(origins.work, row)
    scope, scopes = origins.scope[place], origins.scopes
    operator = scopes.nearest(EventKind.OPERATOR)[scope]
    module = scopes.nearest(EventKind.MODULE, EventKind.ANNOTATION)[scope]
    around = scopes_around(trace, launched_by(trace, row))[1]
    is_enclosed = (around != MISSING) | (trace.operator[row] != MISSING)
    way = np.where(is_enclosed, Way.GRAPH, Way.NONE)
    way = np.where(module != MISSING, origins.module_way[place], way)
    way = np.where(operator != MISSING, origins.way[place], way)
    work = Work(
        row=row,
        of=of,
        graph=replays.graph[every[keep]].astype(np.int64),
        node=replays.node[keep],
        dur_ns=trace.dur_ns[row],
        way=way.astype(np.uint8),
        operator=operator,
        module=module,
    )
    return work, scopes


def _gaps(trace: TraceTable, row: Int64, of: Int64, start: Int64, end: Int64) -> Int64:
    """Returns the device's idle time between each replay and the previous replay (-1 for the first replay)."""
    found = np.full(len(start), MISSING, np.int64)
    device = np.full(len(start), MISSING, np.int64)
    device[of[::-1]] = trace.device[row[::-1]]
    for number, busy in device_occupied(trace).items():
        mine = np.flatnonzero(device == number)
        mine = mine[np.argsort(start[mine], kind="stable")]
        if len(mine) > 1:
            before = np.minimum(np.maximum.accumulate(end[mine])[:-1], start[mine[1:]])
            found[mine[1:]] = start[mine[1:]] - before - measure_within(busy, before, start[mine[1:]])
    return found


def labels_of(replays: Replays) -> list[str]:
    """Returns the name of each graph: the recorded id if it is unique, otherwise the graph's number."""
    recorded = replays.graphs.recorded.tolist()
    times = Counter(recorded)
    return [
        str(number) if number != MISSING and times[number] == 1 else f"#{place + 1}"
        for place, number in enumerate(recorded)
    ]


def time_by_way(work: Work) -> dict[int, int]:
    """Returns the device time for each ``Way`` of matching work. The times add up to the total device time."""
    return dict(enumerate(sum_by(work.way, work.dur_ns, len(Way)).tolist()))
