"""Steps of inference servers: work, gaps, tokens, steady state."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.busy_intervals import covered_work, device_busy
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import Ranges, join, measure_by, measure_within
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode, Served
from tb_plugin.model.trace.steps.windows import INFERRED
from tb_plugin.model.trace.table import TraceTable

# Maximum relative difference of batch sizes in a steady run from that of its first step.
ALIKE = 0.1
# A step is unusual if it exceeds the median by FAR median absolute deviations and by this share.
FAR, BEYOND = 8, 0.2
# Minimum steps of a steady state, and minimum similar steps to define what is usual.
FEWEST = 3


class ServedSteps(msgspec.Struct, frozen=True, eq=False):
    """Measurements of all steps in a trace. The steps are sorted by time."""

    row: Int64
    """Rows of the device work that belongs to steps. ``step`` contains the index of each row's step."""
    step: Int64
    first_ns: Int64
    """Start of the first device work in each step. ``last_ns`` is the end of the last device work. -1 = no work."""
    last_ns: Int64
    busy_ns: Int64
    gap_ns: Int64
    """Idle time between the device work of consecutive decode steps, -1 for other steps."""
    period_ns: Int64
    """Time from the start of each step to the start of the next step. -1 for the last step."""
    work_ns: Int64
    """Part of ``period_ns`` during which devices are busy with work of any step. -1 for the last step."""
    unrecorded_ns: Int64
    """Time between the start of each step and the start of the next step during which devices run only unrecorded work."""
    is_unusual: Bool
    """Whether the step is a decode step that takes much longer than other decode steps with a similar batch size."""
    steady: tuple[int, int]
    """Indices [start, end) of the steps in steady state. Empty if there is no steady state."""


def is_served(trace: TraceTable) -> bool:
    """Returns whether the steps have a mode (prefill or decode) or were inferred from repeated work."""
    return trace.steps.source == INFERRED or bool((trace.steps.served.mode != Mode.UNKNOWN).any())


def in_mode(trace: TraceTable, mode: Mode) -> Bool:
    """Returns, for each step, whether its mode is ``mode``."""
    found: Bool = trace.steps.served.mode == mode
    return found


@cached_by_argument
def served_steps(trace: TraceTable) -> ServedSteps:
    """Returns the measurements of all steps.

    Device work belongs to the step that contains its launch. If the launch is not recorded, the work belongs to the
    step in which it starts.
    """
    steps = trace.steps
    count = len(steps.label)
    rows = covered_work(trace)
    at = launched_by(trace, rows)
    unplaced = at == MISSING
    step = steps.at(np.where(unplaced, MISSING, trace.start_ns[at]), on_host=True)
    step[unplaced] = steps.at(trace.start_ns[rows[unplaced]])
    rows, step = rows[step != MISSING], step[step != MISSING]
    start, end = trace.start_ns[rows], trace.ends(rows)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, MISSING, np.int64)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, end)
    first = np.where(last == MISSING, MISSING, first)
    period, work = np.full(count, MISSING, np.int64), np.full(count, MISSING, np.int64)
    period[:-1] = np.diff(steps.start_ns)
    works, unrecorded = join(*device_busy(trace).values()), any_unrecorded(trace)
    until = np.append(steps.start_ns[1:], steps.end_ns[-1:])
    earlier = measure_within(unrecorded, steps.start_ns, until)
    work[:-1] = measure_within(works, steps.start_ns[:-1], steps.start_ns[1:])
    decodes = in_mode(trace, Mode.DECODE)
    unusual = _unusual(np.where(period == MISSING, MISSING, period - earlier), decodes, steps.served.batch)
    return ServedSteps(
        rows,
        step,
        first,
        last,
        measure_by(step, start, end, count),
        _gaps(join(works, unrecorded), first, last, decodes),
        period,
        work,
        earlier,
        unusual,
        _steady(decodes & ~unusual & (earlier == 0), steps.served, steps.end_ns - steps.start_ns),
    )


def _gaps(works: Ranges, first: Int64, last: Int64, decodes: Bool) -> Int64:
    """Returns the idle time between the device work of consecutive decode steps."""
    gap = np.full(len(first), MISSING, np.int64)
    if len(first) < 2:
        return gap
    both = decodes[1:] & decodes[:-1] & (first[1:] != MISSING) & (last[:-1] != MISSING)
    begin, end = last[:-1], np.maximum(first[1:], last[:-1])
    gap[1:] = np.where(both, end - begin - measure_within(works, begin, end), MISSING)
    return gap


def _unusual(period: Int64, decodes: Bool, batch: Int64) -> Bool:
    """Returns decode steps (not the last) far above the median of those with similar batch sizes."""
    found = np.zeros(len(period), np.bool_)
    known = decodes & (period != MISSING)
    at = np.flatnonzero(known)
    if not len(at):
        return found
    order = at[np.argsort(batch[at], kind="stable")]
    sizes = batch[order]
    for size in np.unique(sizes).tolist():
        # Sorted, including -1 (unknown): those are compared with each other.
        low, high = np.searchsorted(sizes, sorted((size * (1 - ALIKE), size * (1 + ALIKE))), side="left")
        alike = period[order[low : max(high, np.searchsorted(sizes, size, side="right"))]]
        if len(alike) < FEWEST:
            continue
        median = np.median(alike)
        limit = median + max(FAR * float(np.median(np.abs(alike - median))), BEYOND * median)
        found |= known & (batch == size) & (period > limit)
    return found


def _steady(usual: Bool, served: Served, time: Int64) -> tuple[int, int]:
    """Returns the sequence of consecutive decode steps that generates the most tokens. Its steps have similar batch
    sizes and none of them is unusual.

    If several sequences generate equally many tokens, returns the longest of them. If several are equally long,
    returns the first.
    """
    runs, begin, batch = [(0, 0)], 0, served.batch
    for i, good in enumerate(usual.tolist()):  # steps are few, and each run depends on its start
        if not good or abs(int(batch[i]) - int(batch[begin])) > ALIKE * abs(int(batch[begin])):
            begin = i if good else i + 1
        if good and i + 1 - begin >= FEWEST:
            runs.append((begin, i + 1))
    made, taken = (np.append(0, np.cumsum(each)) for each in (np.maximum(served.generated, 0), time))
    return max(runs, key=lambda run: (made[run[1]] - made[run[0]], taken[run[1]] - taken[run[0]]))


def tokens_per_second(trace: TraceTable, steps: Int64) -> float | None:
    """Returns the generated tokens per second, None if not recorded.

    The time is that from step start to step start. If only the last step is selected, it is the step time without
    unrecorded work.
    """
    served, found = trace.steps.served, served_steps(trace)
    in_cycles = steps[found.period_ns[steps] != MISSING]
    if len(in_cycles):
        steps, time = in_cycles, int(found.period_ns[in_cycles].sum())
    else:
        length = trace.steps.end_ns[steps] - trace.steps.start_ns[steps]
        time = int((length - found.unrecorded_ns[steps]).sum())
    mode, generated = served.mode[steps], served.generated[steps]
    makes, known = (mode == Mode.DECODE) | (mode == Mode.MIXED), generated != MISSING
    if not known.any() or (makes & ~known).any() or time <= 0:
        return None
    return float(generated[known].sum()) * 1e9 / time
