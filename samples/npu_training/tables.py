"""The text export: tables and settings.

In one file: all tables are written from the same recording.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from events import MIB, Json, micros

from .records import (
    BEFORE,
    CUBE_CORES,
    EPOCH_NS,
    FIRST_STEP,
    GRAPH_POOL_BYTES,
    GRID_NS,
    GROUPS,
    KIB,
    LIBRARY_NAMES,
    NO_MODEL,
    PROCESS_BYTES,
    RANKS,
    SAMPLED_EVERY_NS,
    SPAN,
    VECTOR_CORES,
    Collective,
    Process,
    Task,
)
from .sums import Level, Range, device_times, host_times, levels_of, times_of, together


def stamp(ns: int | None) -> str:
    """A time as the tables write it: with a TAB, so that a spreadsheet leaves it as it is."""
    return "" if ns is None else f"{micros(ns)}\t"


def noisy(parts: Iterable[int]) -> float:
    """A sum of microseconds as somebody makes it who adds floats up."""
    total = 0.0
    for part in parts:
        total += part / 1000
    return total


def _csv(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([list(titles), *rows])
    return out.getvalue()


def compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def folder_of(process: Process) -> str:
    """Returns the name of the folder of a rank."""
    return f"rank_{process.rank}_{SPAN}_ascend_pt"


def settings(process: Process) -> Json:
    """Returns what profiler_info says."""
    return {
        "config": {
            "common_config": {
                "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
                "schedule": {"wait": 0, "active": len(process.steps), "warmup": 1, "repeat": 1, "skip_first": FIRST_STEP - 1},
                "record_shapes": True, "profile_memory": True, "with_stack": True, "with_flops": False, "with_modules": True,
            },
            "experimental_config": {
                "_profiler_level": "Level2", "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION", "_l2_cache": True,
                "_msprof_tx": False, "_mstx": False, "_data_simplification": True, "record_op_args": False,
                "_export_type": ["text"], "_host_sys": [], "_op_attr": False, "_gc_detect_threshold": 1.0,
                "_mstx_domain_include": [], "_mstx_domain_exclude": [], "_sys_io": False, "_sys_interconnection": False,
            },
        },
        "start_info": {"syscnt_enable": True, "freq": 100, "start_cnt": EPOCH_NS // 10, "start_monotonic": EPOCH_NS % 10**15},
        "end_info": {"collectionTimeEnd": process.end_ns, "MonotonicTimeEnd": process.end_ns % 10**15},
        "torch_npu_version": "2.7.1", "cann_version": "8.3.RC1", "rank_id": str(process.rank),
    }  # fmt: skip


def metadata(process: Process) -> Json:
    """Returns what profiler_metadata says; the first line says that nothing of this was recorded."""
    return {
        "SYNTHETIC": "invented by samples/synthetic_ascend.py, never ran anywhere",
        "distributed_args": {
            "tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 2, "data_parallel_size": 1,
            "context_parallel_size": 1, "expert_model_parallel_size": 1, "sequence_parallel": False, "rank": process.rank,
            "world_size": RANKS,
        },
        "ENV_VARIABLES": {"TASK_QUEUE_ENABLE": "2", "ASCEND_LAUNCH_BLOCKING": "", "PYTORCH_NPU_ALLOC_CONF": ""},
        "parallel_group_info": {
            library_name: {"group_name": name, "group_rank": process.rank, "global_ranks": list(range(RANKS))}
            for name, library_name in LIBRARY_NAMES.items()
        },
    }  # fmt: skip


_PMU = (
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)", "aic_scalar_ratio",
    "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)",
    "aiv_scalar_ratio", "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate",
    "cube_utilization(%)",
)  # fmt: skip
_CUBE_RATIOS = (("mac", 0.62), ("scalar", 0.11), ("mte1", 0.48), ("mte2", 0.39), ("fixpipe", 0.07))
_VECTOR_RATIOS = {"": (("vec", 0.46), ("scalar", 0.08), ("mte2", 0.41), ("mte3", 0.3)),
                  "mte2": (("vec", 0.12), ("scalar", 0.05), ("mte2", 0.94), ("mte3", 0.21))}  # fmt: skip


def counters(task: Task) -> dict[str, str]:
    """Returns what the counters of the cores say of a kernel; none count where no core of theirs ran."""
    if task.core in ("AI_CPU", "DSA_SQE"):
        return dict.fromkeys(_PMU, "N/A")
    is_cube = task.core in ("AI_CORE", "MIX_AIC")
    prefix, cores = ("aic", CUBE_CORES) if is_cube else ("aiv", VECTOR_CORES)
    time = task.end_ns - task.start_ns - 1_200
    made = {title: "0" if title.endswith("cycles") else "0.0" for title in _PMU}
    made["aicore_time(us)" if is_cube else "aiv_time(us)"] = micros(time)
    cycles = time * task.mhz // 1000 * cores
    made[f"{prefix}_total_cycles"] = str(cycles)
    for pipe, ratio in _CUBE_RATIOS if is_cube else _VECTOR_RATIOS["mte2" if task.bound == "mte2" else ""]:
        made[f"{prefix}_{pipe}_time(us)"] = micros(round(time * ratio))
        made[f"{prefix}_{pipe}_ratio"] = str(ratio)
    made[f"{prefix}_icache_miss_rate"] = "0.013"
    duration = task.end_ns - task.start_ns
    made["cube_utilization(%)"] = f"{100 * cycles * 1000 / (task.mhz * cores * duration):.3f}" if is_cube else "0"
    return made


def kernel_details(process: Process) -> str:
    titles = (
        "Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core",
        "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible", "Input Shapes",
        "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID", *_PMU,
    )  # fmt: skip
    rows = []
    for task in process.kernels:
        blocks = {"AI_CORE": CUBE_CORES, "MIX_AIC": CUBE_CORES, "AI_VECTOR_CORE": VECTOR_CORES, "MIX_AIV": VECTOR_CORES}
        shapes = [text if text == "N/A" else f'"{text}"' for text in task.shapes]
        types = ["N/A" if text == "N/A" else ";".join(["FLOAT"] * (text.count(";") + 1)) for text in task.shapes]
        forms = ["N/A" if text == "N/A" else ";".join(["ND"] * (text.count(";") + 1)) for text in task.shapes]
        head = [
            "" if task.step is None else task.step, process.device, NO_MODEL, task.number, task.stream, task.name, task.type,
            "static" if task.core == "AI_CPU" else "dynamic", task.core, stamp(task.start_ns),
            micros(task.end_ns - task.start_ns), micros(task.wait_ns), blocks.get(task.core, 0), 0, "NO",
        ]  # fmt: skip
        facts = [text for of in (0, 1) for text in (shapes[of], types[of], forms[of])]
        rows.append((task.start_ns, [*head, *facts, "N/A", *counters(task).values()]))
    for one in process.collectives:
        head = [
            one.step, process.device, NO_MODEL, "N/A", "N/A", one.name, one.type, "N/A", "COMMUNICATION", stamp(one.start_ns),
            micros(one.end_ns - one.start_ns), micros(one.wait_before_ns), 0,
        ]  # fmt: skip
        rows.append((one.start_ns, [*head, *["N/A"] * (len(titles) - len(head))]))
    return _csv(titles, (row for _, row in sorted(rows, key=lambda row: row[0])))


def operator_details(process: Process) -> str:
    titles = ["Name", "Input Shapes", "Call Stack"]
    for which in ("Host {}", "Device {}"):
        titles += [which.format("Self Duration(us)"), which.format("Total Duration(us)")]
    titles += ["Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"]
    rows = []
    times = zip(host_times(process), device_times(process), device_times(process, on_cores=True), strict=True)
    for op, parts in zip(process.ops, times, strict=True):
        if not op.name.startswith("ProfilerStep#"):
            numbers = [str(ns / 1000) for part in parts for ns in part]
            rows.append([op.name, ";\n".join(op.shapes), "".join(f"{frame};\n" for frame in op.stack), *numbers])
    return _csv(titles, rows)


def _mb(size: int) -> str:
    return str(size / MIB)


def memory_record(process: Process) -> str:
    """The process as a whole first, then the allocators; after each change of one of two, their sum."""
    device, rows = f"NPU:{process.device}", []
    for at, size in process_levels(process):
        rows.append(["APP", stamp(at), "", _mb(size), "", "", device])
    stream = str(897_357_296 + process.rank)
    for name, level, sides in together(process):
        active = _mb(level.allocated) if name == "PTA" else ""
        rows.append(
            [name, stamp(level.at), _mb(level.allocated), _mb(level.reserved), active, stream if active else "", device]
        )
        sums = [sum(one[of] for one in sides.values()) for of in (0, 1)]
        rows.append(["PTA+GE", stamp(level.at), _mb(sums[0]), _mb(sums[1]), _mb(sides["PTA"][0]), stream, device])
    for level in levels_of(process, "WORKSPACE"):
        rows.append(["WORKSPACE", stamp(level.at), _mb(level.allocated), _mb(level.reserved), "", stream, device])
    titles = ("Component", "Timestamp(us)", *(f"Total {what}(MB)" for what in ("Allocated", "Reserved", "Active")))
    return _csv([*titles, "Stream Ptr", "Device Type"], rows)


def sampled(process: Process) -> list[int]:
    """Returns when the driver is asked."""
    return list(range(EPOCH_NS + 500_000, process.end_ns, SAMPLED_EVERY_NS))


def process_levels(process: Process) -> list[tuple[int, int]]:
    """Returns what the process has of the device whenever the driver is asked."""
    found = []
    for at in sampled(process):
        before = [level.reserved for level in levels_of(process, "PTA") if level.at <= at]
        found.append((at, PROCESS_BYTES + GRAPH_POOL_BYTES + (before[-1] if before else BEFORE["PTA"][1])))
    return found


def operator_memory(process: Process) -> str:
    device, stream = f"NPU:{process.device}", str(897_357_296 + process.rank)
    given: dict[tuple[int, bool], Level] = {}
    for allocator in ("PTA", "GE"):
        for level in levels_of(process, allocator):
            given[level.block, process.blocks[level.block].start_ns == level.at] = level
    rows = []
    for number, block in enumerate(process.blocks):
        if block.allocator == "WORKSPACE":
            continue
        start, end = block.start_ns, block.end_ns
        is_graph = block.allocator == "GE"
        active = end - 510 if end is not None and not is_graph else None
        totals = []
        for is_begin in (True, False):
            at = given.get((number, is_begin))
            totals += [_mb(at.allocated), _mb(at.reserved), "" if is_graph else _mb(at.allocated)] if at else [""] * 3
        whole = start is not None and end is not None
        size = block.bytes if start is not None else -block.bytes
        rows.append((
            start is None, start or end,
            [block.name, str(size / KIB), stamp(start), stamp(end), stamp(active),
             micros(end - start) if whole else "", micros(active - start) if whole and active else "",
             *totals, "" if is_graph else stream, device],
        ))  # fmt: skip
    titles = ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
              "Active Duration(us)"]  # fmt: skip
    for when in ("Allocation", "Release"):
        titles += [f"{when} Total {what}(MB)" for what in ("Allocated", "Reserved", "Active")]
    return _csv([*titles, "Stream Ptr", "Device Type"], (row for *_, row in sorted(rows, key=lambda row: row[:2])))


def component_levels(process: Process) -> dict[str, list[tuple[int, int]]]:
    """Returns what each component reserves when it is looked at; -1 KB where a release was seen and nothing else."""
    sizes = {"SLOG": 0, "HCCL": 404 * MIB, "RUNTIME": 92 * MIB, "GE": GRAPH_POOL_BYTES, "AICPU": 0, "TDT": -1024}
    levels = {name: [(at, size) for at in sampled(process)] for name, size in sizes.items()}
    return {**levels, "APP": process_levels(process)}


def npu_module_mem(process: Process) -> str:
    rows = [
        [process.device, name, stamp(at), _mb(size), f"NPU:{process.device}"]
        for name, levels in component_levels(process).items()
        for at, size in levels
    ]
    return _csv(["Device_id", "Component", "Timestamp(us)", "Total Reserved(MB)", "Device"], rows)


def step_trace_time(process: Process) -> str:
    rows = []
    for step in process.steps:
        times = times_of(process, step)
        computing, communication, alone, free = (
            noisy(end - start for start, end in bars) for bars in times.pop("_bars").values()
        )
        bubble = times["bubble_ns"] / 1000
        rows.append([
            process.device, step.number, computing, alone, communication - alone, communication, free,
            times["stage_ns"] / 1000, bubble, max(0, alone - bubble), times["preparing_ns"] / 1000,
        ])  # fmt: skip
    titles = ("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free",
              "Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing")  # fmt: skip
    return _csv(titles, rows)


def _grouped(rows: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for key, ns in rows:
        found[key].append(ns)
    return dict(sorted(found.items(), key=lambda item: (-sum(item[1]), item[0])))


def _in_us(ns: float) -> float:
    return round(ns / 1000, 3)


def op_statistic(process: Process) -> str:
    found = _grouped(((task.type, task.core), task.end_ns - task.start_ns) for task in process.kernels)
    whole = sum(sum(times) for times in found.values())
    rows = [
        [
            process.device,
            *key,
            len(t),
            *map(_in_us, (sum(t), min(t), sum(t) / len(t), max(t))),
            round(100 * sum(t) / whole, 3),
        ]
        for key, t in found.items()
    ]
    times = [f"{what} Time(us)" for what in ("Total", "Min", "Avg", "Max")]
    return _csv(["Device_id", "OP Type", "Core Type", "Count", *times, "Ratio(%)"], rows)


def api_statistic(process: Process) -> str:
    found = _grouped(((c.level, c.name.partition("@")[2]), c.end_ns - c.start_ns) for c in process.calls)
    rows = []
    for key, t in found.items():
        mean = sum(t) / len(t)
        variance = round(sum((one - mean) ** 2 for one in t) / len(t) / 1e6, 3)
        rows.append(["host", *key, _in_us(sum(t)), len(t), *map(_in_us, (mean, min(t), max(t))), variance])
    return _csv(
        ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"], rows
    )


def l2_cache(process: Process) -> str:
    rows = []
    for task in process.kernels:
        if task.core in ("AI_CORE", "MIX_AIC", "MIX_AIV", "AI_VECTOR_CORE"):
            hit = "N/A" if not rows else "0.214" if task.bound == "mte2" else "0.871"
            rows.append([process.device, task.stream, task.number, hit, "0.0931", task.name])
    return _csv(["Device_id", "Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"], rows)


def data_preprocess(process: Process) -> str:
    rows = []
    for task in process.kernels:
        if task.core == "AI_CPU":
            whole = task.end_ns - task.start_ns
            parts = (whole * 6 // 10, whole // 10, whole * 8 // 10, whole // 5, whole)
            times = [_in_us(part // GRID_NS * GRID_NS) for part in parts]
            rows.append([process.device, stamp(task.start_ns), task.name, *times, task.stream, task.number])
    times = [f"{what}_time(us)" for what in ("Compute", "Memcpy", "Task", "Dispatch", "Total")]
    return _csv(["Device_id", "Timestamp(us)", "Node", *times, "Stream ID", "Task ID"], rows)


_BANDS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")


def packets(one: Collective) -> list[Range]:
    """When each packet of an operation is on its way."""
    count = one.bytes // one.packet_bytes
    edges = [one.ready_ns + (one.moved_ns - one.ready_ns) * part // count for part in range(count + 1)]
    return list(pairwise(edges))


def _bands(found: Iterable[Collective], is_total: bool) -> Json:
    made: Json = {}
    for band in _BANDS:
        size, time, packets = 0.0, 0.0, dict[str, list[float]]()
        for one in found if band in ("HCCS", "SDMA") else ():
            size += one.bytes / 1e6
            time += (one.moved_ns - one.ready_ns) / 1e6
            if band == "HCCS":
                spread = packets.setdefault(str(one.packet_bytes / 1e6), [0, 0.0])
                spread[0] += one.bytes // one.packet_bytes
                spread[1] += (one.moved_ns - one.ready_ns) / 1e6
        rate = {} if is_total else {"Bandwidth(GB/s)": round(size / time, 4) if time else 0, "Large Packet Ratio": 0}
        made[band] = {"Transit Size(MB)": size, "Transit Time(ms)": time, **rate, "Size Distribution": packets}
    return made


def _times(found: list[Collective]) -> Json:
    elapse, transit, wait = (
        sum(part) / 1e6
        for part in (
            [one.end_ns - one.start_ns for one in found],
            [one.moved_ns - one.ready_ns for one in found],
            [one.ready_ns - one.start_ns for one in found],
        )
    )
    ratio = wait / (wait + transit) if wait + transit else 0
    return {
        "Elapse Time(ms)": elapse, "Transit Time(ms)": transit, "Wait Time(ms)": wait, "Synchronization Time(ms)": wait,
        "Idle Time(ms)": elapse - transit - wait, "Wait Time Ratio": ratio, "Synchronization Time Ratio": ratio,
    }  # fmt: skip


def _by_class(process: Process, of: Callable[[list[Collective]], Json]) -> str:
    made: Json = {}
    for step in process.steps:
        found: dict[str, list[Collective]] = {"p2p": [], "collective": []}
        for one in process.collectives:
            if one.step == step.number:
                found["p2p" if one.group == "pp" else "collective"].append(one)
        made[f"step{step.number}"] = {name: of(some) for name, some in found.items()}
    return compact_json(made)


def communication(process: Process) -> str:
    def of(some: list[Collective]) -> Json:
        made = {
            f"{one.name}@{GROUPS[one.group]}": {
                "Communication Time Info": {"Start Timestamp(us)": one.start_ns / 1000, **_times([one])},
                "Communication Bandwidth Info": _bands([one], False),
            }
            for one in some
        }
        total = {"Communication Time Info": _times(some), "Communication Bandwidth Info": _bands(some, True)}
        return {**made, "Total Op Info": total}

    return _by_class(process, of)


def communication_matrix(process: Process) -> str:
    here, there = process.rank, 1 - process.rank

    def link(some: list[Collective], share: int, kind: str) -> Json:
        size, time = (
            sum(part) / 1e6 / share for part in zip(*((o.bytes, o.moved_ns - o.ready_ns) for o in some), strict=True)
        )
        name = {"Op Name": some[0].name} if len(some) == 1 else {}
        rate = round(size / time, 4)
        return {
            "Transport Type": kind,
            "Transit Size(MB)": size,
            "Transit Time(ms)": time,
            "Bandwidth(GB/s)": rate,
            **name,
        }

    def of(some: list[Collective]) -> Json:
        made: Json = {}
        for kind in dict.fromkeys(one.type for one in some):
            # By the bandwidth of the link, the best first.
            alike = sorted((one for one in some if one.type == kind), key=lambda o: (o.moved_ns - o.ready_ns) / o.bytes)
            pair = f"{there}-{here}" if "receive" in kind else f"{here}-{there}"
            for which, chosen in (("top1", alike[:1]), ("bottom1", alike[-1:]), ("total", alike)):
                links = {f"{here}-{here}": link(chosen, 16, "LOCAL")} if kind == "hcom_allReduce_" else {}
                made[f"{kind[5:-1].lower()}-{which}@{GROUPS[alike[0].group]}"] = {
                    **links,
                    pair: link(chosen, 1, "HCCS"),
                }
        return made

    return _by_class(process, of)
