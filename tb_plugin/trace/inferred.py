"""Steps by what repeats: replays of graphs, where nothing marks an iteration. Never of a trace that launches no graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.rows import Rows
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind
from tb_plugin.trace.served import Served
from tb_plugin.trace.steps import INFERRED, DeviceWork, find_steps
from tb_plugin.trace.table import CallNames, Steps

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

REPEATS = 4
"""A period has to come so often at least."""
LONGEST = 256
"""So many graphs in one iteration at most."""
LEAST_WORK = 8
"""Graphs with less device work on average say nothing about iterations."""


def inferred_steps(rows: Rows, calls: CallNames, launch: Int32, work: DeviceWork) -> Steps:
    """Returns a step from each launch of the graph that begins an iteration to the next; none where that is not certain."""
    names = calls.name[calls.role == CallRole.GRAPH]
    if not len(names):
        return Steps()
    runtime = rows.of(EventKind.RUNTIME)
    replays = runtime[np.isin(rows.name[runtime], names)]
    if len(replays) < REPEATS:
        return Steps()
    replays = replays[rows.track[replays] == np.bincount(rows.track[replays]).argmax()]
    by = launch[rows.of(*DEVICE_WORK)]
    count = np.bincount(by[by != MISSING], minlength=len(rows.start))[replays]
    replays, count = replays[count > 0], count[count > 0]
    period = _period(count)
    if not period or count.mean() < LEAST_WORK:
        return Steps()
    begin = rows.start[replays[::period]]
    # Nobody sees where the last one ends: it has no next.
    labels = [str(number + 1) for number in range(len(begin) - 1)]
    return find_steps(labels, begin[:-1], begin[1:], work, found=INFERRED, served=Served.unknown(len(labels)))


def _period(count: Int64) -> int:
    """The shortest period with which the sizes of replays repeat without an exception, 0 for none."""
    for period in range(1, min(LONGEST, len(count) // REPEATS) + 1):
        if (count[period:] == count[:-period]).all():
            return period
    return 0
