"""Statistics of the durations of groups of kernels, the same in every table of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.groupby import Groups, ratio, shares

Int64 = npt.NDArray[np.int64]

STATISTICS = ("calls", "total_ns", "total_share", "mean_ns", "min_ns", "max_ns", "p50_ns", "p99_ns")


def statistics(groups: Groups, dur: Int64) -> dict[str, pa.Array]:
    """Returns the columns ``STATISTICS`` of groups of durations."""
    calls, total = groups.count(), groups.sum(dur)
    p50, p99 = groups.percentiles(dur, 0.5, 0.99)
    data = {
        "calls": calls,
        "total_ns": total,
        "total_share": shares(total),
        "mean_ns": ratio(total, calls),
        "min_ns": groups.min(dur),
        "max_ns": groups.max(dur),
        "p50_ns": p50,
        "p99_ns": p99,
    }
    return {key: pa.array(values) for key, values in data.items()}
