"""How many launches wait for a device, weighted by time: from the begin of the call to the begin of its first work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.launches.launch_table import launched
from tb_plugin.analysis.unrecorded_work import unrecorded_work
from tb_plugin.lib.groupby import distinct_values
from tb_plugin.lib.intervals import Ranges, contains, measure, subtract
from tb_plugin.lib.step_function import stacked
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

SHALLOW, FULL = 3, 1_000
"""Up to so many launches a queue may soon be empty; from so many on the next call waits (a stream takes about 1,024)."""


@dataclass(frozen=True)
class Depth:
    """The queue of one device in some windows of time."""

    device: int
    mean: float
    p95: int
    starved: float
    """Share of the time in which no launch waits, ``shallow`` at most 3, ``blocked`` 1,000 or more."""
    shallow: float
    blocked: float


def queue_depths(trace: TraceTable, windows: Ranges) -> list[Depth]:
    """Returns the queues of the devices for which launches are recorded; none where the windows are empty."""
    every, chosen = launched(trace), windows
    device = trace.device[every.row]
    found = []
    for each in np.unique(device).tolist():
        # Nobody knows how many launches of unrecorded work wait.
        windows = subtract(chosen, unrecorded_work(trace, each))
        length = measure(windows)
        if not length:
            continue
        mine = device == each
        curve = stacked(trace.start_ns[every.call[mine]], trace.start_ns[every.row[mine]])
        time = distinct_values(curve.time_ns, windows.start, windows.end)
        value = np.append(curve.value, curve.before)[np.searchsorted(curve.time_ns, time, side="right") - 1]
        weight = np.where(contains(windows, time), np.diff(time, append=time[-1:]), 0)
        depth = value.astype(np.int64)
        order = np.argsort(depth, kind="stable")
        reached = np.cumsum(weight[order])
        found.append(
            Depth(
                device=each,
                mean=int((depth * weight).sum()) / length,
                p95=int(depth[order][np.searchsorted(reached, -(-95 * length // 100))]),
                starved=int(weight[depth == 0].sum()) / length,
                shallow=int(weight[(depth > 0) & (depth <= SHALLOW)].sum()) / length,
                blocked=int(weight[depth >= FULL].sum()) / length,
            )
        )
    return found
