"""What the plan fixes for one worker."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from events import Json

from .config import CELL_NS, CLASSES, NO_OPERATOR
from .recorder import Activity, OperatorTruth, Recorder


def paint(activities: list[Activity], start: int, end: int) -> dict[str, int]:
    """Colour the cells from start to end and count them: each class alone, then by priority, then none.

    Painting is the whole algorithm: a cell that two kernels cover is still one cell, and the class painted last
    (the one of highest priority) is the one that shows.
    """
    counted: dict[str, int] = {}
    canvas = bytearray(end - start)
    for colour, kind in reversed(list(enumerate(CLASSES, start=1))):
        alone = bytearray(end - start)
        for activity in activities:
            first, last = max(activity.start, start) - start, min(activity.end, end) - start
            if activity.kind == kind and first < last:
                alone[first:last] = b"\1" * (last - first)
                canvas[first:last] = bytes([colour]) * (last - first)
        counted[f"{kind}_ns"] = alone.count(1) * CELL_NS
    for colour, kind in enumerate(CLASSES, start=1):
        counted[f"{kind}_exposed_ns"] = canvas.count(colour) * CELL_NS
    counted["idle_ns"] = canvas.count(0) * CELL_NS
    counted["busy_ns"] = (end - start) * CELL_NS - counted["idle_ns"]
    return counted


def device_truth(recorder: Recorder) -> Json:
    """The time account of one device over its window (first start to last end of any work on it)."""
    activities = sorted(recorder.activities, key=lambda a: a.start)
    first, last = activities[0].start, max(a.end for a in activities)
    starts = [a.start for a in activities]
    longest = max(a.cells for a in activities)
    edges = (edge for _, start, end in recorder.step_windows for edge in (start, end))
    bounds = sorted({first, last, *(min(last, max(first, edge)) for edge in edges)})
    total: dict[str, int] = {}
    for left, right in pairwise(bounds):
        near = activities[bisect_left(starts, left - longest) : bisect_left(starts, right)]
        for key, value in paint(near, left, right).items():
            total[key] = total.get(key, 0) + value
    counts = {kind: sum(a.kind == kind for a in activities) for kind in CLASSES}
    return {
        "window_start_ns": recorder.ns(first), "window_ns": (last - first) * CELL_NS, **dict(sorted(total.items())),
        "kernels": counts["compute"] + counts["communication"], "communication_kernels": counts["communication"],
        "memcpys": counts["memcpy"], "memsets": counts["memset"], "unlaunched": sum(not a.launched for a in activities),
    }  # fmt: skip


def _kernels_by_name(activities: list[Activity]) -> Json:
    found: dict[str, dict[str, int]] = {}
    for activity in activities:
        if activity.kind in {"compute", "communication"}:
            entry = found.setdefault(activity.name, {"calls": 0, "total_ns": 0})
            entry["calls"] += 1
            entry["total_ns"] += activity.cells * CELL_NS
    return dict(sorted(found.items()))


def truth_of(recorder: Recorder) -> Json:
    """Every figure the plan fixes for one worker, in integer nanoseconds; times count from baseTimeNanoseconds."""
    own = OperatorTruth()
    for activity in recorder.activities:
        owner = recorder.operators[activity.owners[-1]] if activity.owners else own
        owner.device_self += activity.cells
        for name in set(activity.owners):
            recorder.operators[name].device_total += activity.cells
        for name in activity.modules:
            module = recorder.modules[name]
            if activity.backward:
                module.backward_device += activity.cells
            else:
                module.forward_device += activity.cells
    steps = []
    for name, start, end in recorder.step_windows:
        number = int(name.partition("#")[2])
        near = [a for a in recorder.activities if a.start < end and a.end > start]
        launched = [a for a in recorder.activities if a.step == number and a.launched]
        steps.append(
            {
                "name": name, "start_ns": recorder.ns(start), "dur_ns": (end - start) * CELL_NS,
                "device_work_launched_ns": sum(a.cells for a in launched) * CELL_NS,
                "device_in_window": paint(near, start, end),
            }
        )  # fmt: skip
    operators = {
        name: {
            "calls": o.calls, "host_self_ns": o.host_self * CELL_NS, "host_total_ns": o.host_total * CELL_NS,
            "host_runtime_ns": o.host_runtime * CELL_NS, "device_self_ns": o.device_self * CELL_NS,
            "device_total_ns": o.device_total * CELL_NS,
        }
        for name, o in sorted(recorder.operators.items())
    }  # fmt: skip
    modules = {
        name: {
            "calls": m.calls, "host_total_ns": m.host_total * CELL_NS, "forward_device_ns": m.forward_device * CELL_NS,
            "backward_device_ns": m.backward_device * CELL_NS,
        }
        for name, m in recorder.modules.items()
    }  # fmt: skip
    return {
        "rank": recorder.rank,
        "counts": recorder.counts,
        "devices": {str(recorder.device): device_truth(recorder)},
        "steps": steps,
        "operators": operators,
        "device_self_without_operator_ns": own.device_self * CELL_NS,
        "device_self_by_operator_ns": {
            NO_OPERATOR: own.device_self * CELL_NS,
            **{name: o["device_self_ns"] for name, o in operators.items() if o["device_self_ns"]},
        },
        "modules": modules,
        "kernels_by_name": _kernels_by_name(recorder.activities),
        "memory": {"peak_allocated_bytes": {"gpu": recorder.peak["gpu"], "cpu": recorder.peak["cpu"]}},
        "collectives": recorder.collectives,
    }
