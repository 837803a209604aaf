"""Rows with significantly larger values than the other rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.outlying_ranks import outlying_ranks

Float64 = npt.NDArray[np.float64]

# minimum excess over the median; smaller differences do not matter
MIN_EXCESS = 0.05


def outlier_rows(values: Float64) -> list[int]:
    """Returns the rows whose mean is an outlier and exceeds the median by ``MIN_EXCESS``, largest mean first.

    ``values`` has shape (rows, repetitions), and NaN means missing. Each row has at least one value.
    """
    if not len(values):
        return []
    mean = np.nanmean(values, axis=1)
    median = np.median(mean)
    found = np.flatnonzero(outlying_ranks(values) & (mean - median > MIN_EXCESS * abs(median)))
    return sorted(found.tolist(), key=lambda row: -mean[row])
