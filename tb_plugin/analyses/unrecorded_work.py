"""GPU work that was launched before the recording started."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.busy import device_busy
from tb_plugin.analyses.hardware_streams import hardware_streams
from tb_plugin.analyses.launch_phases import launch_phases, usual
from tb_plugin.trace.intervals import EMPTY, Ranges, subtract
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable

MIN_WAIT_NS = 1_000_000
"""A launch on an idle device takes tens of microseconds; a shorter wait proves nothing."""
TIMES_USUAL = 10


@remembered
def unrecorded_work(trace: TraceTable, device: int) -> Ranges:
    """Returns when a device (position in ``trace.devices``) is busy with work launched before the recording started.

    The first recorded work of a stream proves it: its launch had returned, no recorded event was in its way, nothing began
    on the device meanwhile, and it waited far longer than later launches on an empty queue. All launches since the start are
    recorded, so older work was in the way, from the start on. ``measure`` gives the total.
    """
    launches = launch_phases(trace)
    mine = np.flatnonzero(trace.device[launches.row] == device)
    mine = mine[np.argsort(trace.start_ns[launches.row[mine]], kind="stable")]
    row, latency = launches.row[mine], launches.latency_ns[mine]
    start = trace.start_ns[row]
    empty_queue = (launches.call[mine] != MISSING) & ~launches.is_queued[mine]
    first = np.zeros(len(mine), np.bool_)
    first[np.unique(hardware_streams(trace).of[row], return_index=True)[1]] = True
    # The first work of a stream may wait, so it is no sample of the usual latency.
    limit = max(MIN_WAIT_NS, TIMES_USUAL * usual(latency[empty_queue & ~first]))
    begun_meanwhile = np.searchsorted(start, start) - np.searchsorted(start, launches.free_ns[mine])
    waited = first & empty_queue & (latency > limit) & (begun_meanwhile == 0)
    if not waited.any():
        return EMPTY
    earlier = Ranges(np.array([trace.coverage.start_ns]), start[waited][-1:])
    return subtract(earlier, device_busy(trace).get(device, EMPTY))
