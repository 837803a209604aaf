"""A hypothetical change to the program, whose effect is simulated."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import EMPTY, Ranges


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
    awaited: bool = False
    """Whether reductions on streams other than the busiest one count, because the busiest stream may have waited
    for them.
    """
