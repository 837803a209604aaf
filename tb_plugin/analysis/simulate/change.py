"""A change of the program to simulate."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.intervals import EMPTY, Ranges

Int64 = npt.NDArray[np.int64]


class Change(msgspec.Struct, frozen=True, eq=False):
    """A change of the program: ranges of host time that disappear, and reductions of device work."""

    host: Ranges = EMPTY
    row: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    less_ns: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Reduction of each ``row``; negative if it takes longer."""
    step: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Indices of simulated steps with a known reduction, without duplicates."""
    step_ns: Int64 = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    worth: int = 1
    """Number of recorded steps whose work one step does after the change."""
    awaited: bool = False
    """Whether to count reductions on other streams, because the busiest stream may have waited for them."""
