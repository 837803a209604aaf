"""Counters over time: utilization, queues, memory and recorded series.

Each counter is a step function over the whole trace and is computed once. For display, the values of a counter in a
window are binned (docs/concepts/time.md, "Counters").
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params, Part, bounds_of, int_param
from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.analysis.device_time import busy_title
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.memory.trace_devices import allocators_of
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.recorded_units import unit_and_factor, unit_in_name
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Float64, Int32, Int64
from tb_plugin.lib.groupby import group, places_of, stable_order
from tb_plugin.lib.intervals import union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.lib.step_function import Curve, bin_curve, edges_of, indicator, sum_of_intervals
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Counter, Counters, Metric, Unit
from tb_plugin.views.counters import VIEW

EACH_BIN = "each bin of the window"
_OF_UNITS: Mapping[Unit, tuple[str, str]] = {
    "number": ("recorded_value", "Value"),
    "bytes": ("recorded_bytes", "Bytes"),
    "bytes_per_second": ("recorded_bandwidth", "Bytes per second"),
    "ratio": ("recorded_share", "Share"),
    "ns": ("recorded_ns", "Time"),
    "watts": ("recorded_power", "Power"),
    "celsius": ("recorded_temperature", "Temperature"),
    "hertz": ("recorded_frequency", "Frequency"),
}
METRICS = SHARED.adding(
    define(
        EACH_BIN,
        "count",
        {
            "queue_depth": ("Launch queue depth", "Kernels, copies and memsets that are launched but not started."),
            "stream_queue_depth": (
                "Launch queue depth of a stream",
                "Launch queue depth of one stream (limit: about 1,024).",
            ),
        },
    ),
    define(
        EACH_BIN,
        "bytes_per_second",
        {"copy_bandwidth": ("Copies", "Bytes divided by duration, summed over all running copies.")},
    ),
    *(
        define(EACH_BIN, unit, {key: ("Recorded", f"{what} in the latest counter event.")})
        for unit, (key, what) in _OF_UNITS.items()
    ),
)
# Metrics of recorded series, by unit.
RECORDED: Mapping[Unit, str] = {unit: key for unit, (key, _) in _OF_UNITS.items()}


WIDTH, LEAST, MOST = 800, 50, 4000
LONGEST_LIST = 100
"""Maximum number of counters in a response. If there are more, the response only has the number of the others."""
# Nanoseconds.
PER_SECOND = 1e9

# The name that profilers give the only series of a counter.
_GENERIC_SERIES_NAME = "value"
OTHER_COPIES = ("copies", "Copies, other")


class CountersAnalysis(DeclaredView, entry=VIEW):
    selects = "steps"
    own = ("start_ns", "end_ns", "width")

    def part(self, trace: TraceTable, params: Params) -> Part:
        coverage = select_rows(trace, params.steps).coverage
        start, end = bounds_of(trace, params)
        width = int_param(params, "width")
        bins = min(min(max(WIDTH if width is None else width, LEAST), MOST), end - start)
        return Part(coverage, payloads={"counters": _counters(trace, start, end, bins)}, layout=("counters",))


class _Known(msgspec.Struct, frozen=True, eq=False):
    key: str
    title: str
    subtitle: str
    metric: Metric
    curve: Curve
    device: str | None = None
    process: str | None = None


def _counters(trace: TraceTable, start: int, end: int, bins: int) -> Counters:
    first, last = trace.coverage.start_ns, trace.coverage.end_ns
    # Nothing is known outside the opened window, so no bin has time there.
    edges = np.clip(edges_of(start, end, bins), first, last)
    known, extremes, omitted = _counters_of(trace)
    found = []
    for counter, (low, high) in zip(known, extremes, strict=True):
        values = bin_curve(counter.curve, edges)
        found.append(
            Counter(
                key=counter.key,
                title=counter.title,
                subtitle=counter.subtitle,
                metric=counter.metric,
                device=counter.device,
                process=counter.process,
                mean=_or_null(values.mean),
                low=_or_null(values.low),
                high=_or_null(values.high),
                min=low,
                max=high,
            )
        )
    return Counters(start, end, bins, first, last, found, omitted)


def _or_null(values: Float64) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


@cached_by_argument
def _counters_of(trace: TraceTable) -> tuple[list[_Known], list[tuple[float, float]], int]:
    recorded, further = _recorded(trace)
    counters = [*_of_devices(trace), *_of_memory(trace), *_of_streams(trace), *recorded]
    omitted = max(0, len(counters) - LONGEST_LIST) + further
    counters = counters[:LONGEST_LIST]
    counters.sort(key=lambda counter: _order(trace, counter))
    whole = np.array([trace.coverage.start_ns, trace.coverage.end_ns], np.int64)
    extremes = []
    for counter in counters:
        values = bin_curve(counter.curve, whole)
        low, high = (float(np.nan_to_num(side[0])) for side in (values.low, values.high))
        extremes.append((low, high))
    return counters, extremes, omitted


def _order(trace: TraceTable, counter: _Known) -> tuple[bool, int]:
    ids = [device.id for device in trace.devices]
    return (counter.device is None, ids.index(counter.device) if counter.device in ids else len(ids))


def _of_devices(trace: TraceTable) -> Iterator[_Known]:
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (trace.device != MISSING))
    work = work[stable_order(trace.device[work])]
    devices, first = np.unique(trace.device[work], return_index=True)
    if not len(work):
        return
    args = places_of(trace.device_args.row, len(trace))
    for number, rows in zip(devices.tolist(), np.split(work, first[1:]), strict=True):
        device = trace.devices[number]
        place = f"{device.word} {device.id}" + (f" · {device.name}" if device.name else "")
        for key, title, what, curve in _of_device(trace, rows, args[rows]):
            counter = METRICS.metric(what, title, EACH_BIN)
            yield _Known(f"{key}:{device.id}", counter.title, place, counter, curve, device.id)


def _of_device(trace: TraceTable, rows: Int64, args: Int32) -> Iterator[tuple[str, str, str, Curve]]:
    kind, start = trace.kind[rows], trace.start_ns[rows]
    end = start + trace.dur_ns[rows]
    blocks = np.append(trace.device_args.blocks_per_sm, np.nan)[args]
    size = np.append(trace.device_args.bytes, MISSING)[args]
    kernels = kind == EventKind.KERNEL
    if kernels.any():
        title = busy_title(trace, trace.devices[trace.device[rows[0]]].id)
        yield "utilization", title, "utilization", indicator(union(start[kernels], end[kernels]))
    valued = kernels & (blocks > 0)
    if valued.any():
        # The sum is capped at 1, so parts can be capped first, which avoids infinite sums.
        level = sum_of_intervals(start[valued], end[valued], np.minimum(blocks[valued], 1.0))
        yield "sm_efficiency", "", "sm_efficiency", Curve(level.time_ns, np.minimum(level.value, 1.0), 0.0)
    launched = rows[trace.launch[rows] != MISSING]
    if len(launched):
        depth = sum_of_intervals(trace.start_ns[trace.launch[launched]], trace.start_ns[launched])
        yield "queue_depth", "", "queue_depth", depth
    copies = (kind == EventKind.MEMCPY) & (size > 0) & (end > start)
    goes = np.full(len(rows), MISSING, np.int64)
    goes[copies] = directions_of(trace, rows[copies])
    for place, direction in enumerate(DIRECTIONS):
        those = goes == place
        yield from _copies(direction.key, f"Copies, {direction.words}", start[those], end[those], size[those])
    copies &= goes == MISSING
    yield from _copies(*OTHER_COPIES, start[copies], end[copies], size[copies])


def _of_streams(trace: TraceTable) -> list[_Known]:
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (trace.device != MISSING) & (trace.launch != MISSING))
    streams = hardware_streams(trace)
    rows = rows[stable_order(streams.of[rows])]
    numbers, first = np.unique(streams.of[rows], return_index=True)
    found: dict[int, list[_Known]] = defaultdict(list)
    for number, mine in zip(numbers.tolist(), np.split(rows, first[1:]), strict=False):
        curve = sum_of_intervals(trace.start_ns[trace.launch[mine]], trace.start_ns[mine])
        if curve.value.max(initial=0.0) < 2:
            continue
        device, stream = int(trace.device[mine[0]]), streams.names[number]
        word, place = trace.devices[device].word, trace.devices[device].id
        what = METRICS.metric("stream_queue_depth", f"Launch queue depth, stream {stream}", EACH_BIN)
        key = f"stream_queue_depth:{json.dumps([place, stream])}"
        found[device].append(_Known(key, what.title, f"{word} {place}", what, curve, place))
    return [counter for of_device in found.values() if len(of_device) > 1 for counter in of_device]


def _copies(key: str, title: str, start: Int64, end: Int64, size: Int64) -> Iterator[tuple[str, str, str, Curve]]:
    if len(start):
        yield key, title, "copy_bandwidth", sum_of_intervals(start, end, size * (PER_SECOND / (end - start)))


def _of_memory(trace: TraceTable) -> Iterator[_Known]:
    ids = {device.ordinal: device.id for device in trace.devices if device.ordinal is not None}
    for of in allocators_of(trace):
        device = None if of.is_host else ids.get(of.number)
        what = METRICS.metric("allocated_bytes" if of.has_totals else "change_bytes", window=EACH_BIN)
        curve = Curve(of.time_ns, of.allocated.astype(np.float64), float(of.before))
        yield _Known(f"allocated:{of.name}", _of_memory_title(what), of.name, what, curve, device)
        if (of.reserved > 0).any():
            what = METRICS.metric("reserved_bytes", window=EACH_BIN)
            curve = Curve(of.time_ns, np.where(of.reserved == MISSING, np.nan, of.reserved))
            yield _Known(f"reserved:{of.name}", _of_memory_title(what), of.name, what, curve, device)


def _of_memory_title(what: Metric) -> str:
    # "Change" alone does not name the measured quantity.
    return f"Memory, {what.title[0].lower()}{what.title[1:]}"


def _recorded(trace: TraceTable) -> tuple[list[_Known], int]:
    counters = trace.counters
    groups = group(counters.pid, counters.name, counters.series)
    size = groups.count()
    order = stable_order(groups.of)
    begin = np.cumsum(size) - size
    devices = {track.pid for track in trace.tracks if track.is_device}
    devices -= {track.pid for track in trace.tracks if not track.is_device}
    processes = {track.pid: track.process for track in trace.tracks}
    said = _units_and_devices(trace)
    found = []
    for number in np.argsort(-size, kind="stable")[:LONGEST_LIST].tolist():
        rows = order[begin[number] : begin[number] + size[number]]
        ids = tuple(int(column[rows[0]]) for column in (counters.pid, counters.name, counters.series))
        pid, name, series = (trace.strings[each] for each in ids)
        stated, device = said.get(ids, ("", ""))
        unit, factor = unit_and_factor(stated) or unit_in_name(series) or unit_in_name(name) or ("number", 1.0)
        title = name if series in ("", name, _GENERIC_SERIES_NAME) else f"{name} · {series}"
        found.append(
            _Known(
                key=f"recorded:{json.dumps([pid, name, series])}",
                title=f"{title} ({stated})" if stated and unit == "number" else title,
                subtitle=f"device {device}" if device else processes.get(pid) or f"process {pid}",
                metric=METRICS.metric(RECORDED[unit], window=EACH_BIN),
                curve=Curve(counters.time_ns[rows], counters.value[rows] * factor),
                device=device or (pid if pid in devices else None),
                process=pid,
            )
        )
    return found, len(groups) - len(found)


def _units_and_devices(trace: TraceTable) -> dict[tuple[int, ...], tuple[str, str]]:
    said = trace.counter_series
    keys = zip(*(column.tolist() for column in (said.pid, said.name, said.series)), strict=True)
    texts = [["" if i == MISSING else trace.strings[i] for i in ids.tolist()] for ids in (said.unit, said.device)]
    return dict(zip(keys, zip(*texts, strict=True), strict=True))
