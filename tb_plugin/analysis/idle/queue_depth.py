"""Launch queue depth of devices over time.

A launch is in the queue from the start of its call to the start of its first work.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.idle.launch_table import launch_table
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.lib.groupby import distinct_values
from tb_plugin.lib.intervals import Ranges, contains, measure, subtract
from tb_plugin.lib.step_function import sum_of_intervals
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

# At most SHALLOW waiting launches: the queue may soon be empty. From FULL on, the next call blocks (a stream takes about
# 1,024).
SHALLOW, FULL = 3, 1_000


class Depth(msgspec.Struct, frozen=True):
    """Queue depth statistics of one device, for the given time ranges."""

    device: int
    mean: float
    p95: int
    starved: float
    """Share of the time during which the queue is empty.

    ``shallow`` is the share during which the depth is 1 to 3. ``blocked`` is the share during which the depth is
    1,000 or more.
    """
    shallow: float
    blocked: float


def queue_depths(trace: TraceTable, windows: Ranges) -> list[Depth]:
    """Returns queue depth statistics for each device that has recorded launches."""
    every, chosen = launch_table(trace), windows
    device = trace.device[every.row]
    found = []
    for each in np.unique(device).tolist():
        # The number of waiting launches of unrecorded work is unknown.
        windows = subtract(chosen, unrecorded_work(trace, each))
        length = measure(windows)
        if not length:
            continue
        mine = device == each
        curve = sum_of_intervals(trace.start_ns[every.call[mine]], trace.start_ns[every.row[mine]])
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
