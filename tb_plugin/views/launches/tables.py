"""Tables, key numbers and histograms of launches, launch queues and repeated sequences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.metrics import PER_STEP
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.groupby import Groups, group, ratio
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Figures, Line, Metric, Notice, Notices, Payload, Series, Sort
from tb_plugin.views.launches.launch_table import Depth, Launched
from tb_plugin.views.launches.metrics import METRICS
from tb_plugin.views.launches.repeated_sequences import Repeat, repeated_sequences

# Maximum number of late launches in the table, longest latency first.
LATE_LISTED = 200
# Separates the kernels of a sequence.
ARROW = " → "
_MEDIANS = ("launch_api_p50_ns", "launch_queue_p50_ns", "launch_latency_p50_ns")
_EVENT = Metric("event", "Event", "count", "Timeline number of the first kernel.")


def by_kernel(trace: TraceTable, launches: Launched) -> Frame:
    groups = group(trace.name[launches.row])
    name = trace.strings.take(trace.name[launches.row[groups.first]])
    readable = pa.array(readable_names(name.to_pylist()), pa.large_string())
    extra = {"readable": readable} if readable.null_count < len(readable) else {}
    return _grouped("launch_kernels", "Launches by kernel", "name", name, launches, groups, extra)


def by_operator(trace: TraceTable, launches: Launched) -> Frame:
    names = np.append(trace.name, MISSING)[trace.operator[launches.row]].astype(np.int64)
    groups = group(names)
    operator = pc.fill_null(trace.strings.take(names[groups.first]), NO_OPERATOR)
    return _grouped("launch_operators", "Launches by operator", "operator", operator, launches, groups, {})


def _grouped(
    name: str, title: str, key: str, labels: pa.Array, launches: Launched, groups: Groups, extra: dict[str, pa.Array]
) -> Frame:
    api_p50, api_p95 = groups.percentiles(launches.api_ns, 0.5, 0.95)
    queue_p50, queue_p95 = groups.percentiles(launches.queue_ns, 0.5, 0.95)
    latency_p50, latency_p95 = _latencies(launches, groups)
    data = {
        key: labels,
        "launches": pa.array(groups.count()),
        "starved_ns": pa.array(groups.sum(launches.starved_ns)),
        "capture_ns": pa.array(groups.sum(launches.capture_ns)),
        "short_launches": pa.array(groups.sum(launches.is_short.astype(np.int64))),
        "empty_queue_launches": pa.array(groups.sum((~launches.is_queued).astype(np.int64))),
        "launch_api_ns": pa.array(groups.sum(launches.api_ns)),
        "launch_api_p50_ns": pa.array(api_p50),
        "launch_queue_p50_ns": pa.array(queue_p50),
        "launch_latency_p50_ns": latency_p50,
        "late_launches": pa.array(groups.sum(launches.is_outlier.astype(np.int64))),
        "launch_api_p95_ns": pa.array(api_p95),
        "launch_queue_p95_ns": pa.array(queue_p95),
        "launch_latency_p95_ns": latency_p95,
        **extra,
    }
    # Ten numbers leave no room for names, so half of them start hidden.
    shown = (key, "launches", "starved_ns", "capture_ns", "short_launches", *_MEDIANS)
    hidden = tuple(column for column in data if column not in shown)
    columns = METRICS.columns(*data, hidden=hidden, share=("starved_ns",))
    order = [("starved_ns", "descending"), ("launch_api_ns", "descending"), (key, "ascending")]
    return Frame(name, title, columns, sorted_by(pa.table(data), order), (key,), key, Sort("starved_ns", True))


def _latencies(launches: Launched, groups: Groups) -> list[pa.Array]:
    empty = np.flatnonzero(~launches.is_queued)
    inner = group(groups.of[empty])
    found = []
    for values in inner.percentiles(launches.latency_ns[empty], 0.5, 0.95):
        spread: Float64 = np.full(len(groups), np.nan)
        spread[groups.of[empty[inner.first]]] = values
        found.append(pa.array(spread, mask=np.isnan(spread)))
    return found


def late_launches(trace: TraceTable, launches: Launched) -> Frame:
    """Returns unusually late launches into an empty queue, sorted by latency, longest first."""
    at = np.flatnonzero(launches.is_outlier)
    outliers = launches.of(at[np.lexsort((launches.row[at], -launches.latency_ns[at]))[:LATE_LISTED]])
    operator = np.append(trace.name, MISSING)[trace.operator[outliers.row]].astype(np.int64)
    returned = trace.start_ns[outliers.call] + outliers.api_ns
    data = {
        "name": trace.strings.take(trace.name[outliers.row]),
        "launch_latency_ns": pa.array(outliers.latency_ns),
        "latency_limit_ns": pa.array(outliers.limit_ns),
        "launch_api_ns": pa.array(outliers.api_ns),
        "operator": trace.strings.take(operator),
        "device": _devices(trace, trace.device[outliers.row]),
        "start_ns": pa.array(returned),
        "dur_ns": pa.array(trace.start_ns[outliers.row] - returned),
        "event": pa.array(outliers.row),
    }
    shown = [key for key in data if key != "event"]
    columns = [*METRICS.columns(*shown, hidden=("dur_ns",)), Column(_EVENT, hidden=True)]
    return Frame(
        "late_launches", "Late launches", columns, pa.table(data), ("event",), "name", Sort("launch_latency_ns", True)
    )


def _devices(trace: TraceTable, device: npt.NDArray[np.integer]) -> pa.Array:
    ids = pa.array([*(each.id for each in trace.devices), None], pa.string())
    return ids.take(pa.array(np.where(device == MISSING, len(ids) - 1, device).astype(np.int64)))


def queues(trace: TraceTable, depths: list[Depth]) -> Frame:
    data = {
        "device": _devices(trace, np.array([each.device for each in depths], np.int64)),
        "depth_mean": pa.array([each.mean for each in depths], pa.float64()),
        "depth_p95": pa.array([each.p95 for each in depths], pa.int64()),
        "starved_ratio": pa.array([each.starved for each in depths], pa.float64()),
        "shallow_ratio": pa.array([each.shallow for each in depths], pa.float64()),
        "blocked_ratio": pa.array([each.blocked for each in depths], pa.float64()),
    }
    return Frame("queue_depths", "Queues", METRICS.columns(*data), pa.table(data), ("device",), "device")


def sequences(trace: TraceTable, chosen: npt.NDArray[np.bool_]) -> Frame:
    """Returns the repeated sequences of the selected kernels, sorted by gap time, longest first."""
    found = repeated_sequences(trace, chosen)
    first = np.array([each.first[0] for each in found], np.int64)
    last = np.array([each.rows[-1] for each in found], np.int64)
    kernel = np.array([each.kernel_ns for each in found], np.int64)
    gaps = np.array([each.gaps_ns for each in found], np.int64)
    streams = hardware_streams(trace)
    names = [streams.names[number] for number in streams.of[first].tolist()]
    data = {
        "kernel_sequence": pa.array([_names(trace, each) for each in found], pa.large_string()),
        "repeats": pa.array([len(each.first) for each in found], pa.int64()),
        "sequence_length": pa.array([each.length for each in found], pa.int64()),
        "sequence_gaps_ns": pa.array(gaps),
        "sequence_ns": pa.array(kernel),
        "stream_ratio": pa.array(ratio(kernel + gaps, _lengths(trace, chosen)[streams.of[first]])),
        "stream": pa.array(names, pa.string()),
        "device": _devices(trace, trace.device[first]),
        "start_ns": pa.array(trace.start_ns[first]),
        "dur_ns": pa.array(trace.ends(last) - trace.start_ns[first]),
        "event": pa.array(first),
    }
    shown = [key for key in data if key != "event"]
    one = len(set(trace.device[first].tolist())) < 2
    hidden = ("dur_ns", *(("device",) if one else ()))
    titles = {"start_ns": "First start", "dur_ns": "First duration"}
    columns = METRICS.columns(*shown, hidden=hidden, share=("sequence_gaps_ns",), titles=titles)
    return Frame(
        "kernel_sequences", "Repeated sequences", [*columns, Column(_EVENT, hidden=True)], pa.table(data), ("event",),
        "kernel_sequence", Sort("sequence_gaps_ns", True),
    )  # fmt: skip


def _names(trace: TraceTable, repeat: Repeat) -> str:
    names = trace.strings.take(trace.name[repeat.rows]).to_pylist()
    readable = readable_names(names)
    return ARROW.join(str(better or name) for name, better in zip(names, readable, strict=True))


def _lengths(trace: TraceTable, chosen: npt.NDArray[np.bool_]) -> Int64:
    streams = hardware_streams(trace)
    rows = covered_work(trace)
    rows = rows[chosen[rows] & (trace.kind[rows] == EventKind.KERNEL)]
    first, last = np.full(len(streams.names), np.iinfo(np.int64).max), np.zeros(len(streams.names), np.int64)
    np.minimum.at(first, streams.of[rows], trace.start_ns[rows])
    np.maximum.at(last, streams.of[rows], trace.ends(rows))
    length: Int64 = np.maximum(last - first, 0)
    return length


Facts = Mapping[str, int | float | None]

_FACTS = {
    "launch.count": "launches",
    "launch.empty_queue": "empty_queue_launches",
    "launch.short": "short_launches",
    "launch.late": "late_launches",
    "launch.api_ns": "launch_api_ns",
    "launch.api_p50_ns": "launch_api_p50_ns",
    "launch.api_p95_ns": "launch_api_p95_ns",
    "launch.queue_p50_ns": "launch_queue_p50_ns",
    "launch.queue_p95_ns": "launch_queue_p95_ns",
    "launch.latency_p50_ns": "launch_latency_p50_ns",
    "launch.latency_p95_ns": "launch_latency_p95_ns",
    "launch.starved_ns": "starved_ns",
    "launch.capture_ns": "capture_ns",
}


def totals(launches: Launched) -> Facts:
    """Returns totals and percentiles of the launches, by metric key. Without launches, percentiles are None."""
    latency = launches.latency_ns[~launches.is_queued]
    return {
        "launches": len(launches.row),
        "empty_queue_launches": len(latency),
        "short_launches": int(launches.is_short.sum()),
        "late_launches": int(launches.is_outlier.sum()),
        "behind_launches": int(launches.is_behind.sum()),
        "launch_api_ns": int(launches.api_ns.sum()),
        "starved_ns": int(launches.starved_ns.sum()),
        "empty_queue_idle_ns": int(launches.starved_ns[~launches.is_queued].sum()),
        "capture_ns": int(launches.capture_ns.sum()),
        **_percentiles("launch_api", launches.api_ns),
        **_percentiles("launch_queue", launches.queue_ns),
        **_percentiles("launch_latency", latency),
    }


def _percentiles(key: str, values: Int64) -> Facts:
    p50, p95 = np.percentile(values, (50, 95)) if len(values) else (None, None)
    return {f"{key}_p50_ns": p50 if p50 is None else float(p50), f"{key}_p95_ns": p95 if p95 is None else float(p95)}


def launch_facts(trace: TraceTable, all_of: Facts, depths: list[Depth]) -> Facts:
    facts = {fact: all_of[key] for fact, key in _FACTS.items()}
    for each in depths:
        device = trace.devices[each.device].id if each.device >= 0 else ""
        facts |= {
            f"launch.{device}.depth_mean": each.mean,
            f"launch.{device}.depth_p95": each.p95,
            f"launch.{device}.starved_ratio": each.starved,
            f"launch.{device}.shallow_ratio": each.shallow,
            f"launch.{device}.blocked_ratio": each.blocked,
        }
    return facts


def launch_payloads(launches: Launched, all_of: Facts, depths: list[Depth], word: str, todo: str) -> dict[str, Payload]:
    """Returns key numbers, summary sentence and a histogram.

    ``word`` is the word for the devices. ``todo`` is the advice for unrecorded work.
    """
    if not len(launches.row):
        return {}
    figures = [
        METRICS.figure("starved_ns", all_of["starved_ns"], f"{word} idle before launches"),
        *([METRICS.figure("starved_ratio", depths[0].starved, note="of the time")] if len(depths) == 1 else ()),
        METRICS.figure("launch_api_p50_ns", all_of["launch_api_p50_ns"]),
        METRICS.figure("launch_latency_p50_ns", all_of["launch_latency_p50_ns"]),
    ]
    if all_of["short_launches"] and all_of["capture_ns"]:  # the rule launch_bound covers the others
        figures.append(METRICS.figure("capture_ns", all_of["capture_ns"]))
    queue = _distribution("queue_times", "launch_queue_ns", launches.queue_ns, "all launches")
    return {
        "launch_summary": Figures("launch_summary", "Launches", "", figures, "headline"),
        "launch_answer": Notices("launch_answer", "Launches", "answer", [_answer(all_of, word, todo)]),
        **({queue.name: queue} if len(queue.x) else {}),
    }


def _answer(all_of: Facts, word: str, todo: str) -> Notice:
    count = all_of["launches"] or 0
    text = f"{{empty_queue_launches_ratio}} of {{launches}} launches{PER_STEP} found an empty queue."
    if all_of["empty_queue_launches"]:
        text += f" Before these launches, the {word} was idle for {{starved_ns}}{PER_STEP}."
    figures = [
        METRICS.figure("empty_queue_launches_ratio", (all_of["empty_queue_launches"] or 0) / count),
        METRICS.figure("launches", count),
        METRICS.figure("starved_ns", all_of["empty_queue_idle_ns"], "Idle before launches that found the queue empty"),
    ]
    if all_of["short_launches"] and all_of["capture_ns"]:
        text += " {short_launches_ratio} of the launches took longer than their kernel: "
        text += f"capturing these kernels in a graph saves up to {{capture_ns}}{PER_STEP}."
        figures.append(METRICS.figure("short_launches_ratio", (all_of["short_launches"] or 0) / count))
        figures.append(METRICS.figure("capture_ns", all_of["capture_ns"]))
    if late := all_of["late_launches"]:
        text += f" {count_with_noun(int(late), 'launch', 'launches')} started unusually late."
    if behind := all_of["behind_launches"]:
        text += f" {count_with_noun(int(behind), 'launch', 'launches')} waited for unrecorded work; "
        text += "this counts as queue time, not as latency."
    return Notice("launches", "info", text, todo if behind else "", figures)


def _distribution(name: str, key: str, values: Int64, what: str) -> Series:
    edges, bins = [0], (1, 2, 5)
    power = 1_000
    while len(values) and edges[-1] <= int(values.max()):
        edges += [power * each for each in bins]
        power *= 10
    while len(edges) > 2 and edges[-2] > int(values.max()):
        edges.pop()
    counts = np.histogram(values, edges)[0].tolist() if len(values) else []
    metric = METRICS.metric(key)
    x: list[int | float | str] = [*edges] if counts else []
    return Series(
        name, metric.title, what, metric, x, [Line(METRICS.metric("launches"), "kernel", counts)], "histogram"
    )
