"""Ranks whose values are significantly larger than those of other ranks."""

from __future__ import annotations

import math

import numpy as np

from tb_plugin.lib.arrays import Bool, Float64
from tb_plugin.lib.groupby import MAD_TO_DEVIATION

# maximum probability that noise makes any rank of a comparison an outlier
MAX_CHANCE = 0.001
# minimum excess of an outlier over the median; smaller differences do not matter
MIN_EXCESS = 0.05
# minimum degrees of freedom of the noise; with fewer, no rank is an outlier
MIN_FREEDOM = 2


def outlying_ranks(values: Float64, noise: Float64 | None = None) -> Bool:
    """Returns which ranks have significantly larger values than the other ranks.

    ``values`` has shape (..., ranks, steps), and NaN means missing. The result has shape (..., ranks). Callers check
    whether a significant difference is large enough to matter. ``noise`` is the standard deviation of a value between
    steps, with shape (...). By default it comes from the values, and includes constant differences between ranks.
    The test is a t-test of the mean over steps, minus the median of the other ranks, with Bonferroni correction.
    """
    ranks, steps = values.shape[-2:]
    freedom = (ranks - 2) * steps if ranks > 2 else steps - 1
    if ranks < 2 or freedom < MIN_FREEDOM or (ranks == 2 and noise is None):
        return np.zeros(values.shape[:-1], np.bool_)
    deviations = values - np.nanmedian(values, axis=-2, keepdims=True)
    mean = np.nanmean(deviations, axis=-1)
    excess = mean - median_of_others(mean)
    if noise is None:
        between = np.nanmedian(np.abs(mean - np.nanmedian(mean, axis=-1, keepdims=True)), axis=-1)
        within = np.nanmedian(np.abs(deviations), axis=(-2, -1)) / math.sqrt(steps)
        # Deviations from a median of few ranks are too small.
        error = MAD_TO_DEVIATION * np.maximum(between, within) * math.sqrt(ranks / (ranks - 2))
    else:
        error = noise / math.sqrt(steps)
    with np.errstate(divide="ignore", invalid="ignore"):
        significant: Bool = _log_tail(excess / error[..., None], freedom) <= math.log(MAX_CHANCE / ranks)
    significant &= excess > 0
    return significant


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


def median_of_others(values: Float64) -> Float64:
    """Returns the median of all other values along the last axis, which must have at least two values."""
    count = values.shape[-1]
    order = np.argsort(values, axis=-1)
    place = np.argsort(order, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    middles = []
    for middle in ((count - 2) // 2, (count - 1) // 2):
        at = np.where(place <= middle, middle + 1, middle)
        middles.append(np.take_along_axis(ordered, np.minimum(at, count - 1), axis=-1))
    found: Float64 = (middles[0] + middles[1]) / 2
    return found


def _log_tail(t: Float64, freedom: int) -> Float64:
    """Returns the logarithm of an upper bound of P(T > t) for t > 0: x / t times the density, integrated from t."""
    height = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    found: Float64 = height + np.log(freedom / (freedom - 1) / t) - (freedom - 1) / 2 * np.log1p(t * t / freedom)
    return found
