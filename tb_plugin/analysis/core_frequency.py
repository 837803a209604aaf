"""Core frequency of devices during kernels."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.device_facts import facts_of
from tb_plugin.analysis.recorded_units import unit_and_factor
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.intervals import Ranges, overlaps, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# Hertz. Cores are never this fast, so a larger value counts something else.
MOST_HERTZ = 1e12


class Frequency(msgspec.Struct, frozen=True, eq=False):
    """Sampled core frequency: ``hertz[i]`` applies from ``start_ns[i]`` until the next sample."""

    start_ns: Int64
    end_ns: Int64
    hertz: Float64
    normal_hertz: float
    """Normal frequency under load, according to the vendor."""
    idle_hertz: float

    @property
    def is_low(self) -> Bool:
        """Returns whether each sample is below the normal (if ever reached) and above the idle frequency."""
        reached: bool = bool((self.hertz >= self.normal_hertz).any())
        return (self.hertz < self.normal_hertz) & (self.hertz > self.idle_hertz) & reached

    @property
    def low(self) -> Ranges:
        return union(self.start_ns[self.is_low], self.end_ns[self.is_low])

    def lowest(self, ranges: Ranges) -> float:
        """Returns the lowest frequency of all low samples in these ranges, which must contain at least one."""
        low_pieces = self.is_low & overlaps(ranges, self.start_ns, self.end_ns)
        return float(self.hertz[low_pieces].min())

    def mean(self, ranges: Ranges) -> float | None:
        known = self._within(np.ones(len(self.hertz)), ranges.start, ranges.end).sum()
        return float(self._within(self.hertz, ranges.start, ranges.end).sum() / known) if known else None

    def lost_ns(self, start: Int64, end: Int64) -> Int64:
        """Returns the time saved in each interval at normal frequency, if work takes inversely proportional time."""
        share = np.where(self.is_low, 1 - self.hertz / self.normal_hertz, 0.0)
        # Whole nanoseconds; rounding must not exceed the sum over the trace.
        return np.floor(self._within(share, start, end) + 1e-3).astype(np.int64)

    def _within(self, value: Float64, start: Int64, end: Int64) -> Float64:
        """Returns the integral over each interval of a function with the constant ``value`` during each sample."""
        before = np.concatenate(([0.0], np.cumsum(value * (self.end_ns - self.start_ns))))

        def until(time: Int64) -> Float64:
            at = np.searchsorted(self.start_ns, time, side="right") - 1
            inside = np.minimum(time, self.end_ns[at]) - self.start_ns[at]
            return np.where(at < 0, 0.0, before[at] + value[at] * inside)

        return until(end) - until(start)


@cached_by_argument
def core_frequency(trace: TraceTable, device: int) -> Frequency | None:
    """Returns the core frequency of ``trace.devices[device]``; None if it is not recorded or is invalid."""
    facts, counters = facts_of(trace), trace.counters
    if facts is None or not facts.frequency or not len(counters.time_ns):
        return None
    mine = np.flatnonzero((counters.name == trace.strings.find(facts.frequency)) & _of_device(trace, device))
    if not len(mine):
        return None
    known = unit_and_factor(trace.strings[int(counters.series[mine[0]])])
    hertz = counters.value[mine] * (known[1] if known and known[0] == "hertz" else 1e6)
    if not ((hertz >= 0) & (hertz <= MOST_HERTZ)).all():
        return None
    time = counters.time_ns[mine]
    end = np.append(time[1:], max(trace.coverage.end_ns, int(time[-1])))
    return Frequency(time, end, hertz, facts.normal_hertz, facts.idle_hertz)


def _of_device(trace: TraceTable, device: int) -> Bool:
    """Returns a mask of the counter values of one device: all values if only one device ran kernels."""
    counters, series = trace.counters, trace.counter_series
    kernels = trace.device[trace.kind == EventKind.KERNEL]
    if len(np.unique(kernels[kernels != MISSING])) < 2:
        return np.ones(len(counters.time_ns), np.bool_)
    mine = series.device == trace.strings.find(trace.devices[device].id)
    stated = set(zip(series.pid[mine].tolist(), series.name[mine].tolist(), strict=True))
    pairs, of = np.unique(np.stack((counters.pid, counters.name)), axis=1, return_inverse=True)
    return np.array([pair in stated for pair in map(tuple, pairs.T.tolist())], np.bool_)[of.ravel()]
