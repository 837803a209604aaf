"""Writes what a machine has recorded as Kineto's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from events import H100, H100_LIMITS, Timeline, distributed_info

from .hardware import SECOND, Row
from .kernels import WORLD
from .machine import Machine

BASE_NS = 1_790_857_026_000_000_000
ORIGIN_NS = 4_343_762_354_917
"""Of the program's begin, after BASE_NS: small enough that microseconds of three digits are exact as a double."""


def _at(ns: int) -> float:
    return (ORIGIN_NS + ns) / 1000


def _devices(machine: Machine) -> int:
    """How many devices the program uses."""
    return 1 + any(row.track >= SECOND for row in machine.device_rows)


def _on_device(row: Row) -> tuple[int, int]:
    """Device and stream of a row."""
    return divmod(row.track, SECOND) if row.track >= 0 else (0, row.track)


def _add_names(timeline: Timeline, machine: Machine) -> None:
    pid = machine.main.tid

    def named(what: str, process: int, track: int, key: str, value: str) -> None:
        timeline.metadata(what, process, track, _at(0), {key: value})

    named("process_name", pid, 0, "name", "python")
    named("process_labels", pid, 0, "labels", "CPU")
    for device in range(_devices(machine)):
        named("process_name", device, 0, "name", "python")
        named("process_labels", device, 0, "labels", f"GPU {device}")
    for device, stream in sorted({divmod(row.track, SECOND) for row in machine.device_rows if row.track >= 0}):
        named("thread_name", device, stream, "name", f"stream {stream} ")
    threads = (machine.main, machine.autograd, machine.replica, machine.replica_autograd)
    for thread in threads[: 2 * _devices(machine)]:
        named("thread_name", pid, thread.tid, "name", f"thread {thread.tid} ({thread.name})")


def _add(timeline: Timeline, rows: Iterable[Row], process: int | None) -> None:
    """Adds the rows of a process; without one, those of devices."""
    for row in rows:
        pid, tid = _on_device(row) if process is None else (process, row.track)
        timeline.span(row.category, row.name, _at(row.start), (row.end - row.start) / 1000, pid, tid, row.args)
        for phase, category, number in row.flows:
            timeline.flow(phase, category, number, _at(row.start), pid, tid)


def _add_projected(timeline: Timeline, machine: Machine) -> None:
    """Adds the annotations once more, on the streams that they had work on."""
    for (name, external), streams in machine.annotated.items():
        for stream, (begin, end) in streams.items():
            where = divmod(stream, SECOND)
            args = {"External id": external}
            timeline.span("gpu_user_annotation", name, _at(begin), (end - begin) / 1000, *where, args)


def text_of(machine: Machine, ddp: bool) -> str:
    """Returns the file that the profiler would have written."""
    pid = machine.main.tid
    overhead = [row for row in machine.rows if row.category == "overhead"]
    host = sorted((row for row in machine.rows if row.category != "overhead"), key=lambda row: row.start)
    for index, row in enumerate(
        row for row in host if row.category in {"cpu_op", "user_annotation", "python_function"}
    ):
        row.args = {**row.args, "Ev Idx": index}
    timeline = Timeline()
    _add_names(timeline, machine)
    _add(timeline, host, pid)
    for ns, tid, args in machine.memory:
        timeline.memory_event(_at(ns), pid, tid, args)
    _add(timeline, machine.device_rows, None)
    _add_projected(timeline, machine)
    _add(timeline, overhead, -1)
    end = max(machine.now, *(row.end for row in machine.device_rows)) + 40_000
    timeline.window(_at(0), end / 1000, _at(end))
    devices = [{"id": number, **H100, **H100_LIMITS} for number in range(_devices(machine))]
    top: dict[str, Any] = {
        "schemaVersion": 1, "deviceProperties": devices,
        "cupti_version": 26, "cuda_runtime_version": 12080,
        "cuda_driver_version": 12080,
    }  # fmt: skip
    if ddp:
        top["distributedInfo"] = distributed_info(0, WORLD, [("0", "default_pg", range(WORLD))])
    top |= {"with_stack": 1, "profile_memory": 1, "record_shapes": 1, "host_name": "synthetic"}
    top |= {"synthetic": "made by samples/synthetic_faults.py, not recorded", "displayTimeUnit": "ms"}
    top |= {"baseTimeNanoseconds": BASE_NS, "traceEvents": timeline.events, "traceName": "/tmp/synthetic.pt.trace.json"}
    return json.dumps(top)
