"""A change of the program to simulate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.intervals import EMPTY, Ranges

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Change:
    """Time no longer spent: ranges of the host, and reductions of device work."""

    host: Ranges = EMPTY
    row: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    less_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Reduction; negative if it takes longer."""
    step: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Steps (positions among all simulated ones) with a known reduction, each once."""
    step_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    worth: int = 1
    """Number of steps whose work one step does after the change."""
    awaited: bool = False
    """Reduction on streams other than the busiest, which the busiest may have waited for."""
