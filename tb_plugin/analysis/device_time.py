"""Device time: exact breakdown of the window, and utilization ratios.

The ratios over steps are defined as in the old plugin (torch-tb-profiler).
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.busy_intervals import covered_work, device_busy
from tb_plugin.analysis.graphs.attribution import has_operator
from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.matrix_unit import has_matrix_unit, matrix_time
from tb_plugin.analysis.selection import chosen_steps, select_rows, steps_of
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.intervals import Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.model.trace.steps.windows import PROFILER
from tb_plugin.model.trace.table import Steps, TraceTable


class DeviceTime(msgspec.Struct, frozen=True):
    """Times and event counts of one device, over the entire trace and all streams. Times are in nanoseconds.

    ``compute + exposed_communication + exposed_memcpy + exposed_memset + unrecorded + idle == window`` exactly.
    """

    window_ns: int
    busy_ns: int
    unrecorded_ns: int
    idle_ns: int
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    memcpy_ns: int
    exposed_memcpy_ns: int
    memset_ns: int
    exposed_memset_ns: int
    no_operator_ns: int
    kernels: int
    memcpys: int
    memsets: int
    unlaunched: int


@cached_by_argument
def device_time(trace: TraceTable, device: int) -> DeviceTime | None:
    """Returns the times of a device, None if the device ran no work. ``device`` is an index into ``trace.devices``."""
    rows = _work_of(trace, device)
    if not len(rows):
        return None
    kind, start, end = trace.kind[rows], trace.start_ns[rows], trace.ends(rows)
    collective = trace.is_collective[rows] & (kind == EventKind.KERNEL)

    def when(chosen: Bool) -> Ranges:
        return union(start[chosen], end[chosen])

    compute = when((kind == EventKind.KERNEL) & ~collective)
    communication = when(collective)
    memcpy, memset = when(kind == EventKind.MEMCPY), when(kind == EventKind.MEMSET)
    kernels = join(compute, communication)
    but_set = join(kernels, memcpy)
    busy = measure(device_busy(trace)[device])
    window = int(end.max() - start.min())
    unrecorded = int(
        measure_within(unrecorded_work(trace, device), start.min(keepdims=True), end.max(keepdims=True))[0]
    )
    return DeviceTime(
        window_ns=window,
        busy_ns=busy,
        unrecorded_ns=unrecorded,
        idle_ns=window - busy - unrecorded,
        compute_ns=measure(compute),
        communication_ns=measure(communication),
        exposed_communication_ns=measure(subtract(communication, compute)),
        memcpy_ns=measure(memcpy),
        exposed_memcpy_ns=measure(subtract(memcpy, kernels)),
        memset_ns=measure(memset),
        exposed_memset_ns=measure(subtract(memset, but_set)),
        no_operator_ns=int(trace.dur_ns[without_operator(trace, rows)].sum()),
        kernels=int((kind == EventKind.KERNEL).sum()),
        memcpys=int((kind == EventKind.MEMCPY).sum()),
        memsets=int((kind == EventKind.MEMSET).sum()),
        unlaunched=int((trace.launch[rows] == MISSING).sum()),
    )


@cached_by_argument
def compute_by_class(trace: TraceTable, device: int) -> dict[KernelClass, int]:
    """Returns the compute time by kernel class. The sum of these times is ``DeviceTime.compute_ns``.

    When kernels of several classes run at the same time, this time is attributed to the class with the most kernel
    time overall.
    """
    rows = _work_of(trace, device)
    rows = rows[(trace.kind[rows] == EventKind.KERNEL) & ~trace.is_collective[rows]]
    kernel_class = classify_kernels(trace).of(trace.name[rows])
    # A kernel whose name usually communicates but here does not: its class is unknown.
    kernel_class = np.where(kernel_class == KernelClass.COMMUNICATION, KernelClass.OTHER, kernel_class)
    start, end = trace.start_ns[rows], trace.ends(rows)
    ranges = {
        KernelClass(each): union(start[kernel_class == each], end[kernel_class == each])
        for each in np.unique(kernel_class).tolist()
    }
    covered, parts = union(start[:0], end[:0]), {}
    for each in sorted(ranges, key=lambda each: -measure(ranges[each])):
        parts[each] = measure(subtract(ranges[each], covered))
        covered = join(covered, ranges[each])
    return parts


def _work_of(trace: TraceTable, device: int) -> Int64:
    rows = covered_work(trace)
    own: Int64 = rows[trace.device[rows] == device]
    return own


def without_operator(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the device rows that have no operator. Rows that were launched before the loaded window are excluded."""
    launch = trace.launch[rows]
    known = (launch == MISSING) | (trace.start_ns[launch] >= trace.coverage.start_ns)
    unmatched: Int64 = rows[~has_operator(trace, rows) & known]
    return unmatched


def device_word(trace: TraceTable, *chosen: str) -> str:
    """Returns "GPU" or "NPU" for these device ids (default: with kernels), "Device" if mixed or of another kind."""
    words = {device.word for device in trace.devices if device.id in (chosen or _with_kernels(trace))}
    return words.pop() if len(words) == 1 else "Device"


@cached_by_argument
def _with_kernels(trace: TraceTable) -> frozenset[str]:
    kernels = trace.device[trace.kind == EventKind.KERNEL]
    count = np.bincount(kernels[kernels != MISSING], minlength=len(trace.devices))
    return frozenset(device.id for device, ran in zip(trace.devices, count, strict=True) if ran)


def device_noun(trace: TraceTable) -> str:
    """Returns "GPU", "NPU" or "device", for sentences."""
    word = device_word(trace)
    return "device" if word == "Device" else word


def busy_title(trace: TraceTable, *chosen: str) -> str:
    """Returns "GPU busy", "NPU busy" or "Device busy" (see ``device_word``)."""
    return f"{device_word(trace, *chosen)} busy"


class DeviceRatios(msgspec.Struct, frozen=True):
    """Ratios of one device, from 0 to 1. Their definitions are those of the old plugin. None if a ratio is not available."""

    utilization: float | None
    sm_efficiency: float | None
    occupancy: float | None
    tensor_core_ratio: float | None
    matrix_unknown_ratio: float | None


@cached_by_argument
def device_ratios(trace: TraceTable, device: int, steps: tuple[str, ...] | None) -> DeviceRatios:
    """Returns the ratios over the steps with these labels. ``None`` selects all steps. Raises BadRequest for
    unknown steps.

    Pauses between recording cycles are excluded. The matrix unit ratios include only the device's kernels in these
    steps.
    """
    chosen, times = select_rows(trace, steps).of(trace, EventKind.KERNEL), steps_of(trace, steps)
    kernels = np.flatnonzero((trace.device == device) & (trace.kind == EventKind.KERNEL))
    matrix = matrix_time(trace, chosen[trace.device[chosen] == device])
    on_matrix, unknown = matrix.used_ratio, matrix.unknown_ratio
    if not has_matrix_unit(trace, device):
        on_matrix = unknown = None
    windows = subtract(_recorded_cycles(times, chosen_steps(trace, steps)), unrecorded_work(trace, device))
    length = measure(windows)
    if not len(kernels) or not length:
        return DeviceRatios(None, None, None, on_matrix, unknown)
    start, end = trace.start_ns[kernels], trace.ends(kernels)
    blocks, occupancy = _launch_facts(trace, kernels)
    return DeviceRatios(
        utilization=measure(intersect(union(start, end), windows)) / length,
        sm_efficiency=_sm_efficiency(start, end, blocks, windows),
        occupancy=_weighted_mean(occupancy, measure_within(windows, start, end)),
        tensor_core_ratio=on_matrix,
        matrix_unknown_ratio=unknown,
    )


def _recorded_cycles(steps: Steps, places: list[int]) -> Ranges:
    """Returns the time of consecutive steps. Missing step numbers mean that the recording was paused."""
    apart = np.diff(places) != 1
    if steps.source == PROFILER:
        numbers = [int(label[:18]) if label.isdecimal() else -1 for label in steps.label]
        apart |= np.diff(numbers) != 1
    first, last = np.append(True, apart), np.append(apart, True)
    return union(steps.start_ns[first[: len(places)]], steps.end_ns[last[: len(places)]])


def _launch_facts(trace: TraceTable, kernels: Int64) -> tuple[Float64, Float64]:
    """Returns blocks per SM and occupancy of each kernel, NaN if not recorded."""
    blocks, occupancy = np.full(len(trace), np.nan), np.full(len(trace), np.nan)
    blocks[trace.device_args.row] = trace.device_args.blocks_per_sm
    occupancy[trace.device_args.row] = trace.device_args.occupancy
    return blocks[kernels], occupancy[kernels]


def _sm_efficiency(start: Int64, end: Int64, blocks: Float64, windows: Ranges) -> float | None:
    """Returns the mean over time of min(1, sum of blocks per SM of running kernels), None if none is recorded."""
    valued = (blocks > 0) & (end > start)
    if not valued.any():
        return None
    count = int(valued.sum())
    times = np.concatenate((start[valued], end[valued]))
    change = np.concatenate((blocks[valued], -blocks[valued]))
    running = np.concatenate((np.ones(count, np.int64), -np.ones(count, np.int64)))
    order = np.argsort(times, kind="stable")  # at equal times starts come before ends
    left, right = times[order][:-1], times[order][1:]
    # Without kernels the float sum is rounding residue.
    level = np.where(np.cumsum(running[order])[:-1] > 0, np.cumsum(change[order])[:-1], 0.0)
    length = measure_within(windows, left, right)
    covered = (length > 0) & (level > 0)
    if not covered.any():
        return None
    return float((np.minimum(level, 1.0) * length)[covered].sum() / measure(windows))


def _weighted_mean(values: Float64, weight: Int64) -> float | None:
    known = ~np.isnan(values)
    total = int(weight[known].sum())
    return float((values[known] * weight[known]).sum() / total) if total else None
