"""Selected server steps, and the steps used for decode numbers."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import TITLES, Cause
from tb_plugin.analysis.kernel_classes import class_time
from tb_plugin.analysis.served_steps import ServedSteps, in_mode, served_steps
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

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
                title = TITLES[cause][0]
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
