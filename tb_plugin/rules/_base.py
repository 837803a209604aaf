"""Base types of rules: scene, detection, bounds, rule.

In one file: each rule needs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.advice import read_more, snippet_of, todo_of
from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.blocking_calls import profiler_waits, thread_handovers
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import DeviceRatios, busy_title, device_ratios, device_time
from tb_plugin.analysis.driver_calls import DriverCalls, driver_calls, step_time
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import delaying_ranges, launching_threads
from tb_plugin.analysis.metrics import CHOSEN_STEPS, FULL_TRACE, SHARED, STEP, STEPS, define
from tb_plugin.analysis.phrases import vendor_words
from tb_plugin.analysis.recorded_share import is_sampled
from tb_plugin.analysis.reported_steps import length_without_kernels, missing_computation
from tb_plugin.analysis.selection import select_rows, steps_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.step_shares import StepShares, break_down
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, subtract, union
from tb_plugin.model.trace.schema import MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Scalar, Severity

if TYPE_CHECKING:
    from tb_plugin.analysis.idle.account import Account

MIN_SHARE = 0.01
"""Minimum saving as a share of the step, or minimum kernel time as a share of all kernel time. Smaller values are noise."""
TIMELINE = Link("timeline", {}, "Show in timeline")
COMMON = SHARED.adding(
    define(STEP, "ns", {"communication_ns": ("Communication", "Communication not overlapped by compute or copies.")}),
    define(
        STEPS,
        "ns",
        {
            "saving_low_ns": ("Saves at least", "Lower bound of the saving per step."),
            "saving_high_ns": ("Saves at most", "Upper bound of the saving per step."),
            "saving_shared_ns": ("Shared", "Part of the upper bound that other findings would also save."),
            "earlier_work_ns": (
                "Work from before the recording",
                "Device time of work launched before the recording, per step.",
            ),
            "step_time_mean_ns": ("Step time", "Mean step duration."),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "saving_ratio": ("Share of step", "Upper bound of the saving divided by mean step time."),
            "earlier_work_share": (
                "Work from before the recording",
                "Work from before the recording divided by step time.",
            ),
            "waiting_for_input": (
                "Data loading",
                "Data loading not overlapped by device work or calls, divided by step time.",
            ),
        },
    ),
    define(
        FULL_TRACE,
        "ratio",
        {
            "matrix_unknown_ratio": (
                "Unknown use of matrix units",
                "Share of kernel time with unknown use of matrix units.",
            )
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings": ("Findings", "Checks that found a problem."),
            "rules_looked": ("Checks run", "All checks that ran."),
            "evidence": ("Events", "Events that support the finding."),
        },
    ),
    define(
        "",
        "text",
        {
            "rule": ("Rule", "Rule id in docs/findings.md."),
            "finding": ("Finding", "Title of the rule."),
            "severity": ("Severity", "Set by the rule, or derived from the upper bound."),
            "confidence": ("Confidence", "Certainty of the cause and of the saving."),
        },
    ),
)


class Limit(Enum):
    """Bottleneck of a program. The values appear in responses."""

    MEMORY = "memory"
    DATA_LOADING = "data loading"
    CPU = "CPU overhead"
    INITIALISATION = "initialisation"
    CAPTURE = "graph capture"
    COMPILATION = "compilation"
    GPU = "GPU"
    COPIES = "copies"
    COMMUNICATION = "communication"
    PROFILER = "profiler"
    STARTED_LATE = "recording started late"
    TRUNCATED = "file truncated"
    RECORDING = "recording"
    GPU_NOT_RECORDED = "GPU work not recorded"
    CPU_NOT_RECORDED = "CPU work not recorded"
    CPU_ONLY = "CPU only"
    UNKNOWN_KERNELS = "unknown kernels"
    NOTHING = "nothing to fix"


def percent(share: float) -> str:
    """Formats a share as a percentage, as in the docs: 0.02 as ``2 %``."""
    return f"{100 * share:g} %"


def optional(is_given: object, **values: Scalar) -> dict[str, Scalar]:
    """Returns the values of figures that are omitted if a condition does not hold."""
    return values if is_given else {}


class Scene(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """A trace and the steps to check, with measurements that several rules use."""

    trace: TraceTable
    chosen: tuple[str, ...] | None = None
    """Labels of the selected steps; None = all steps."""
    _rows_by_kind: dict[tuple[EventKind, ...], Int64] = msgspec.field(default_factory=dict)

    @cached_property
    def steps(self) -> Steps:
        """Returns the selected steps. For a trace without steps, returns the whole trace as one step."""
        return steps_of(self.trace, self.chosen)

    @cached_property
    def step_ns(self) -> float:
        """Returns the mean step time in nanoseconds (the reported one if kernels are missing), 0 if there are no steps."""
        stated = length_without_kernels(self.trace, self.chosen)
        if stated is not None:
            return stated
        steps = self.steps
        return float((steps.end_ns - steps.start_ns).mean()) if len(steps.label) else 0.0

    @cached_property
    def rows(self) -> Bool:
        """Returns a mask of the host events that start in the selected steps, and of the work that they launch."""
        recorded = self.trace.steps.recorded
        return select_rows(self.trace, self.steps.label if recorded else self.chosen).rows

    def rows_of(self, *kinds: EventKind) -> Int64:
        """Returns the rows of events of these kinds in the selected steps."""
        if kinds not in self._rows_by_kind:
            self._rows_by_kind[kinds] = np.flatnonzero(self.rows & of_kind(self.trace.kind, *kinds))
        return self._rows_by_kind[kinds]

    @cached_property
    def kernels(self) -> Int64:
        return self.rows_of(EventKind.KERNEL)

    @cached_property
    def host(self) -> Ranges:
        """Returns the time range of each selected step on the host."""
        return step_time(self.steps)

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Returns the tracks of the threads that launch device work. These threads determine the step time.

        If no thread launches work, returns the threads with step annotations. If there are no annotations either,
        returns the threads with the most operators.
        """
        launching = {
            each for device in range(len(self.trace.devices)) for each in launching_threads(self.trace, device)
        }
        if launching:
            return tuple(sorted(launching))
        trace = self.trace
        named = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
        on_host = ~of_kind(trace.kind, *ON_DEVICE)
        rows = np.flatnonzero(named & on_host if named.any() else trace.kind == EventKind.OPERATOR)
        tracks, count = np.unique(trace.track[rows], return_counts=True)
        return tuple(tracks[count == count.max(initial=0)].tolist())

    @cached_property
    def breakdown(self) -> StepShares:
        """Returns the step time by category."""
        return break_down(self.trace, self.chosen)

    @cached_property
    def ratios(self) -> dict[str, DeviceRatios]:
        """Returns ratios such as utilization by device id, for each device that ran kernels."""
        trace = self.trace
        times = {i: device_time(trace, i) for i in range(len(trace.devices))}
        return {
            trace.devices[i].id: device_ratios(trace, i, self.chosen)
            for i, time in times.items()
            if time is not None and time.kernels
        }

    @cached_property
    def idle(self) -> Mapping[Cause, Float64]:
        """Returns the device idle time in each step, by cause: the mean over all devices, empty if there are none."""
        steps, devices = self.steps, device_busy(self.trace)
        if not devices or not len(steps.label):
            return {}
        found = [self.idle_account(device).by_cause(steps.start_ns, steps.end_ns) for device in devices]
        return {cause: np.mean([each[cause] for each in found], axis=0) for cause in Cause}

    def idle_account(self, device: int) -> Account:
        from tb_plugin.analysis.idle.account import idle_account

        return idle_account(self.trace, device)

    def idle_for(self, *causes: Cause) -> Float64:
        """Returns the device idle time in each step with one of these causes: the mean over all devices."""
        none = np.zeros(len(self.steps.label))
        return sum((self.idle[cause] for cause in causes if cause in self.idle), none)

    def after_idle(self, *causes: Cause) -> Int64:
        """Returns the rows of device work directly after idle time with one of these causes, longest idle time first."""
        rows, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for device in device_busy(self.trace):
            account = self.idle_account(device)
            mine = np.isin(account.cause, causes)
            time = sum_by(account.gap[mine], (account.end_ns - account.start_ns)[mine], len(account.gaps.next))
            told = (time > 0) & (account.gaps.next != MISSING)
            rows.append(account.gaps.next[told])
            times.append(time[told])
        row, time = np.concatenate(rows), np.concatenate(times)
        row, time = row[self.rows[row]], time[self.rows[row]]
        return row[np.lexsort((self.trace.start_ns[row], -time))]

    def with_idle(self, ranges: Ranges) -> Ranges:
        """Extends each range to the end of the device idle time that directly follows the range."""
        if not len(ranges):
            return ranges
        start, end = [ranges.start], [ranges.end]
        for device in device_busy(self.trace):
            gaps = self.idle_account(device).gaps
            at = np.searchsorted(gaps.end_ns, ranges.end, side="right")
            inside = np.append(gaps.start_ns, np.iinfo(np.int64).max)[at] <= ranges.end
            start.append(ranges.end[inside])
            end.append(gaps.end_ns[at[inside]])
        return union(np.concatenate(start), np.concatenate(end))

    @cached_property
    def driver(self) -> DriverCalls:
        return driver_calls(self.trace, step_time(self.steps))

    def todo(self, rule: Rule, case: str = "") -> str:
        """Returns the profiler's advice, "" if it has none. Raises KeyError for an undeclared case."""
        return todo_of(self.trace, rule.advice_key(case))

    def notice(
        self,
        rule: Rule,
        *,
        text: str,
        figures: list[Figure],
        severity: Severity = "medium",
        todo: str | None = None,
        case: str = "",
        measure: str | None = None,
        threshold: float | None = None,
        evidence: Link | None = TIMELINE,
        why: str = "",
        confidence: Literal["high", "medium", "low", ""] = "medium",
    ) -> Notice:
        """Returns a notice for this rule. ``case`` selects the profiler's advice; ``todo`` replaces its text."""
        device = busy_title(self.trace).removesuffix(" busy")
        if not self.trace.steps.recorded:
            text = _without_steps(text)
        return Notice(
            rule=rule.id,
            severity=severity,
            text=vendor_words(text, device),
            todo=vendor_words(self.todo(rule, case) if todo is None else todo, device),
            figures=figures,
            measure=measure,
            threshold=threshold,
            evidence=evidence,
            references=read_more(self.trace, rule.advice or rule.id),
            why=vendor_words(why, device),
            confidence=confidence,
            snippet=snippet_of(self.trace, *([rule.advice_key(case)] if case else []), rule.advice or rule.id),
        )

    @cached_property
    def on_threads(self) -> Bool:
        """Returns a row mask of the events on ``threads`` and on threads that hand over operators to ``threads``."""
        handing, running = thread_handovers(self.trace)
        more = handing if np.isin(running, self.threads).any() else handing[:0]
        return np.isin(self.trace.track, [*self.threads, *more.tolist()])

    def category_share(self, category: str) -> tuple[float, float]:
        """Returns the mean time per step of a category, and this time as a share of the step."""
        mean = self.breakdown.mean(category) or 0.0
        return mean, mean / self.step_ns if self.step_ns else 0.0

    def per_step(self, total: float) -> float:
        return total / max(len(self.steps.label), 1)

    def is_significant(self, total: float) -> bool:
        """Returns whether a saving of ``total`` nanoseconds over all steps is significant."""
        return self.per_step(total) >= max(MIN_SHARE * self.step_ns, 1)

    @property
    def per_step_words(self) -> str:
        """Returns the first words of a sentence: ``Per step,`` or, for a trace without steps, ``In this recording,``."""
        return "Per step," if self.trace.steps.recorded else "In this recording,"

    @property
    def step_words(self) -> str:
        """Returns ``each {step_time_mean_ns} step``; for one step or for a trace without steps, its own words."""
        if not self.trace.steps.recorded:
            return "this {step_time_mean_ns} recording"
        return f"{'each' if len(self.steps.label) > 1 else 'the'} {{step_time_mean_ns}} step"

    def times_words(self, total: int, key: str) -> str:
        """Returns ``once`` or ``{key} times``, depending on how often the counted event happens per step."""
        count = len(self.steps.label)
        return "once" if total == count else f"{{{key}}} times{' on average' if total % count else ''}"

    def longest(self, rows: Bool) -> Int64:
        """Returns the rows in the selected steps for which this mask is True, longest first."""
        return self.by_length(np.flatnonzero(rows & self.rows))

    def by_length(self, rows: Int64) -> Int64:
        """Returns these rows, sorted by duration (longest first), then by start time."""
        return rows[np.lexsort((self.trace.start_ns[rows], -self.trace.dur_ns[rows]))]

    def covered(self, rows: Int64) -> Ranges:
        """Returns the time ranges in which these host events run in the steps, excluding waits for the profiler."""
        return subtract(self.covered_with_profiler(rows), self.profiler_waits)

    def covered_with_profiler(self, rows: Int64) -> Ranges:
        """Returns the time ranges in which these host events run in the steps, including waits for the profiler."""
        return intersect(union(self.trace.start_ns[rows], self.trace.ends(rows)), self.host)

    @cached_property
    def set_up_ranges(self) -> Ranges:
        """Returns the time in which ``threads`` initialise the driver, load code or capture graphs, except compilation."""
        doing = [delaying_ranges(self.trace, thread) for thread in self.threads]
        set_up = join(EMPTY, *(each[cause] for each in doing for cause in (Cause.INITIALISATION, Cause.CAPTURE)))
        return subtract(set_up, join(EMPTY, *(each[Cause.COMPILATION] for each in doing)))

    @cached_property
    def profiler_waits(self) -> Ranges:
        """Returns the time ranges in which the host waits for the profiler in the steps."""
        return intersect(profiler_waits(self.trace), self.host)

    def line(self, rows: Int64) -> str:
        """Returns the Python line in which these events or their launches take the most time, "" if unknown."""
        return self.lines(rows)[0]

    def lines(self, rows: Int64) -> tuple[str, int]:
        """Returns the Python line with the most time of these events ("" if unknown), and the number of their lines."""
        lines = code_lines(self.trace)
        launch = self.trace.launch[rows]
        of = lines.of[np.where(launch == MISSING, rows, launch)]
        known = of != MISSING
        # If the line is unknown for most of the time, no other line is blamed.
        if not known.any() or 2 * self.trace.dur_ns[rows[~known]].sum() > self.trace.dur_ns[rows].sum():
            return "", 0
        unique, inverse = np.unique(of[known], return_inverse=True)
        time = sum_by(inverse.ravel(), self.trace.dur_ns[rows[known]], len(unique))
        most = unique[time == time.max()]
        texts = lines.texts.take(pa.array(most)).to_pylist()
        return min(str(text) for text in texts), len(unique)  # independent of the order in the file


def _without_steps(text: str) -> str:
    """Removes the words for steps from a sentence about a trace without steps."""
    for words, instead in (
        ("{step_time_mean_ns} per step", "the recorded {step_time_mean_ns}"),
        ("In each {step_time_mean_ns} step", "In the recorded {step_time_mean_ns}"),
        ("Per step,", "In this recording,"),
        (" per step", ""),
    ):
        text = text.replace(words, instead)
    return text


class NoSaving(Enum):
    """Type of the constant ``NO_SAVING``."""

    NO_SAVING = "no saving"


NO_SAVING: Final = NoSaving.NO_SAVING
"""Value of ``saving`` for a finding whose saving cannot be computed from the trace."""


class Bounds(msgspec.Struct, frozen=True, eq=False):
    """Lower and upper bound of the time that a fix saves."""

    least: Change
    most: Change

    @classmethod
    def exact(cls, change: Change) -> Bounds:
        """Returns bounds in which both the lower and the upper bound are this change."""
        return cls(change, change)


class Detection(msgspec.Struct, frozen=True, eq=False):
    """Problem detected by a rule. Raises TypeError unless ``saving`` is ``Bounds`` or ``NO_SAVING``."""

    notice: Notice
    saving: Bounds | NoSaving
    events: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of the events that show the problem, most important first."""
    takes_ns: int | None = None
    """Time that the problem takes in all steps, in nanoseconds. The saving cannot be larger. None = no limit."""
    table: Frame | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.saving, (Bounds, NoSaving)):
            raise TypeError(f"The saving of {self.notice.rule} must be Bounds or NO_SAVING.")


def _advice_key(finding: str, cases: tuple[str, ...], case: str, advice: str = "") -> str:
    if case not in cases:
        raise KeyError(f"{finding} declares no advice for the case {case!r}.")
    return ".".join(filter(None, (advice or finding, case)))


class Check(msgspec.Struct, frozen=True):
    """A finding of the memory view, with its Markdown texts for docs/reference/rules.md."""

    id: str
    detects: str
    threshold: str
    severity: str
    notes: str = ""
    cases: tuple[str, ...] = ("",)
    """Cases of the finding with different advice; "" is the default case."""

    def advice_key(self, case: str = "") -> str:
        """Returns the key of the advice in ``profilers``. Raises KeyError for an undeclared case."""
        return _advice_key(self.id, self.cases, case)


class Rule(msgspec.Struct, frozen=True, eq=False):
    """A rule, with its Markdown texts for findings and for docs/reference/rules.md."""

    module: str
    """``__name__`` of the module that declares the rule. The last part of this name is the rule id."""
    title: str
    look: Callable[[Scene], Detection | None]
    order: int
    """Sort key of the rule for findings with equal savings. Rules about causes come before rules about effects."""
    detects: str
    threshold: str
    """Condition under which the rule reports a finding, as text."""
    saving: str
    """How the bounds are computed, or the reason why the rule has no bounds."""
    needs: str = ""
    """Data that the trace must contain."""
    notes: str = ""
    """Definitions and exceptions, in paragraphs."""
    advice: str = ""
    """Key of the advice in ``profilers``, if this key differs from the rule id."""
    cases: tuple[str, ...] = ("",)
    """Cases with different advice, such as ``data_loading.workers``; "" is the default case."""
    has_data: Callable[[TraceTable], bool] | None = None
    """Function that returns whether a trace has the data that the rule needs. None: every trace has this data."""
    stays_without_saving: bool = False
    """Whether the finding is shown even if its saving is not significant."""
    needs_kernels: bool = False
    """Whether the rule uses idle time or overlap, which are unknown if kernels are missing."""
    limits: tuple[Limit, ...] = ()
    """If one of these limits applies to the program, the finding of this rule is listed first."""
    is_fallback: bool = False
    """Whether the rule runs only if other findings explain too little of the lost time."""

    @property
    def saves(self) -> bool:
        """Returns whether the rule can estimate a saving. Otherwise, the text about the saving starts with "None"."""
        return not self.saving.startswith("None")

    @property
    def id(self) -> str:
        return self.module.rpartition(".")[2]

    def advice_key(self, case: str = "") -> str:
        """Returns the key of the rule's advice in ``profilers``. Raises KeyError for an undeclared case."""
        return _advice_key(self.id, self.cases, case, self.advice)

    def is_silent(self, trace: TraceTable) -> bool:
        """Returns whether the rule is skipped for this trace because kernels are missing."""
        return self.needs_kernels and (missing_computation(trace) is not None or is_sampled(trace))
