"""Table of stragglers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.stragglers.causes import COMPONENTS
from tb_plugin.views.distributed.stragglers.report import Blame, cause_columns, straggler_report

STRAGGLER = {
    "worker": pa.string(), "group": pa.string(), "stands_out": pa.bool_(), "lost_ns": pa.float64(),
    "lost_share": pa.float64(), "late_cause": pa.string(), "late_cause_ns": pa.float64(), "late_kernel": pa.string(),
    "late_pattern": pa.string(), "worst_step": pa.string(), "late_steps": pa.int64(), "usual_worker": pa.string(),
    "held_up_in": pa.string(), "last_share": pa.float64(), "late_how": pa.string(), "late_factor": pa.float64(),
    "late_cause_share": pa.float64(), "collectives_met": pa.int64(), "arrived_last": pa.int64(),
    "late_median_ns": pa.float64(), **{f"more_{key}_ns": pa.float64() for key in COMPONENTS},
}  # fmt: skip


def straggler_table(data: JobData) -> pa.Table:
    """Returns one row per worker and group with a cost.

    Repeated stragglers come first, then workers that are late once, then all other workers. Each of the three
    sections is sorted by cost. The first row of a worker is its costliest group.
    """
    if data.is_single:
        return pa.table({key: pa.array([], kind) for key, kind in STRAGGLER.items()})
    report = straggler_report(data)
    found = report.stragglers
    rows = np.flatnonzero(found.cost_ns > 0)
    worker = found.worker[rows]
    # 0: repeatedly late, 1: once, 2: no straggler.
    kind = np.array([report.is_once(w) if found.pattern[w] else 2 for w in worker.tolist()], np.int64)
    most = np.zeros(len(report.names), np.int64)
    np.maximum.at(most, worker, found.cost_ns[rows])
    rows = rows[np.lexsort((rows, -found.cost_ns[rows], worker, -most[worker], kind))]
    cells = [_row(report, row) for row in rows.tolist()]
    return pa.table({key: pa.array([row.get(key) for row in cells], kind) for key, kind in STRAGGLER.items()})


def _row(report: Blame, row: int) -> dict[str, object]:
    found, worker = report.stragglers, int(report.stragglers.worker[row])
    stands_out = bool(found.pattern[worker]) and found.main_group(worker) == row
    # Each group sees the same delay, so only the row of the costliest group shows the saving per step.
    lost = report.lost(worker) if stands_out else report.per_step(int(found.cost_ns[row]))
    cells: dict[str, object] = {
        "worker": report.names[worker],
        "group": report.groups[int(found.group[row])],
        "stands_out": stands_out,
        "lost_ns": lost if report.has_costs else None,
        "lost_share": lost / report.mean_ns if report.has_costs else None,
        "collectives_met": int(found.collectives[row]),
        "arrived_last": int(found.last[row]),
        "last_share": float(found.last[row] / max(int(found.collectives[row]), 1)),
        "late_median_ns": float(found.late_ns[row]),
        "usual_worker": report.names[usual] if (usual := int(report.usual[row])) >= 0 else None,
    }
    if stands_out:
        cells["late_pattern"] = report.pattern(worker)
        cells["late_steps"] = int(found.slow[worker].sum())
        cells["worst_step"] = report.labels[int(np.argmax(found.lost_ns[worker]))]
        cells |= cause_columns(report, worker)
    return cells
