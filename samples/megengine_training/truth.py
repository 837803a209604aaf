"""What is true of a process."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, replace

from events import Json

from .config import Config
from .files import busy, lanes_of, ratio_of
from .process import Process
from .program import play


def truth_of(process: Process) -> Json:
    """Returns what is true of a process, in nanoseconds from the start of its profile."""
    operators: dict[str, Json] = defaultdict(
        lambda: {"calls": 0, "host_ns": 0, "device_ns": 0, "kernels": 0, "kernel_ns": 0}
    )
    made_by = {number: operation.id for operation in process.operations for number in operation.outputs}
    for operation in process.operations:
        of = operators[operation.name]
        of["calls"] += 1
        of["host_ns"] += operation.host_end_ns - operation.host_start_ns
        of["device_ns"] += operation.device_end_ns - operation.device_start_ns
        of["kernels"] += len(operation.kernels)
        of["kernel_ns"] += sum(kernel["end_ns"] - kernel["start_ns"] for kernel in operation.kernels)
    return {
        "pid": process.pid,
        "rank": process.rank,
        "local_time_ns": process.local_time_ns,
        "lanes": lanes_of(process)
        if process.config.cupti
        else {k: v for k, v in lanes_of(process).items() if "of" not in k},
        "gpu_usage_percent": ratio_of(process)[0],
        "device_busy_ns": busy((a["start_ns"], a["end_ns"]) for a in process.activities),
        "steps": process.steps,
        "operators": dict(sorted(operators.items())),
        "operations": [
            {
                **{key: value for key, value in asdict(operation).items() if key != "args"},
                "after": sorted({made_by[number] for number in operation.inputs if number in made_by}),
            }
            for operation in process.operations
        ],
        "copies": [a for a in process.activities if a["operator"] is None],
        "waits": process.waits,
        "scopes": [asdict(scope) for scope in process.scopes],
        "redundant_reshapes": process.unused_reshapes,
        "memory": _memory_of(process),
        "all_reduces": [
            {"operator": o.id, "step": o.step, "lane": o.lane, "start_ns": k["start_ns"], "end_ns": k["end_ns"]}
            for o in process.operations
            if o.name == "CollectiveComm"
            for k in o.kernels
        ],
    }


def _memory_of(process: Process) -> Json:
    """The most that was in use, what tensors share counted once, and when first; and how many tensors there were."""
    peak = max(level for _, level in process.memory.levels)
    made = [tensor for tensor in process.tensors.values() if tensor.storage is not None]
    return {
        "peak_bytes": peak,
        "peak_ns": next(at for at, level in process.memory.levels if level == peak),
        "tensors": len(made),
        "unreleased": sum(not tensor.released_ns for tensor in made),
        "used_after_ns": [list(change) for change in process.memory.levels],
    }


def truth_document(config: Config, run: str, processes: list[Process] | None = None) -> Json:
    """Returns the truth of a run. A fault costs what a step takes less, on average, when it is mended."""
    played = processes or play(config)
    costs = {}
    for fault in config.faults:
        mended = play(replace(config, faults=tuple(other for other in config.faults if other != fault)))
        costs[fault] = {"cost_ns_per_step": _step_ns(played) - _step_ns(mended), "mended_step_ns": _step_ns(mended)}
    workers = {str(process.pid): truth_of(process) for process in played}
    return {
        "run": run, "synthetic": True, "made_by": "samples/synthetic_megengine.py, not recorded",
        "config": asdict(config), "mean_step_ns": _step_ns(played), "planted": costs, "workers": workers,
    }  # fmt: skip


def _step_ns(processes: list[Process]) -> int:
    """From the beginning of the first step to the end of the last one, of the slowest process, over the steps."""
    return max(p.steps[-1]["end_ns"] - p.steps[0]["start_ns"] for p in processes) // len(processes[0].steps)
