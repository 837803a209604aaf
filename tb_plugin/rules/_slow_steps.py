"""Slow steps, their excess time, and its causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.blocking_calls import profiler_waits, waits_for_device
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.idle.causes import TITLES, Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.metrics import STEP
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.step_shares import active_rows
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import distinct_values, sum_by
from tb_plugin.lib.intervals import intersect, join, measure_within, union
from tb_plugin.model.trace.schema import MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import Steps
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Rule, Scene

METRICS = COMMON.in_steps(
    ns={
        "usual_step_ns": ("Usual step", "Median duration of steps that are not slow."),
        "excess_ns": ("Excess", "Time of slow steps beyond the median step, summed."),
    },
    ratio={"excess_ratio": ("Excess", "Excess divided by the time of all steps.")},
    count={"unusual_steps": ("Slow steps", "Steps far longer than the other steps.")},
).defining(
    {
        (STEP, "ns"): {
            "unusual_ns": ("Slow step", "Duration of the slowest step."),
            "unusual_compiling_ns": ("Compilation", "Compilation time in the slowest step."),
            "differs_row_ns": ("Excess there", "Extra time that the slowest step spends in this line or operator."),
            "differs_ns": ("Larger by", "Extra time that the slowest step spends in this part."),
        },
        (STEP, "code"): {
            "differs_row": ("Location", "Line, operator or kernel with most extra time in the slowest step.")
        },
        ("", "text"): {"differs": ("Part", "Step part with the most extra time in the slowest step.")},
    }
)

OTHERS = 3
"""Minimum number of steps that are not slow. Fewer steps do not give a meaningful median."""
FAR = 8
"""Minimum excess of a slow step over the median step, as a multiple of the median absolute deviation."""
MIN_EXPLAINED_SHARE = 0.1
"""A Python line, call or kernel is reported only if it causes at least this share of the largest difference."""
HOST_BOUND = 0.9
"""Minimum share of the step for which a host or device is busy, if it is the bottleneck."""
_BUSY = {"kernel": "Kernels", "memcpy": "Copies", "memset": "Memsets", "communication": "Communication"}
_HOST: Mapping[str, tuple[str, Cause | None]] = {
    "runtime": ("Runtime calls", None),
    "dataloader": (TITLES[Cause.INPUT][0], Cause.INPUT),
    "cpu": ("Operators", None),
    "other": ("Outside operators and calls", None),
}


def is_multi_modal(steps: Steps) -> bool:
    """Returns whether steps have different modes, such as prefill and decode. A longer step is then not slow."""
    return len(np.unique(steps.served.mode)) > 1


def step_lengths(s: Scene) -> Int64:
    """Returns the duration of each step, excluding unrecorded work and waits for the profiler.

    If the host is always busy and no device is, this is the time on the host. Otherwise, the duration includes the
    step's device work.
    """
    steps = s.steps
    dur, host = steps.end_ns - steps.start_ns, steps.host_end_ns - steps.host_start_ns
    busy = any((ratio.utilization or 0.0) >= HOST_BOUND for ratio in s.ratios.values())
    held, unrecorded = profiler_waits(s.trace), any_unrecorded(s.trace)
    waits = waits_for_device(s.trace) & (s.trace.kind == EventKind.RUNTIME)
    awaited = intersect(unrecorded, union(s.trace.start_ns[waits], s.trace.ends(waits)))
    dur = dur - measure_within(join(held, unrecorded), steps.start_ns, steps.end_ns)
    host = host - measure_within(join(held, awaited), steps.host_start_ns, steps.host_end_ns)
    return host if not busy and np.median(host[1:]) >= HOST_BOUND * np.median(dur[1:]) else dur


class Usual(msgspec.Struct, frozen=True, eq=False):
    """Median and deviation of the steps that are not slow, and the range of durations that are not slow."""

    median: int
    deviation: int
    low: int
    high: int


def usual_of(dur: Int64) -> Usual:
    """Returns the median, and the range of durations that are not slow: twice the spread beyond, in both directions."""
    ordered = np.sort(dur)
    median = int(ordered[(len(dur) - 1) // 2])
    deviation = int(np.sort(np.abs(dur - median))[(len(dur) - 1) // 2])
    least, most = int(ordered[0]), int(ordered[-1])
    return Usual(median, deviation, max(3 * least - 2 * most, 0), 3 * most - 2 * least)


def slow_step_changes(dur: Int64, slow: Int64, usual: Usual) -> tuple[Change, Change]:
    """Returns the lower and upper bound of the saving if slow steps took as long as other steps.

    The upper bound also shortens the step after each slow step, because the launch queue is empty when that step
    starts.
    """
    after = np.setdiff1d(slow + 1, np.append(slow, len(dur)))
    late = np.maximum(dur[after] - usual.median, 0)
    least, most = np.maximum(dur[slow] - usual.high, 0), dur[slow] - usual.low
    return Change(step=slow, step_ns=least), Change(step=np.append(slow, after), step_ns=np.append(most, late))


class Part(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """A category or an idle cause, with its time in each step."""

    title: str
    ns: Int64
    cause: Cause | None = None
    category: str = ""


class Words(msgspec.Struct, frozen=True):
    """Texts of a rule about slow steps."""

    text: str
    """First sentence of the finding. The next sentence of the finding is about the largest difference."""
    why: str
    advice: Mapping[Cause, Rule]
    """For some idle causes, the rule whose advice is shown if this cause has the largest difference."""


def slow_steps_finding(s: Scene, rule: Rule, words: Words, dur: Int64, slow: Int64, others: Int64) -> Detection:
    """Returns a finding with the excess time, the largest difference from other steps, and the saving."""
    usual = usual_of(dur[others])
    worst = int(slow[np.argmax(dur[slow])])
    excess = int((dur[slow] - usual.median).sum())
    values: dict[str, int | float | str] = {
        "unusual_ns": int(dur[worst]),
        "usual_step_ns": usual.median,
        "excess_ns": excess,
        "excess_ratio": excess / int(dur.sum()),
        "unusual_steps": len(slow),
        "step": s.steps.label[worst],
    }
    more = {part: int(part.ns[worst]) - int(np.median(part.ns[others])) for part in _parts(s)}
    part = min(more, key=lambda each: (-more[each], each.title))
    values |= {"differs": part.title, "differs_ns": more[part]}
    text = f"{words.text} Largest difference: {{differs}} (+{{differs_ns}})"
    if (row := _largest_row(s, part.category, worst, others)) and row[1] >= MIN_EXPLAINED_SHARE * more[part]:
        values |= {"differs_row": row[0], "differs_row_ns": row[1]}
        text += (
            ", mostly {differs_row} (+{differs_row_ns})"
            if part.category
            else ". On the host, {differs_row} takes {differs_row_ns} longer, including waits for the device"
        )
    cause = part.cause
    compiling = _compiling(s, worst)
    if 2 * compiling >= int(dur[worst]) - usual.median:
        cause = Cause.COMPILATION
        values["unusual_compiling_ns"] = compiling
        text += (
            ". The slowest step includes {unusual_compiling_ns} of compilation, which the compilation "
            "finding also counts"
        )
    advice = words.advice.get(cause) if cause is not None else None
    notice = s.notice(
        rule,
        text=f"{text}.",
        todo=s.todo(advice or rule) or s.todo(rule),
        figures=METRICS.figures(values),
        measure="excess_ratio",
        threshold=MIN_SHARE,
        evidence=Link("idle", {"steps": s.steps.label[worst]}, "Show idle time of this step"),
        why=words.why,
        confidence="high",
    )
    return Detection(notice, Bounds(*slow_step_changes(dur, slow, usual)), step_rows(s, slow))


def _compiling(s: Scene, step: int) -> int:
    rows = rows_in(s.trace, Cause.COMPILATION)
    inside = s.covered(rows[s.on_threads[rows]])
    steps = s.steps
    return int(measure_within(inside, steps.host_start_ns[[step]], steps.host_end_ns[[step]])[0])


def _parts(s: Scene) -> list[Part]:
    """Returns the idle time by cause if there is only one device. Otherwise, returns the host time by category."""
    shares, devices = s.breakdown.parts, list(device_busy(s.trace))
    busy = [Part(title, shares[name], category=name) for name, title in _BUSY.items()]
    if len(devices) != 1:
        return busy + [Part(title, shares[name], cause) for name, (title, cause) in _HOST.items()]
    idle = s.idle_account(devices[0]).by_cause(s.steps.start_ns, s.steps.end_ns)
    return busy + [Part(TITLES[cause][0], time, cause) for cause, time in idle.items()]


def _largest_row(s: Scene, category: str, worst: int, others: Int64) -> tuple[str, int] | None:
    """Returns the line, operator or kernel with the most extra time, and this extra time. Extra time is the time
    above the median of other steps.

    Host time is summed by Python line. If the line is unknown, host time is summed by operator or call. Device time
    is summed by name.
    """
    texts, of, step, time = _work_by_name(s, category) if category else _host_by_line(s)
    count = len(s.steps.label)
    if not len(of):
        return None
    table = sum_by(of * count + step, time, len(texts) * count).reshape(len(texts), count)
    more = table[:, worst] - np.median(table[:, others], axis=1).astype(np.int64)
    largest = int(more.max())
    return min(str(texts[i]) for i in np.flatnonzero(more == largest).tolist()), largest


Times = tuple[Sequence[str], Int64, Int64, Int64]
"""A sequence of texts, and three columns with one entry per time range: index of its text, its step, and its duration."""


def _work_by_name(s: Scene, category: str) -> Times:
    trace, steps = s.trace, s.steps
    rows = np.flatnonzero(active_rows(trace, category))
    step = steps.at(trace.start_ns[rows])
    inside = step != MISSING
    names, of = np.unique(trace.name[rows[inside]], return_inverse=True)
    texts = [str(each) for each in trace.strings.take(names).to_pylist()]
    return texts, of.ravel().astype(np.int64), step[inside], trace.dur_ns[rows[inside]]


def _host_by_line(s: Scene) -> Times:
    trace, steps, lines = s.trace, s.steps, code_lines(s.trace)
    bounds = np.concatenate((steps.host_start_ns, steps.host_end_ns))
    rows, pieces, when = [], [], []
    from tb_plugin.analysis.idle.host_activity import host_of

    for thread in s.threads:
        times, doing = host_of(trace).innermost(thread)
        begin = distinct_values(times, bounds)[:-1]
        rows.append(np.append(doing, MISSING)[np.searchsorted(times, begin, side="right") - 1].astype(np.int64))
        pieces.append(np.diff(distinct_values(times, bounds)))
        when.append(begin)
    row, time, begin = (np.concatenate([np.empty(0, np.int64), *parts]) for parts in (rows, pieces, when))
    step = steps.at(begin, on_host=True)
    inside = (row != MISSING) & (step != MISSING)
    row, time, step = row[inside], time[inside], step[inside]
    line = lines.of[row].astype(np.int64)
    key, of = np.unique(np.where(line == MISSING, -1 - trace.name[row].astype(np.int64), line), return_inverse=True)
    named = trace.strings.take(np.where(key < 0, -1 - key, 0)).to_pylist()
    told = lines.texts.take(pa.array(np.maximum(key, 0), mask=key < 0)).to_pylist()
    return [str(line or name) for line, name in zip(told, named, strict=True)], of.ravel().astype(np.int64), step, time


def step_rows(s: Scene, slow: Int64) -> Int64:
    """Returns the rows of the annotations of these steps, longest first."""
    trace = s.trace
    named = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
    rows = np.flatnonzero(named & ~of_kind(trace.kind, *ON_DEVICE))
    return s.by_length(rows[np.isin(trace.start_ns[rows], s.steps.host_start_ns[slow])])
