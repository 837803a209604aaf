"""What a rule is: it looks at a scene, and says what it saw and which time a mended program would not spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.advice import read_more, todo_of
from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.blocking_calls import handovers, profiler_waits
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import DeviceRatios, device_ratios, device_time
from tb_plugin.analysis.driver_calls import DriverCalls, driver_calls, step_time
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import launching_threads, occupied
from tb_plugin.analysis.recorded_share import is_sampled
from tb_plugin.analysis.reported_steps import length_without_kernels, missing_computation
from tb_plugin.analysis.selection import select_rows, steps_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.step_shares import StepShares, break_down
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, subtract, union
from tb_plugin.model.trace.schema import MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Severity
from tb_plugin.rules._limits import Limit

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]


WORTH = 0.01
"""Share of the step that a finding has to save at best: less is lost in the noise of steps."""


def percent(share: float) -> str:
    """Returns a share in the words of docs: ``2 %``."""
    return f"{100 * share:g} %"


class Scene(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """A trace and the steps that rules look at: the chosen ones, else all."""

    trace: TraceTable
    chosen: tuple[str, ...] | None = None
    """Labels of the chosen steps, None = all."""
    _of: dict[tuple[EventKind, ...], Int64] = msgspec.field(default_factory=dict)
    """Rows by kind: several rules ask for the same."""

    @cached_property
    def steps(self) -> Steps:
        """Returns the steps; of a trace without any the whole recording stands for one."""
        return steps_of(self.trace, self.chosen)

    @cached_property
    def step_ns(self) -> float:
        """Returns the mean time of a step, nanoseconds; 0 without steps. Where kernels are missing it is the stated one."""
        stated = length_without_kernels(self.trace, self.chosen)
        if stated is not None:
            return stated
        steps = self.steps
        return float((steps.end_ns - steps.start_ns).mean()) if len(steps.label) else 0.0

    @cached_property
    def rows(self) -> Bool:
        """Returns which rows belong to the steps: host rows that begin in them, and the device work launched there."""
        recorded = self.trace.steps.recorded
        return select_rows(self.trace, self.steps.label if recorded else self.chosen).rows

    def of(self, *kinds: EventKind) -> Int64:
        """Returns the rows of these kinds that belong to the steps."""
        if kinds not in self._of:
            self._of[kinds] = np.flatnonzero(self.rows & of_kind(self.trace.kind, *kinds))
        return self._of[kinds]

    @cached_property
    def kernels(self) -> Int64:
        """Returns the rows of the kernels of the steps."""
        return self.of(EventKind.KERNEL)

    @cached_property
    def host(self) -> Ranges:
        """Returns when the host was in the steps."""
        return step_time(self.steps)

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Returns the tracks whose time steps wait for: those that launch work, else those with the steps' names."""
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
        """Returns the parts of the steps."""
        return break_down(self.trace, self.chosen)

    @cached_property
    def ratios(self) -> dict[str, DeviceRatios]:
        """Returns the ratios of devices that ran kernels, by their ids."""
        trace = self.trace
        times = {i: device_time(trace, i) for i in range(len(trace.devices))}
        return {
            trace.devices[i].id: device_ratios(trace, i, self.chosen)
            for i, time in times.items()
            if time is not None and time.kernels
        }

    @cached_property
    def idle(self) -> Mapping[Cause, Float64]:
        """Returns for how long a device idles in each step, by cause: means over the devices; empty without any."""
        steps, devices = self.steps, device_busy(self.trace)
        if not devices or not len(steps.label):
            return {}
        from tb_plugin.analysis.idle.account import idle_account

        found = [idle_account(self.trace, device).by_cause(steps.start_ns, steps.end_ns) for device in devices]
        return {cause: np.mean([each[cause] for each in found], axis=0) for cause in Cause}

    def idle_for(self, *causes: Cause) -> Float64:
        """Returns for how long a device idles in each step for these causes; 0 without devices."""
        none = np.zeros(len(self.steps.label))
        return sum((self.idle[cause] for cause in causes if cause in self.idle), none)

    def after_idle(self, *causes: Cause) -> Int64:
        """Returns the work of the steps before which a device idled for these causes, the longest first."""
        rows, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        from tb_plugin.analysis.idle.account import idle_account

        for device in device_busy(self.trace):
            account = idle_account(self.trace, device)
            mine = np.isin(account.cause, causes)
            time = sum_by(account.gap[mine], (account.end_ns - account.start_ns)[mine], len(account.gaps.next))
            told = (time > 0) & (account.gaps.next != MISSING)
            rows.append(account.gaps.next[told])
            times.append(time[told])
        row, time = np.concatenate(rows), np.concatenate(times)
        row, time = row[self.rows[row]], time[self.rows[row]]
        return row[np.lexsort((self.trace.start_ns[row], -time))]

    def with_idle(self, ranges: Ranges) -> Ranges:
        """Returns these times and the idle time of devices that directly follows each of them."""
        if not len(ranges):
            return ranges
        start, end = [ranges.start], [ranges.end]
        from tb_plugin.analysis.idle.account import idle_account

        for device in device_busy(self.trace):
            gaps = idle_account(self.trace, device).gaps
            at = np.searchsorted(gaps.end_ns, ranges.end, side="right")
            inside = np.append(gaps.start_ns, np.iinfo(np.int64).max)[at] <= ranges.end
            start.append(ranges.end[inside])
            end.append(gaps.end_ns[at[inside]])
        return union(np.concatenate(start), np.concatenate(end))

    @cached_property
    def driver(self) -> DriverCalls:
        """Returns the driver's calls for memory in the steps."""
        return driver_calls(self.trace, step_time(self.steps))

    def todo(self, rule: Rule, case: str = "") -> str:
        """Returns what to do about a finding, "" if the profiler has no advice. Raises KeyError for an undeclared case."""
        return todo_of(self.trace, rule.advice_key(case))

    def notice(
        self,
        rule: Rule,
        *,
        severity: Severity,
        text: str,
        figures: list[Figure],
        todo: str | None = None,
        measure: str | None = None,
        threshold: float | None = None,
        evidence: Link | None = None,
        why: str = "",
        confidence: Literal["high", "medium", "low", ""] = "",
    ) -> Notice:
        """Returns the notice of a rule, with the references and (unless ``todo`` is given) the advice of the profiler."""
        return Notice(
            rule=rule.id,
            severity=severity,
            text=text,
            todo=self.todo(rule) if todo is None else todo,
            figures=figures,
            measure=measure,
            threshold=threshold,
            evidence=evidence,
            references=read_more(self.trace, rule.advice or rule.id),
            title=rule.title,
            why=why,
            confidence=confidence,
        )

    @cached_property
    def on_threads(self) -> Bool:
        """Returns which rows are of the host's threads that the steps wait for, also of those that hand operators to them."""
        handing, running = handovers(self.trace)
        more = handing if np.isin(running, self.threads).any() else handing[:0]
        return np.isin(self.trace.track, [*self.threads, *more.tolist()])

    def part(self, category: str) -> tuple[float, float]:
        """Returns what a category takes of a step, a mean over the steps in nanoseconds, and its share of it."""
        mean = self.breakdown.mean(category) or 0.0
        return mean, mean / self.step_ns if self.step_ns else 0.0

    def per_step(self, total: float) -> float:
        """Returns the mean over the steps."""
        return total / max(len(self.steps.label), 1)

    def is_worth(self, total: float) -> bool:
        """Returns whether this much time of all steps, once saved, makes a finding."""
        return self.per_step(total) >= max(WORTH * self.step_ns, 1)

    @property
    def each(self) -> str:
        """Returns what a figure of a step speaks of: without recorded steps the recording stands for one."""
        return "Per step," if self.trace.steps.recorded else "In this recording,"

    def often(self, total: int, key: str) -> str:
        """Returns how often a step does something, in words: the figure of that key."""
        count = len(self.steps.label)
        return "once" if total == count else f"{{{key}}} times{' on average' if total % count else ''}"

    def longest(self, rows: Bool) -> Int64:
        """Returns those of these rows that belong to the steps, the longest first."""
        return self.by_length(np.flatnonzero(rows & self.rows))

    def by_length(self, rows: Int64) -> Int64:
        """Returns these rows, the longest first, of equal ones the first."""
        return rows[np.lexsort((self.trace.start_ns[rows], -self.trace.dur_ns[rows]))]

    def covered(self, rows: Int64) -> Ranges:
        """Returns when any of these rows is open, in the time that the steps take on the host and the profiler does not."""
        return subtract(self.open(rows), self.profiler_waits)

    def open(self, rows: Int64) -> Ranges:
        """Returns when any of these rows is open, in the time that the steps take on the host."""
        return intersect(union(self.trace.start_ns[rows], self.trace.ends(rows)), self.host)

    @cached_property
    def once(self) -> Ranges:
        """Returns when threads that steps wait for set the driver up, load code or capture graphs, and do not compile."""
        doing = [occupied(self.trace, thread) for thread in self.threads]
        set_up = join(EMPTY, *(each[cause] for each in doing for cause in (Cause.INITIALISATION, Cause.CAPTURE)))
        return subtract(set_up, join(EMPTY, *(each[Cause.COMPILATION] for each in doing)))

    @cached_property
    def profiler_waits(self) -> Ranges:
        """Returns when the host waits for the profiler alone, in the time that the steps take on it."""
        return intersect(profiler_waits(self.trace), self.host)

    def line(self, rows: Int64) -> str:
        """Returns the line of Python that most of the time of these rows lies under, "" where none is known.

        Device work lies under the line that launched it.
        """
        return self.lines(rows)[0]

    def lines(self, rows: Int64) -> tuple[str, int]:
        """Returns the line of Python that most of the time of these rows lies under ("": none is known), and how many do."""
        lines = code_lines(self.trace)
        launch = self.trace.launch[rows]
        of = lines.of[np.where(launch == MISSING, rows, launch)]
        known = of != MISSING
        # Where the line of most of that time is not known another one is not blamed for it.
        if not known.any() or 2 * self.trace.dur_ns[rows[~known]].sum() > self.trace.dur_ns[rows].sum():
            return "", 0
        unique, inverse = np.unique(of[known], return_inverse=True)
        time = sum_by(inverse.ravel(), self.trace.dur_ns[rows[known]], len(unique))
        most = unique[time == time.max()]
        texts = lines.texts.take(pa.array(most)).to_pylist()
        return min(str(text) for text in texts), len(unique)  # the order of the file says nothing


class NoSaving(Enum):
    """The type of ``NO_SAVING``."""

    NO_SAVING = "no saving"


NO_SAVING: Final = NoSaving.NO_SAVING
"""Nobody can tell from the trace what a fix would save."""


class Bounds(msgspec.Struct, frozen=True, eq=False):
    """Time that a fix removes: ``least`` for sure, ``most`` at best."""

    least: Change
    most: Change

    @classmethod
    def exact(cls, change: Change) -> Bounds:
        """Returns bounds that are equal."""
        return cls(change, change)


class Detection(msgspec.Struct, frozen=True, eq=False):
    """What a rule detected. Raises TypeError without bounds of the saving or ``NO_SAVING``."""

    notice: Notice
    saving: Bounds | NoSaving
    events: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Rows that show it, what matters most first."""
    takes_ns: int | None = None
    """What it takes in all steps: an upper bound of the saving. None: only ``saving`` limits it."""
    table: Frame | None = None
    """A table of its own, shown below the finding."""

    def __post_init__(self) -> None:
        if not isinstance(self.saving, (Bounds, NoSaving)):
            raise TypeError(f"The saving of {self.notice.rule} must be Bounds or NO_SAVING.")


class Rule(msgspec.Struct, frozen=True, eq=False):
    """A rule: everything that findings, lists and docs/reference/rules.md say about it.

    Its texts are Markdown sentences. ``needs`` and ``notes`` may be empty.
    """

    module: str
    """``__name__`` of the module that declares it: its last part is the id."""
    title: str
    look: Callable[[Scene], Detection | None]
    order: int
    """Place among rules whose findings save equally much: causes stand before their effects."""
    detects: str
    """One sentence: what the rule detects."""
    threshold: str
    """How much of it makes a finding."""
    saving: str
    """How the saving is bounded, or why there is none."""
    needs: str = ""
    """What the trace must contain."""
    notes: str = ""
    """Definitions and exceptions, in paragraphs."""
    advice: str = ""
    """Key of its advice in ``profilers``, if that is not the id."""
    cases: tuple[str, ...] = ("",)
    """Cases with advice of their own (``data_loading.workers``); "" is the usual case."""
    saves: bool = True
    """Whether it estimates a saving."""
    has_data: Callable[[TraceTable], bool] | None = None
    """Whether a trace has the data of the rule: without them there are no facts. None: every trace may have them."""
    stays_without_saving: bool = False
    """The finding is shown even if a fix saves too little to count."""
    needs_kernels: bool = False
    """It judges idle time or overlap, which are unknown if kernels are missing."""
    limits: tuple[Limit, ...] = ()
    """Its finding comes first if one of these limits the program."""
    is_fallback: bool = False
    """It looks only if the other findings explain too little."""

    @property
    def id(self) -> str:
        """Returns the name of its module."""
        return self.module.rpartition(".")[2]

    def advice_key(self, case: str = "") -> str:
        """Returns the key of its advice in ``profilers``. Raises KeyError for a case that is not declared."""
        if case not in self.cases:
            raise KeyError(f"{self.id} declares no advice for the case {case!r}.")
        return ".".join(filter(None, (self.advice or self.id, case)))

    def is_silent(self, trace: TraceTable) -> bool:
        """Returns whether the rule does not look, because kernels are missing."""
        return self.needs_kernels and (missing_computation(trace) is not None or is_sampled(trace))
