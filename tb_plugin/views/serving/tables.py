"""Selected server steps, and their tables by step, mode and kernel class."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import TITLES as IDLE_TITLES
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.kernel_classes import TITLES, class_time
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.served_steps import ServedSteps, in_mode, served_steps, tokens_per_second
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure_within
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Sort
from tb_plugin.views.serving.metrics import METRICS

# Cause of a slow step whose device is not idle for longer than usual.
WORK = "Its own work"


class Taken(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Selected server steps with numbers. ``steps`` contains indices into the steps of the trace."""

    trace: TraceTable
    numbers: ServedSteps
    steps: Int64
    figure_steps: Int64
    """Steps used for decode numbers: the selected steps in the steady state, or all selected steps if there is no
    steady state.
    """
    is_steady: bool

    def of(self, mode: Mode, *, told: bool = False) -> Int64:
        """Returns the selected steps of a mode. With ``told``, returns only the steps that decode numbers use."""
        steps = self.figure_steps if told else self.steps
        return steps[in_mode(self.trace, mode)[steps]]

    @cached_property
    def modes(self) -> list[Mode]:
        """Returns the modes of the selected steps. The mode with the longest total time comes first."""
        time = {mode: int(self.time_ns[self.of(mode)].sum()) for mode in Mode if len(self.of(mode))}
        return sorted(time, key=lambda mode: (-time[mode], mode))

    @cached_property
    def time_ns(self) -> Int64:
        """Returns the duration of every step of the trace."""
        return self.trace.steps.end_ns - self.trace.steps.start_ns

    @cached_property
    def class_time(self) -> dict[Mode, dict[KernelClass, int]]:
        """Returns the kernel time for each mode and kernel class. Modes without kernels are omitted."""
        numbers, trace = self.numbers, self.trace
        kernels = trace.kind[numbers.row] == EventKind.KERNEL
        mode = trace.steps.served.mode[numbers.step]
        chosen = kernels & np.isin(numbers.step, self.steps)
        times = {each: class_time(trace, numbers.row[chosen & (mode == each)]) for each in self.modes}
        return {each: of for each, of in times.items() if sum(of.values())}

    @cached_property
    def why(self) -> dict[int, str]:
        """Returns, for each unusually slow step, the main reason why the step is slower than the median decode
        step.

        The reason is an idle cause, or the device work of the step.
        """
        unusual = self.steps[self.numbers.is_unusual[self.steps]]
        usual = np.flatnonzero(
            in_mode(self.trace, Mode.DECODE) & ~self.numbers.is_unusual & (self.numbers.period_ns != MISSING)
        )
        if not len(unusual) or not len(usual):
            return {}
        begin = self.trace.steps.start_ns
        end = begin + self.numbers.period_ns
        more = {WORK: self.numbers.busy_ns[unusual] - np.median(self.numbers.busy_ns[usual])}
        for device in device_busy(self.trace):
            account = idle_account(self.trace, device)
            of_unusual, of_usual = (account.by_cause(begin[some], end[some]) for some in (unusual, usual))
            for cause in Cause:
                title = IDLE_TITLES[cause][0]
                more[title] = more.get(title, 0) + of_unusual[cause] - np.median(of_usual[cause])
        titles = list(more)
        most = np.argmax(np.array([more[title] for title in titles]), axis=0)
        return {int(step): titles[place] for step, place in zip(unusual, most.tolist(), strict=True)}


def select_served(trace: TraceTable, steps: Int64, *, everything: bool) -> Taken:
    """Returns the selected server steps.

    Decode numbers use only steps in the steady state, or all selected steps if ``everything`` is set.
    """
    numbers = served_steps(trace)
    begin, end = numbers.steady
    steady = not everything and end > begin
    return Taken(trace, numbers, steps, np.arange(begin, end) if steady else steps, steady)


_STATED = {
    "batch": "batch",
    "batch_decoding": "decoding",
    "step_tokens": "tokens",
    "step_context": "context",
    "step_generated": "generated",
}


def mode_name(mode: int) -> str:
    """Returns the display name of a mode, or "unknown" if no mode is recorded."""
    return Mode(mode).word or "unknown"


def by_step(found: Taken) -> Frame:
    """Returns one row per selected step, sorted by time."""
    steps, trace, numbers = found.steps, found.trace, found.numbers
    served = trace.steps.served
    period, generated = numbers.period_ns[steps], served.generated[steps]
    begin, end = numbers.steady
    data = {
        "step": pa.array([trace.steps.label[i] for i in steps.tolist()], pa.string()),
        "mode": pa.array([mode_name(mode) for mode in served.mode[steps].tolist()], pa.string()),
        **{key: _known(getattr(served, name)[steps]) for key, name in _STATED.items()},
        "served_step_ns": pa.array(found.time_ns[steps]),
        "served_period_ns": _known(period),
        "served_busy_ns": pa.array(numbers.busy_ns[steps]),
        **({"unrecorded_ns": pa.array(numbers.unrecorded_ns[steps])} if numbers.unrecorded_ns.any() else {}),
        "served_gap_ns": _known(numbers.gap_ns[steps]),
        "step_tokens_per_second": pa.array(
            generated * 1e9 / np.maximum(period, 1), mask=(generated == MISSING) | (period <= 0)
        ),
        "is_steady": pa.array((steps >= begin) & (steps < end)),
        "is_outlier": pa.array(numbers.is_unusual[steps]),
        "outlier_cause": pa.array([found.why.get(i) for i in steps.tolist()], pa.string()),
        "start_ns": pa.array(trace.steps.start_ns[steps]),
    }
    reported = {key for key in _STATED if data[key].null_count < len(steps)}
    hidden = {"start_ns", "batch_decoding", *(_STATED.keys() - reported)}
    if not numbers.is_unusual[steps].any():
        hidden |= {"is_outlier", "outlier_cause"}
    return Frame(
        name="serving_steps",
        title="Steps",
        columns=METRICS.columns(*data, hidden=tuple(hidden)),
        data=pa.table(data),
        row_key=("step",),
        name_column="step",
    )


def _known(values: Int64) -> pa.Array:
    return pa.array(values, mask=values == MISSING)


def by_mode(found: Taken) -> Frame:
    """Returns one row per mode, sorted by time, longest first."""
    rows = [_of_mode(found, mode) for mode in found.modes]
    keys = list(rows[0]) if rows else ["mode"]
    types = {"mode": pa.string(), "mode_steps": pa.int64(), "mode_generated": pa.int64()}
    data = {key: pa.array([row[key] for row in rows], types.get(key, pa.float64())) for key in keys}
    return Frame(
        name="serving_modes",
        title="Modes",
        columns=METRICS.columns(*keys, share=("mode_total_ns",) if rows else ()),
        data=pa.table(data),
        row_key=("mode",),
        name_column="mode",
        sort=Sort("mode_total_ns", True) if rows else None,
    )


def _of_mode(found: Taken, mode: Mode) -> dict[str, str | int | float | None]:
    steps = found.of(mode)
    time, busy = found.time_ns[steps], int(found.numbers.busy_ns[steps].sum())
    trace, generated = found.trace, found.trace.steps.served.generated[steps]
    total = int(time.sum())
    known = total - int(
        measure_within(any_unrecorded(trace), trace.steps.start_ns[steps], trace.steps.end_ns[steps]).sum()
    )
    return {
        "mode": mode_name(mode),
        "mode_steps": len(steps),
        "mode_total_ns": float(total),
        "mode_mean_ns": float(time.mean()),
        "mode_p50_ns": float(np.median(time)),
        "mode_p95_ns": float(np.percentile(time, 95)),
        "mode_busy_ns": float(busy),
        "mode_busy_ratio": busy / known if known else None,
        "mode_tokens_per_second": tokens_per_second(trace, steps),
        "mode_generated": None if (generated == MISSING).any() else int(generated.sum()),
    }


def by_class(found: Taken) -> Frame:
    """Returns one row per mode and kernel class, sorted by time, longest first."""
    rows = [
        (mode_name(mode), TITLES[each], time, time / sum(of.values()))
        for mode, of in found.class_time.items()
        for each, time in sorted(of.items(), key=lambda item: (-item[1], item[0]))
        if time
    ]
    keys = ("mode", "mode_class", "mode_class_ns", "mode_class_ratio")
    types = (pa.string(), pa.string(), pa.int64(), pa.float64())
    columns = zip(*rows, strict=True) if rows else ((),) * len(keys)
    return Frame(
        name="serving_classes",
        title="Kernels by mode",
        columns=METRICS.columns(*keys),
        data=pa.table({key: pa.array(of, kind) for key, of, kind in zip(keys, columns, types, strict=True)}),
        row_key=("mode", "mode_class"),
        name_column="mode_class",
    )
