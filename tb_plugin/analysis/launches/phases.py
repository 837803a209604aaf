"""Launches in three phases: call, queue time and latency."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.launches.recorded import Launches, recorded_launches, usual_latency_ns
from tb_plugin.analysis.launches.unrecorded_work import waits_for_unrecorded
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# From this many waiting launches on, the next call blocks (a stream takes about 1,024).
QUEUE_FULL = 1_000
# A smaller latency is never unusual, however steady the others are.
LEAST_OUTLIER_NS = 20_000


@cached_by_argument
def launch_phases(trace: TraceTable) -> Launches:
    """Returns the call, the queue time and the latency for all device work in the loaded window.

    Work that waits for unrecorded work counts as queued until it starts.
    """
    found, waits = recorded_launches(trace), waits_for_unrecorded(trace)
    if not waits.any():
        return found
    return replace(
        found,
        free_ns=np.where(waits, trace.start_ns[found.row], found.free_ns),
        queue_ns=np.where(waits, found.queue_ns + found.latency_ns, found.queue_ns),
        latency_ns=np.where(waits, 0, found.latency_ns),
        is_queued=found.is_queued | waits,
    )


def usual_latency(trace: TraceTable, device: int) -> Int64:
    """Returns, for each launch, the latency above which it is unusual. The limits are computed from the launches on
    one device.

    Kernels have other limits than copies and memsets. For each of these two groups, there are separate limits for
    queued launches, for graph launches, and for all other launches.
    """
    launches = launch_phases(trace)
    of_device = (trace.device[launches.row] == device) & (launches.call != MISSING)
    is_kernel = trace.kind[launches.row] == EventKind.KERNEL
    limit = np.zeros(len(launches.row), np.int64)
    for kind in (is_kernel, ~is_kernel):
        for alike in (
            launches.is_queued,
            ~launches.is_queued & launches.is_graph,
            ~launches.is_queued & ~launches.is_graph,
        ):
            # Queued work without a gap has no latency to learn from.
            known = of_device & kind & alike & ((launches.latency_ns > 0) | ~launches.is_queued)
            samples = launches.latency_ns[known]
            # One sample does not define what is usual.
            limit[kind & alike] = (
                usual_latency_ns(samples) if len(samples) > 1 else min(usual_latency_ns(samples), LEAST_OUTLIER_NS)
            )
    return limit
