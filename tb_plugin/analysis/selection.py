"""Events selected by steps and phase."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.annotations import calls_of, launched_by, looked_into, open_at, starts_inside
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import contains, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import CoverageInfo, WindowInfo

# Labels of steps (None = all), a phase and its name pattern.
Chosen = tuple[tuple[str, ...] | None, str, str]
EVERYTHING: Chosen = (None, "", "")


class Selection(msgspec.Struct, frozen=True, eq=False):
    """A mask of the selected rows, and notes that tell the user what is included in the selection."""

    rows: Bool
    coverage: CoverageInfo
    steps: tuple[str, ...] | None
    phase: str = ""
    pattern: str = ""

    @property
    def chosen(self) -> Chosen:
        """Returns the selection as in ``Params.chosen``."""
        return self.steps, self.phase, self.pattern

    def of(self, trace: TraceTable, *kinds: EventKind) -> Int64:
        """Returns the selected rows that have one of these event kinds."""
        return np.flatnonzero(self.rows & of_kind(trace.kind, *kinds))


def chosen_steps(trace: TraceTable, steps: tuple[str, ...] | None) -> list[int]:
    """Returns the sorted indices of these steps (None: all). Raises BadRequest for an unknown label."""
    if steps is None:
        return list(range(len(trace.steps.label)))
    unknown = sorted(set(steps) - set(trace.steps.label))
    if unknown:
        known = ", ".join(trace.steps.label[:50]) or "none"
        raise BadRequest(f"No such step: {', '.join(unknown)}.", "steps", f"The trace has: {known}.")
    wanted = set(steps)
    return [i for i, label in enumerate(trace.steps.label) if label in wanted]


def steps_of(trace: TraceTable, chosen: tuple[str, ...] | None) -> Steps:
    """Returns the steps with these labels (None: all). Raises BadRequest for an unknown label."""
    return trace.steps.take(chosen_steps(trace, chosen))


@cached_by_argument
def steps_of_rows(trace: TraceTable) -> Int64:
    """Returns the index of the step to which ``select_rows`` attributes each row, and of row -1 (-1 = none)."""
    steps = trace.steps
    if not steps.recorded:
        return np.full(len(trace) + 1, MISSING, np.int64)
    found = np.append(steps.at(trace.start_ns, on_host=True), MISSING)
    launched = np.flatnonzero(trace.launch != MISSING)
    found[launched] = found[launched_by(trace, launched)]
    unlaunched = np.flatnonzero(of_kind(trace.kind, *ON_DEVICE) & (trace.launch == MISSING))
    found[unlaunched] = steps.at(trace.start_ns[unlaunched])
    return found


def select_rows(trace: TraceTable, steps: tuple[str, ...] | None, phase: str = "", pattern: str = "") -> Selection:
    """Returns the host rows that start in these steps, and the device rows that these host rows launch.

    A device row without a recorded launch belongs to the step in which it starts. If ``steps`` is None, all rows
    are selected; if only a window is loaded, all rows in its complete steps. A phase limits the selection to rows
    inside the annotations of the phase. Raises BadRequest for an unknown step or phase.
    """
    chosen = _of_steps(trace, steps)
    if not phase:
        return chosen
    rows = chosen.rows & _of_phase(trace, np.flatnonzero(calls_of(trace, phase, pattern) & looked_into(trace)))
    return Selection(rows, replace(chosen.coverage, phase=phase), steps, phase, pattern)


def _of_phase(trace: TraceTable, calls: Int64) -> Bool:
    """Returns a mask of the host rows inside the calls, and of the device rows that were launched inside the calls."""
    rows = np.zeros(len(trace), np.bool_)
    on_device = of_kind(trace.kind, *ON_DEVICE)
    host = np.flatnonzero(~on_device)
    rows[host] = starts_inside(trace, calls, host)
    placed = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    source = launched_by(trace, placed)
    placed, source = placed[source != MISSING], source[source != MISSING]
    rows[placed] = open_at(trace, calls, trace.track[source], trace.start_ns[source])
    return rows


def _of_steps(trace: TraceTable, steps: tuple[str, ...] | None) -> Selection:
    if steps is None and trace.coverage.full is None:
        window = trace.coverage.end_ns - trace.coverage.start_ns
        everything = np.ones(len(trace), np.bool_)
        return Selection(everything, _coverage(trace, window, None), None)
    indices = chosen_steps(trace, steps)
    host = union(trace.steps.host_start_ns[indices], trace.steps.host_end_ns[indices])
    windows = union(trace.steps.start_ns[indices], trace.steps.end_ns[indices])
    rows = contains(host, trace.start_ns)
    on_device = of_kind(trace.kind, *ON_DEVICE)
    launched = trace.launch != MISSING
    rows[launched] = rows[launched_by(trace, np.flatnonzero(launched))]
    unlaunched = on_device & ~launched
    rows[unlaunched] = contains(windows, trace.start_ns[unlaunched])
    window = int((trace.steps.end_ns[indices] - trace.steps.start_ns[indices]).sum())
    labels = [trace.steps.label[i] for i in indices] if trace.steps.recorded or steps is not None else None
    return Selection(rows, _coverage(trace, window, labels), steps)


def _coverage(trace: TraceTable, window_ns: int, steps: list[str] | None) -> CoverageInfo:
    return CoverageInfo(window_ns, trace.coverage.fraction_read, trace.coverage.complete, steps, window_info(trace))


def window_info(trace: TraceTable) -> WindowInfo | None:
    """Returns a note about the loaded window, None if the entire trace is loaded."""
    covered, whole, report = trace.coverage, trace.coverage.full, trace.report
    if whole is None:
        return None
    labels = trace.steps.label if trace.steps.recorded else ()
    return WindowInfo(
        start_ns=covered.start_ns,
        end_ns=covered.end_ns,
        trace_ns=whole.end_ns,
        first_step=labels[0] if labels else None,
        last_step=labels[-1] if labels else None,
        steps=len(labels),
        trace_steps=len(whole.steps),
        events=report.events_loaded,
        trace_events=report.events_loaded + report.events_outside,
        peak_memory_bytes=whole.peak_memory_bytes,
        budget_bytes=whole.budget_bytes,
    )
