"""Critical path of one rank between its collectives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.critical_path.collectives import PathsTo, paths_to_collectives
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.rank.calls import calls_of

# one row per call of ``calls_of``, and one row per step
PATH_CALLS, PATH_STEPS = "path_calls", "path_steps"


def path_frames(trace: TraceTable) -> dict[str, Frame]:
    """Returns the path to each call and to the end of each step. ``previous`` is the number of the previous call."""
    row = calls_of(trace).row
    on_device = np.flatnonzero(trace.kind[row] == EventKind.KERNEL)
    to_calls, to_steps = paths_to_collectives(trace, row[on_device])
    place = np.full(len(row), MISSING, np.int64)
    place[on_device] = np.arange(len(on_device))
    calls = {key: np.append(values, 0)[place] for key, values in _columns(to_calls, on_device).items()}
    calls["previous"] = np.where(place == MISSING, MISSING, calls["previous"])
    steps = {"end_ns": trace.steps.end_ns, **_columns(to_steps, on_device)}
    tables = {
        PATH_CALLS: pa.table(calls),
        PATH_STEPS: pa.table({"step": pa.array(trace.steps.label, pa.string()), **steps}),
    }
    return {name: Frame(name, name, (), data, (), "") for name, data in tables.items()}


def _columns(paths: PathsTo, on_device: Int64) -> dict[str, Int64]:
    return {
        "previous": np.append(on_device, MISSING)[paths.collective],
        "device_ns": paths.device_ns,
        "host_ns": paths.host_ns,
        "lag_ns": paths.lag_ns,
    }
