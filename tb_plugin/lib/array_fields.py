"""What the columns of models have in common."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np


def no_rows(dtype: type[Any]) -> Any:
    """Returns the default of a column: nothing in it, an array of its own for each model."""
    return field(default_factory=lambda: np.empty(0, dtype=dtype))
