"""Which rows a choice of steps keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.errors import BadRequest
from tb_plugin.payloads import CoverageInfo
from tb_plugin.trace.intervals import contains, union
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.trace.table import TraceTable

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

ON_DEVICE = (*DEVICE_WORK, EventKind.DEVICE_ANNOTATION, EventKind.SYNC)


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows to count, and what to tell the reader about them."""

    rows: Bool
    coverage: CoverageInfo
    steps: tuple[str, ...] | None

    def of(self, trace: TraceTable, *kinds: EventKind) -> Int64:
        """Positions of the chosen rows of these kinds."""
        return np.flatnonzero(self.rows & of_kind(trace.kind, *kinds))


def chosen_steps(trace: TraceTable, steps: tuple[str, ...] | None) -> list[int]:
    """Positions of the steps with these labels, in order. Raises BadRequest when there is none of a label."""
    if steps is None:
        return list(range(len(trace.steps.label)))
    unknown = sorted(set(steps) - set(trace.steps.label))
    if unknown:
        known = ", ".join(trace.steps.label[:50]) or "none"
        raise BadRequest(f"No such step: {', '.join(unknown)}.", "steps", f"The trace has: {known}.")
    wanted = set(steps)
    return [i for i, label in enumerate(trace.steps.label) if label in wanted]


def select_rows(trace: TraceTable, steps: tuple[str, ...] | None) -> Selection:
    """Host rows that begin in the chosen steps on the host, and the device rows that were launched there.

    A device row without a recorded launch belongs to the step in whose window it begins. ``steps`` None = all rows.
    """
    if steps is None:
        window = trace.coverage.end_ns - trace.coverage.start_ns
        everything = np.ones(len(trace), np.bool_)
        return Selection(everything, _coverage(trace, window, None), None)
    indices = chosen_steps(trace, steps)
    host = union(trace.steps.host_start_ns[indices], trace.steps.host_end_ns[indices])
    windows = union(trace.steps.start_ns[indices], trace.steps.end_ns[indices])
    rows = contains(host, trace.start_ns)
    on_device = of_kind(trace.kind, *ON_DEVICE)
    launched = trace.launch != MISSING
    rows[launched] = rows[trace.launch[launched]]
    alone = on_device & ~launched
    rows[alone] = contains(windows, trace.start_ns[alone])
    window = int((trace.steps.end_ns[indices] - trace.steps.start_ns[indices]).sum())
    return Selection(rows, _coverage(trace, window, [trace.steps.label[i] for i in indices]), steps)


def _coverage(trace: TraceTable, window_ns: int, steps: list[str] | None) -> CoverageInfo:
    return CoverageInfo(window_ns, trace.coverage.fraction_read, trace.coverage.complete, steps)
