"""95 % intervals of changes between two sets of steps.

Expanded percentile bootstrap of the difference of means (Hesterberg, "What Teachers Should Know about the Bootstrap",
2015). With few steps, a plain bootstrap gives intervals that are too narrow. The expansion widens them to those of
Student's t with the steps of the shorter side, so that false alarms stay below 5 %.
"""

from __future__ import annotations

import zlib

import numpy as np

from tb_plugin.lib.arrays import Bool, Float64, Int64

# With two steps, an interval says nothing.
MIN_STEPS = 3
RESAMPLES = 2_000
# Limits time: each resample draws at most this many steps; errors are scaled by sqrt(drawn / steps).
_MAX_DRAWN = 500
# Limits memory: 16 MiB of counts at a time.
_COUNTS_AT_ONCE = 2**21
_TAIL = 0.025
_NORMAL_QUANTILE = 1.959964
# Cornish-Fisher expansion of the 97.5 % quantile of Student's t in 1/df; within 1 % from 2 degrees of freedom on.
_T_QUANTILE = (_NORMAL_QUANTILE, 2.372271, 2.822499, 2.555850, 1.589534)


def change_intervals(base: Int64, exp: Int64, scales: tuple[float, float] = (1.0, 1.0)) -> tuple[Float64, Float64]:
    """Returns the low and high ends of the 95 % intervals of mean(exp) - mean(base).

    Both arrays have one row per change and one column per step, at least ``MIN_STEPS``. Before they are compared, the
    means are multiplied by ``scales``. The first row, such as the step time, seeds the resampling, so that results depend
    only on the arguments. Swapping the sides swaps and negates the ends.
    """
    (base_mean, base_error), (exp_mean, exp_error) = (
        _resampled(side, scale) for side, scale in zip((base, exp), scales, strict=True)
    )
    df = min(base.shape[1], exp.shape[1]) - 1
    expansion = sum(term / df**power for power, term in enumerate(_T_QUANTILE)) / _NORMAL_QUANTILE
    errors = np.sort(exp_error - base_error, axis=0)
    edge = round(_TAIL * RESAMPLES)
    change = exp_mean - base_mean
    return change - expansion * errors[-1 - edge], change - expansion * errors[edge]


def is_significant(low: Float64 | Int64, high: Float64 | Int64) -> Bool:
    """Returns whether the intervals exclude 0."""
    found: Bool = (low > 0) | (high < 0)
    return found


def _resampled(samples: Int64, scale: float) -> tuple[Float64, Float64]:
    """Returns the mean of each row, and the errors of the means of resampled steps, by resample and row."""
    count = samples.shape[1]
    mean = samples.mean(axis=1)
    centred = (samples - mean[:, None]).T * np.sqrt(count / (count - 1))
    random = np.random.default_rng(zlib.crc32(samples[0].astype(np.int64).tobytes()))
    errors = np.empty((RESAMPLES, len(samples)))
    drawn_steps = min(count, _MAX_DRAWN)
    at_once = max(1, _COUNTS_AT_ONCE // count)
    for start in range(0, RESAMPLES, at_once):
        rows = np.arange(min(at_once, RESAMPLES - start))[:, None]
        drawn = random.integers(0, count, (len(rows), drawn_steps)) + count * rows
        times = np.bincount(drawn.ravel(), minlength=len(rows) * count).reshape(len(rows), count)
        errors[start : start + len(rows)] = times @ centred / drawn_steps
    return mean * scale, errors * (scale * np.sqrt(drawn_steps / count))
