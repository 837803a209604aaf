"""Key numbers, histograms and summary sentence of the Launches view."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.idle.launch_metrics import METRICS
from tb_plugin.analysis.idle.launch_table import Launched
from tb_plugin.analysis.idle.queue_depth import Depth
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures, Line, Notice, Notices, Payload, Series

Int64 = npt.NDArray[np.int64]
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
_SHOWN = ("launches", "starved_ns", "launch_api_p50_ns", "launch_queue_p50_ns", "launch_latency_p50_ns")


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
        "capture_ns": int(launches.capture_ns.sum()),
        **_percentiles("launch_api", launches.api_ns),
        **_percentiles("launch_queue", launches.queue_ns),
        **_percentiles("launch_latency", latency),
    }


def _percentiles(key: str, values: Int64) -> Facts:
    p50, p95 = np.percentile(values, (50, 95)) if len(values) else (None, None)
    return {f"{key}_p50_ns": p50 if p50 is None else float(p50), f"{key}_p95_ns": p95 if p95 is None else float(p95)}


def launch_facts(trace: TraceTable, all_of: Facts, depths: list[Depth]) -> Facts:
    """Returns the numbers about launches and about each device's launch queue for reports."""
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


def launch_payloads(launches: Launched, all_of: Facts, depths: list[Depth], todo: str) -> dict[str, Payload]:
    """Returns summary sentence, key numbers and histograms. Without launches, the result is empty.

    ``todo`` is the advice for unrecorded work.
    """
    if not len(launches.row):
        return {}
    figures = [METRICS.figure(key, all_of[key]) for key in _SHOWN]
    if all_of["short_launches"]:  # the rule launch_bound covers the others
        figures.append(METRICS.figure("capture_ns", all_of["capture_ns"], "Graph saving (max)"))
    if len(depths) == 1:
        figures.insert(2, METRICS.figure("starved_ratio", depths[0].starved))
    empty = launches.latency_ns[~launches.is_queued]
    series = (
        _distribution("api_times", "launch_api_ns", launches.api_ns, "all launches"),
        _distribution("queue_times", "launch_queue_ns", launches.queue_ns, "all launches"),
        _distribution("launch_latencies", "launch_latency_ns", empty, "launches on an empty queue"),
    )
    return {
        "launch_answer": Notices("launch_answer", "Launches", "answer", [_answer(all_of, todo)]),
        "launch_summary": Figures("launch_summary", "Launches", "", figures, "headline"),
        **{each.name: each for each in series if len(each.x)},
    }


def _answer(all_of: Facts, todo: str) -> Notice:
    text = "{empty_queue_launches} of {launches} launches found the queue empty, costing {starved_ns} of idle time."
    keys = ["empty_queue_launches", "launches", "starved_ns"]
    if all_of["short_launches"] and all_of["capture_ns"]:
        text += " For {short_launches} launches, the launch took longer than the kernel:"
        text += " capturing these kernels in a graph saves up to {capture_ns}."
        keys += ["short_launches", "capture_ns"]
    if all_of["late_launches"]:
        text += " {late_launches} launches started unusually late."
        keys += ["late_launches"]
    if all_of["behind_launches"]:
        text += " {behind_launches} launches waited for unrecorded work; this counts as queue time, not as latency."
        keys += ["behind_launches"]
    figures: list[Figure] = [METRICS.figure(key, all_of[key]) for key in keys]
    return Notice("launches", "info", text, todo if all_of["behind_launches"] else "", figures)


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
