"""What a mended program would not spend."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.intervals import EMPTY, Ranges

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Change:
    """Time that is not spent any more: when the host is not busy, and by how much device work is shorter."""

    host: Ranges = EMPTY
    row: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Device work, each row once."""
    less_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Below 0: it takes longer."""
    step: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Steps (their places among all that are run again) of which is known how much shorter they are, each once."""
    step_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    worth: int = 1
    """A step then does the work of so many."""
    awaited: bool = False
    """What other streams than the busiest do less, that one may have waited for all the time that it had nothing to do."""
