"""Table of stragglers and delayed ranks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.stragglers.causes import COMPONENTS
from tb_plugin.views.distributed.stragglers.report import Blame, cause_columns, straggler_report, value_or_none

STRAGGLER = {
    "worker": pa.string(), "group": pa.string(), "stands_out": pa.bool_(), "lost_ns": pa.float64(),
    "lost_share": pa.float64(), "late_cause": pa.string(), "late_cause_ns": pa.float64(), "late_kernel": pa.string(),
    "late_pattern": pa.string(),
    "worst_step": pa.string(), "late_steps": pa.int64(), "usual_worker": pa.string(),
    "held_up_by": pa.string(), "held_up_in": pa.string(), "inherited_ns": pa.float64(), "last_share": pa.float64(),
    "lost_low_ns": pa.float64(), "late_how": pa.string(), "late_factor": pa.float64(), "late_cause_share": pa.float64(),
    "collectives_met": pa.int64(), "arrived_last": pa.int64(), "late_median_ns": pa.float64(), "late_p95_ns": pa.float64(),
    "late_z": pa.float64(), "late_q": pa.float64(), **{f"more_{key}_ns": pa.float64() for key in COMPONENTS},
}  # fmt: skip


def straggler_table(data: JobData) -> pa.Table:
    """Returns one row per worker and group with a cost or an inherited delay.

    Repeated stragglers come first, then workers that are late once, then all others. Within each kind, workers are
    sorted by cost. The rows of a worker start with its costliest group.
    """
    if data.is_single:
        return pa.table({key: pa.array([], kind) for key, kind in STRAGGLER.items()})
    report = straggler_report(data)
    found, causes = report.stragglers, report.root_causes
    rows = np.flatnonzero((found.cost_ns > 0) | (causes.inherited_ns > 0))
    worker = found.worker[rows]
    # 0: repeatedly late, 1: once, 2: no straggler.
    kind = np.array([report.is_once(w) if found.pattern[w] else 2 for w in worker.tolist()], np.int64)
    most = np.zeros(len(report.names), np.int64)
    np.maximum.at(most, worker, found.cost_ns[rows])
    rows = rows[np.lexsort((rows, -found.cost_ns[rows], worker, -most[worker], kind))]
    columns: dict[str, list[object]] = {key: [] for key in STRAGGLER}
    for row in rows.tolist():
        for key, value in _row(report, row).items():
            columns[key].append(value)
    return pa.table({key: pa.array(columns[key], kind) for key, kind in STRAGGLER.items()})


def _row(report: Blame, row: int) -> dict[str, object]:
    found, causes = report.stragglers, report.root_causes
    worker = int(found.worker[row])
    stands_out = bool(found.pattern[worker]) and found.main_group(worker) == row
    # Each group sees the same delay, so only the row of the costliest group shows the saving per step.
    cost = found.lost_ns[worker].sum() if stands_out else found.cost_ns[row]
    lost = report.per_step(int(cost))
    by = int(causes.by[row]) if causes.inherited_ns[row] > found.cost_ns[row] else -1
    cells: dict[str, object] = dict.fromkeys(STRAGGLER)
    cells |= {
        "worker": report.names[worker],
        "group": report.groups[int(found.group[row])],
        "stands_out": stands_out,
        "lost_ns": lost,
        "lost_share": lost / report.mean_ns if report.mean_ns else None,
        "lost_low_ns": report.per_step(min(int(found.low_ns[row]), int(found.lost_low_ns[worker].sum()))),
        "collectives_met": int(found.collectives[row]),
        "arrived_last": int(found.last[row]),
        "last_share": float(found.last[row] / max(int(found.collectives[row]), 1)),
        "late_median_ns": float(found.late_ns[row]),
        "late_p95_ns": float(found.late_p95_ns[row]),
        "late_z": value_or_none(found.z[row]),
        "late_q": value_or_none(found.q[row]),
        "inherited_ns": report.per_step(int(causes.inherited_ns[row])),
        "held_up_by": report.names[by] if by >= 0 else None,
        "held_up_in": report.groups[int(causes.group[row])] if by >= 0 else None,
        "usual_worker": report.names[usual] if (usual := int(report.usual[row])) >= 0 else None,
    }
    if stands_out:
        cells["late_pattern"] = report.pattern(worker)
        cells["late_steps"] = int(found.slow[worker].sum())
        cells["worst_step"] = report.labels[int(np.argmax(found.lost_ns[worker]))]
        cells |= cause_columns(report, worker)
    return cells
