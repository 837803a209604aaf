"""A hypothetical change to the program, whose effect is simulated."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, covered_before, subtract


class Assumption(IntEnum):
    """Assumptions on what a trace does not contain: latencies, and waits of one stream for another.

    ``LOW`` gives a lower bound of savings: latencies are long, and work waits for all work that ended before it.
    ``HIGH`` gives an upper bound: latencies are zero, and work waits for another stream only if it was delayed by it.
    ``HIGH_WITH_SPACE`` is the same, but work that starts while other work runs waited until that work left space.
    """

    LOW = 0
    EXPECTED = 1
    HIGH = 2
    HIGH_WITH_SPACE = 3


class Change(msgspec.Struct, frozen=True, eq=False):
    """A hypothetical change to the program: host time ranges that disappear, and device work that becomes shorter."""

    host: Ranges = EMPTY
    row: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    less_ns: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Time by which each ``row`` becomes shorter, in nanoseconds; negative if the row becomes longer."""
    step: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Indices of simulated steps whose reduction is known; each index occurs once."""
    step_ns: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    worth: int = 1
    """Number of recorded steps that one step replaces after the change."""
    scaled: Ranges = EMPTY
    """Host time of which only a share disappears, disjoint from ``host``."""
    scaled_share: Float64 = msgspec.field(default_factory=lambda: np.empty(0))
    """Share of each ``scaled`` range that disappears; negative if the host needs longer."""

    @property
    def is_faster(self) -> bool:
        """Returns whether the host needs no time longer than in the recording."""
        return not (self.scaled_share < 0).any()

    def without(self, times: Ranges) -> Change:
        """Returns the change with the recorded host time in some ranges."""
        if not len(times):
            return self
        scaled = subtract(self.scaled, times)
        share = self.scaled_share[np.searchsorted(self.scaled.start, scaled.start, side="right") - 1]
        return replace(self, host=subtract(self.host, times), scaled=scaled, scaled_share=share)

    def host_before(self, times: Int64) -> Int64:
        """Returns the host time that disappears before each time, in nanoseconds."""
        found = covered_before(self.host, times) if len(self.host) else np.zeros(len(times), np.int64)
        return found + self._scaled_before(times) if len(self.scaled) else found

    def _scaled_before(self, times: Int64) -> Int64:
        start, end, share = self.scaled.start, self.scaled.end, self.scaled_share
        before = np.append(0, np.cumsum((end - start) * share))
        last = np.searchsorted(start, times, side="right") - 1
        inside = np.where(last >= 0, np.minimum(times, end[last]) - start[last], 0) * share[last]
        return np.rint(before[np.maximum(last, 0)] + inside).astype(np.int64)
