"""Writes what a machine has recorded as Kineto's JSON."""

from __future__ import annotations

import json
from typing import Any

from .hardware import DEVICE_BYTES, SECOND, SMS, Json, Row
from .kernels import WORLD
from .machine import Machine

BASE_NS = 1_790_857_026_000_000_000
ORIGIN_NS = 4_343_762_354_917
"""Of the program's begin, after BASE_NS: small enough that microseconds of three digits are exact as a double."""
DEVICE = {
    "id": 0, "name": "Synthetic H100 (not a recording)", "totalGlobalMem": DEVICE_BYTES, "computeMajor": 9,
    "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65_536,
    "warpSize": 32, "sharedMemPerBlock": 49_152, "numSms": SMS, "regsPerMultiprocessor": 65_536,
    "sharedMemPerBlockOptin": 232_448, "sharedMemPerMultiprocessor": 233_472,
}  # fmt: skip


def _at(ns: int) -> float:
    return (ORIGIN_NS + ns) / 1000


def _devices(machine: Machine) -> int:
    """How many devices the program uses."""
    return 1 + any(row.track >= SECOND for row in machine.device_rows)


def _on_device(row: Row) -> tuple[int, int]:
    """Device and stream of a row."""
    return divmod(row.track, SECOND) if row.track >= 0 else (0, row.track)


def _metadata(machine: Machine) -> list[Json]:
    pid = machine.main.tid
    rows: list[tuple[str, int, int, Json]] = [
        ("process_name", pid, 0, {"name": "python"}),
        ("process_labels", pid, 0, {"labels": "CPU"}),
    ]
    for device in range(_devices(machine)):
        rows.append(("process_name", device, 0, {"name": "python"}))
        rows.append(("process_labels", device, 0, {"labels": f"GPU {device}"}))
    for device, stream in sorted({divmod(row.track, SECOND) for row in machine.device_rows if row.track >= 0}):
        rows.append(("thread_name", device, stream, {"name": f"stream {stream} "}))
    threads = (machine.main, machine.autograd, machine.replica, machine.replica_autograd)
    for thread in threads[: 2 * _devices(machine)]:
        rows.append(("thread_name", pid, thread.tid, {"name": f"thread {thread.tid} ({thread.name})"}))
    return [{"ph": "M", "name": n, "pid": p, "tid": t, "ts": _at(0), "args": a} for n, p, t, a in rows]


def _events(rows: list[Row], process: int | None) -> list[Json]:
    """Events of a process; without one of devices."""
    found: list[Json] = []
    for row in rows:
        pid, tid = _on_device(row) if process is None else (process, row.track)
        head = {"pid": pid, "tid": tid, "ts": _at(row.start)}
        found.append(
            {
                "ph": "X", "cat": row.category, "name": row.name, **head, "dur": (row.end - row.start) / 1000,
                "args": row.args,
            }
        )  # fmt: skip
        for phase, category, number in row.flows:
            arrow: Json = {"ph": phase, "id": number, **head, "cat": category, "name": category}
            found.append(arrow | {"bp": "e"} if phase == "f" else arrow)
    return found


def _projected(machine: Machine) -> list[Json]:
    """The annotations once more, on the streams that they had work on."""
    found = []
    for (name, external), streams in machine.annotated.items():
        for stream, (begin, end) in streams.items():
            where = {"pid": stream // SECOND, "tid": stream % SECOND, "ts": _at(begin), "dur": (end - begin) / 1000}
            found.append(
                {"ph": "X", "cat": "gpu_user_annotation", "name": name, **where, "args": {"External id": external}}
            )
    return found


def text_of(machine: Machine, ddp: bool) -> str:
    """Returns the file that the profiler would have written."""
    pid = machine.main.tid
    overhead = [row for row in machine.rows if row.category == "overhead"]
    host = sorted((row for row in machine.rows if row.category != "overhead"), key=lambda row: row.start)
    for index, row in enumerate(
        row for row in host if row.category in {"cpu_op", "user_annotation", "python_function"}
    ):
        row.args = {**row.args, "Ev Idx": index}
    memory = [
        {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": tid, "ts": _at(ns),
            "args": args,
        }
        for ns, tid, args in machine.memory
    ]  # fmt: skip
    end = max(machine.now, *(row.end for row in machine.device_rows)) + 40_000
    tool = "PyTorch Profiler"
    closing: list[Json] = [
        {
            "ph": "X", "cat": "Trace", "name": f"{tool} (0)", "pid": "Spans", "tid": tool, "ts": _at(0), "dur": end / 1000,
            "args": {"Op count": 0},
        },
        {
            "ph": "i", "s": "g", "name": f"Iteration Start: {tool}", "pid": "Traces", "tid": f"Trace {tool}", "ts": _at(0)
        },
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": _at(end)},
    ]  # fmt: skip
    events = [
        *_metadata(machine), *_events(host, pid), *memory, *_events(machine.device_rows, None), *_projected(machine),
        *_events(overhead, -1), *closing,
    ]  # fmt: skip
    top: dict[str, Any] = {
        "schemaVersion": 1, "deviceProperties": [DEVICE | {"id": number} for number in range(_devices(machine))],
        "cupti_version": 26, "cuda_runtime_version": 12080,
        "cuda_driver_version": 12080,
    }  # fmt: skip
    if ddp:
        group = {
            "pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": WORLD,
            "ranks": list(range(WORLD)),
        }  # fmt: skip
        top["distributedInfo"] = {
            "backend": "nccl", "rank": 0, "world_size": WORLD, "pg_count": 1, "pg_config": [group], "nccl_version": "2.27.5",
        }  # fmt: skip
    top |= {"with_stack": 1, "profile_memory": 1, "record_shapes": 1, "host_name": "synthetic"}
    top |= {"synthetic": "made by samples/synthetic_faults.py, not recorded", "displayTimeUnit": "ms"}
    top |= {"baseTimeNanoseconds": BASE_NS, "traceEvents": events, "traceName": "/tmp/synthetic.pt.trace.json"}
    return json.dumps(top)
