"""Kernels whose longer duration makes a worker compute longer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Float64, Int64

MORE_CALLS, LONGER_CALLS, SLOW_DEVICE = "more calls", "longer calls", "slow device"
# minimum number of slower kernels to call a device slow
_MIN_KERNELS = 3
# minimum share of kernel time that is slower by about the same factor on a slow device
_MIN_SLOW_SHARE = 0.8
# smaller factors are noise
_MIN_FACTOR = 1.02


class KernelTimes(msgspec.Struct, frozen=True, eq=False):
    """Kernel times of all workers: one row per worker, step and kernel."""

    worker: Int64
    step: Int64
    kernel: Int64
    """Index into ``names``."""
    calls: Int64
    ns: Int64
    names: Sequence[str]
    """Kernel names. The empty name combines all kernels that are not in this list."""


class SlowKernel(msgspec.Struct, frozen=True):
    """A kernel that takes longer on one worker than on other workers, summed over the analyzed steps."""

    name: str
    excess_ns: int
    calls: int
    usual_calls: float
    """Median number of calls on the other workers."""
    factor: float
    """Mean duration divided by the median of the other workers' means. NaN if they do not run the kernel."""


class KernelDifference(msgspec.Struct, frozen=True):
    """Differences between the kernels of one worker and those of other workers."""

    how: str
    """MORE_CALLS, LONGER_CALLS or SLOW_DEVICE; empty if no kernel takes longer."""
    factor: float
    """Slowdown of the whole device if ``how`` is SLOW_DEVICE, else of the first kernel."""
    kernels: tuple[SlowKernel, ...]
    """Kernels that take longer than on other workers, largest difference first."""


def slow_kernels(times: KernelTimes, worker: int, others: Sequence[int], steps: Bool) -> KernelDifference:
    """Compares the kernel times of a worker with the median of the other workers, in the marked steps."""
    everyone = np.array([worker, *others], np.int64)
    place = np.full(int(max(times.worker.max(initial=-1), everyone.max())) + 1, -1)
    place[everyone] = np.arange(len(everyone))
    rows = np.flatnonzero((times.step < len(steps)) & (place[times.worker] >= 0))
    rows = rows[steps[times.step[rows]]]
    shape = (len(everyone), len(times.names))
    at = place[times.worker[rows]] * shape[1] + times.kernel[rows]
    ns, calls = (
        np.bincount(at, weights=column[rows], minlength=shape[0] * shape[1]).reshape(shape)
        for column in (times.ns, times.calls)
    )
    if not len(others) or not ns.any():
        return KernelDifference("", float("nan"), ())
    usual, usual_calls = np.median(ns[1:], axis=0), np.median(calls[1:], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = ns / calls
        # If some others do not call a kernel, the median is over those that do.
        ordinary = np.array(
            [np.median(one[~np.isnan(one)]) if (~np.isnan(one)).any() else np.nan for one in mean[1:].T]
        )
        factor = mean[0] / ordinary
    more = ns[0] - usual
    named = np.array([bool(name) for name in times.names], np.bool_)
    order = [k for k in np.argsort(-more, kind="stable").tolist() if more[k] > 0 and named[k]]
    slow = tuple(
        SlowKernel(times.names[k], round(more[k]), int(calls[0, k]), float(usual_calls[k]), float(factor[k]))
        for k in order
    )
    whole = _common_factor(ns[0], usual, calls[0], usual_calls, named)
    if whole:
        return KernelDifference(SLOW_DEVICE, whole, slow)
    if not slow:
        return KernelDifference("", float("nan"), ())
    first = slow[0]
    how = MORE_CALLS if first.calls > _MIN_FACTOR * first.usual_calls else LONGER_CALLS
    return KernelDifference(how, first.factor, slow)


def _common_factor(mine: Float64, usual: Float64, calls: Float64, usual_calls: Float64, named: Bool) -> float:
    """Returns the factor by which nearly all kernels of the worker are slower than on other workers, or 0."""
    same = named & (usual > 0) & (calls > 0) & (np.abs(calls - usual_calls) <= (_MIN_FACTOR - 1) * usual_calls)
    if same.sum() < _MIN_KERNELS or not usual[named].sum():
        return 0.0
    factor = float(mine[same].sum() / usual[same].sum())
    if factor < _MIN_FACTOR:
        return 0.0
    each = mine[same] / usual[same]
    alike = (each > 1 + (factor - 1) / 2) & (each < 1 + (factor - 1) * 2)
    enough = usual[same][alike].sum() >= _MIN_SLOW_SHARE * usual[named].sum()
    return factor if enough and alike.sum() >= _MIN_KERNELS else 0.0
