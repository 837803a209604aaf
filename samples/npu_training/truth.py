"""What is true of a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from events import Json

from .program import play
from .records import RANKS, SLOW_RANK, Collective, Config, Process, Task
from .sums import device_range, device_times, host_times, levels_of, times_of, together
from .tables import component_levels, process_levels, sampled


def _summed(rows: Iterable[tuple[str, dict[str, int]]]) -> Json:
    found: dict[str, dict[str, int]] = {}
    for name, numbers in rows:
        of = found.setdefault(name, {"calls": 0, **dict.fromkeys(numbers, 0)})
        of["calls"] += 1
        for key, value in numbers.items():
            of[key] += value
    return dict(sorted(found.items()))


def _lasting(tasks: Iterable[Task | Collective], key: Callable[[Any], str]) -> Json:
    return _summed((key(task), {"total_ns": task.end_ns - task.start_ns}) for task in tasks)


def _memory_of(process: Process) -> Json:
    levels = {allocator: levels_of(process, allocator) for allocator in ("PTA", "GE", "WORKSPACE")}
    both = [sum(one[0] for one in sides.values()) for *_, sides in together(process)]
    blocks = [block for block in process.blocks if block.allocator != "WORKSPACE"]
    return {
        "peak_allocated_bytes": {
            **{name: max(level.allocated for level in some) for name, some in levels.items()}, "PTA+GE": max(both),
        },
        "peak_reserved_bytes": {
            **{name: max(level.reserved for level in some) for name, some in levels.items()},
            "APP": max(size for _, size in process_levels(process)),
        },
        "records": {**{name: len(some) for name, some in levels.items()}, "PTA+GE": len(both), "APP": len(sampled(process))},
        "blocks": len(blocks),
        "older_than_the_window": sum(block.start_ns is None for block in blocks),
        "held_at_the_end": sum(block.end_ns is None for block in blocks),
        "of_the_graph_engine": sum(block.allocator == "GE" for block in blocks),
        "peak_of_components_bytes": {
            name: max((size for _, size in levels if size >= 0), default=None)
            for name, levels in component_levels(process).items()
        },
    }  # fmt: skip


_TOLD = ("name", "type", "group", "step", "start_ns", "bytes", "packet_bytes", "last_rank")


def truth_of(process: Process) -> Json:
    """Returns what is true of a rank, in nanoseconds since 1970."""
    host, device, cores = host_times(process), device_times(process), device_times(process, on_cores=True)
    names = ("host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "cores_self_ns", "cores_total_ns")
    ops = process.ops
    launches = sorted(
        (one for one in (*process.tasks, *process.collectives) if one.op >= 0), key=lambda one: (one.start_ns, one.name)
    )
    return {
        "rank": process.rank,
        "device": process.device,
        "pid": process.pid,
        "steps": [
            {
                **asdict(step),
                "device_start_ns": device_range(process, step)[0],
                "device_end_ns": device_range(process, step)[1],
                **{key: value for key, value in times_of(process, step).items() if key != "_bars"},
            }
            for step in process.steps
        ],
        "kernels": _lasting(process.kernels, lambda task: task.name),
        "kernels_by_type": _lasting(process.kernels, lambda task: task.type),
        "kernels_by_core": _lasting(process.kernels, lambda task: task.core),
        "kernels_bound_by_reading": sorted({task.name for task in process.kernels if task.bound == "mte2"}),
        "kernels_outside_steps": sum(task.step is None for task in process.kernels),
        "operators": _summed(
            (op.name, dict(zip(names, (*host[place], *device[place], *cores[place]), strict=True)))
            for place, op in enumerate(ops)
            if not op.name.startswith("ProfilerStep#")
        ),
        "launches": [
            {"name": one.name, "start_ns": one.start_ns, "dur_ns": one.end_ns - one.start_ns, "operator": ops[one.op].name,
             "operator_start_ns": ops[one.op].start_ns}
            for one in launches
        ],
        "collectives": [
            {
                **{key: getattr(one, key) for key in _TOLD},
                "elapse_ns": one.end_ns - one.start_ns,
                "wait_ns": one.ready_ns - one.start_ns,
                "transit_ns": one.moved_ns - one.ready_ns,
                "idle_ns": one.end_ns - one.moved_ns,
            }
            for one in process.collectives
        ],
        "waited_for_ns": {
            str(other): sum(one.ready_ns - one.start_ns for one in process.collectives if one.last_rank == other)
            for other in range(RANKS)
            if other != process.rank
        },
        "memory": _memory_of(process),
        "frequency_mhz": [list(change) for change in process.frequency],
        "collections_of_garbage": [list(one) for one in process.collections],
    }  # fmt: skip


def truth_document(config: Config, run: str, processes: list[Process] | None = None) -> Json:
    """Returns the truth of a run."""
    return {
        "run": run, "synthetic": True, "made_by": "samples/synthetic_ascend.py, not recorded", "config": asdict(config),
        "slow_rank": SLOW_RANK, "ranks": {str(p.rank): truth_of(p) for p in processes or play(config)},
    }  # fmt: skip
