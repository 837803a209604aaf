"""The export as databases."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from typing import Any

from events import MIB, sqlite_file

from .records import CUBE_CORES, GROUPS, NO_MODEL, PIPELINE, SUMS, VECTOR_CORES, Process
from .sums import Level, bars_of, levels_of, together
from .tables import (
    communication,
    communication_matrix,
    compact_json,
    component_levels,
    counters,
    metadata,
    packets,
    process_levels,
    settings,
    step_trace_time,
)

_LEVELS = {"runtime": 5000, "hccl": 5500, "node": 10000, "model": 15000, "acl": 20000}
_OPERATOR, _QUEUE, _FRAME = 50001, 50002, 50003
_NONE = 2**32 - 1
_DATA_TYPES = ("INT8", "INT16", "INT32", "FP16", "FP32")
_SCHEMA = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA": "name TEXT, value TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_TRANSPORT_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_LINK_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MODULE": "id INTEGER PRIMARY KEY, name TEXT",
    "PYTORCH_API": (
        "startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
        "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "GC_RECORD": "startNs INTEGER, endNs INTEGER, globalTid INTEGER",
    "CANN_API": (
        "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, name INTEGER"
    ),
    "TASK": (
        "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
        "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockNum INTEGER, mixBlockNum INTEGER, taskType INTEGER, "
        "opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
        "outputDataTypes INTEGER, outputShapes INTEGER, opState INTEGER, hf32Eligible INTEGER, waitNs INTEGER"
    ),
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "MEMCPY_INFO": "globalTaskId INTEGER, size INTEGER, memcpyOperation INTEGER",
    "COMMUNICATION_OP": (
        "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY, "
        "relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType INTEGER, deviceId INTEGER, "
        "waitNs INTEGER"
    ),
    "COMMUNICATION_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, notifyId INTEGER, "
        "rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, dataType INTEGER, "
        "linkType INTEGER, opId INTEGER"
    ),
    "OVERLAP_ANALYSIS": "id INTEGER PRIMARY KEY, deviceId INTEGER, startNs INTEGER, endNs INTEGER, type INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "OP_MEMORY": (
        "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER, "
        "duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, "
        "allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER, "
        "releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER"
    ),
    "MEMORY_RECORD": (
        "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, "
        "streamPtr INTEGER, deviceId INTEGER"
    ),
    "NPU_MEM": "type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER",
    "NPU_MODULE_MEM": "moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "HBM": "deviceId INTEGER, timestampNs INTEGER, bandwidth NUMERIC, hbmId INTEGER, type INTEGER",
}  # fmt: skip
_ANALYSIS = {
    "StepTraceTime": (
        "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
        "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC"
    ),
    "CommAnalyzerTime": (
        "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC, "
        "wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT"
    ),
    "CommAnalyzerBandwidth": (
        "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, "
        "bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC, "
        "step TEXT, type TEXT"
    ),
    "CommAnalyzerMatrix": (
        "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, "
        "transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT"
    ),
}  # fmt: skip
SMALL_PAGE = 512
"""Bytes: each of two dozen tables has one page at least."""
Tables = dict[str, list[tuple[Any, ...]]]


class DatabaseRows:
    """The rows of a rank's database; texts are numbers of one table of texts."""

    def __init__(self, process: Process) -> None:
        self.p = process
        self.rows: Tables = defaultdict(list)
        self._words: dict[str, int] = {}

    def tables(self) -> Tables:
        """Returns all tables."""
        self._about()
        self._host()
        self._calls()
        self._tasks()
        self._groups()
        self._memory()
        self._counters()
        self.rows["STRING_IDS"] = [(number, text) for text, number in self._words.items()]
        return self.rows

    def _word(self, text: str) -> int:
        return self._words.setdefault(text, len(self._words))

    def _thread(self, thread: int) -> int:
        return self.p.pid << 32 | thread

    def _about(self) -> None:
        p, rows = self.p, self.rows
        rows["META_DATA"] = [("SCHEMA_VERSION", "1.1.0"), *((key, _plain(value)) for key, value in metadata(p).items())]
        rows["NPU_INFO"] = [(p.device, "Ascend910B")]
        rows["HOST_INFO"] = [("1", "invented")]
        rows["RANK_DEVICE_MAP"] = [(p.rank, p.device)]
        rows["ENUM_HCCL_DATA_TYPE"] = list(enumerate(_DATA_TYPES))
        rows["ENUM_HCCL_TRANSPORT_TYPE"] = [(0, "SDMA"), (1, "RDMA")]
        rows["ENUM_HCCL_LINK_TYPE"] = [(0, "ON_CHIP"), (1, "HCCS")]
        rows["STEP_TIME"] = [(step.number, step.start_ns, step.end_ns) for step in p.steps]

    def _host(self) -> None:
        """Calls, and by which connections they are joined to what they launched and to the queue."""
        p, rows, word = self.p, self.rows, self._word
        launched: dict[int, list[int]] = defaultdict(list)
        for one in (*p.tasks, *p.collectives):
            if one.op >= 0:
                launched[one.op].append(one.connection)
        queued = 1_000_000
        for place, op in enumerate(p.ops):
            chain = place if op.stack else None
            for depth, frame in enumerate(op.stack):
                rows["PYTORCH_CALLCHAINS"].append((place, word(frame), depth))
            for connection in dict.fromkeys(launched.get(place, ())):
                rows["CONNECTION_IDS"].append((place, connection))
            types, shapes = (word(";\r\n".join(of)) if op.shapes else None for of in (op.types, op.shapes))
            own = place if place in launched else None
            rows["PYTORCH_API"].append((
                op.start_ns, op.end_ns, self._thread(op.thread), own, word(op.name), op.sequence, op.forward_thread, types,
                shapes, chain, _OPERATOR,
            ))  # fmt: skip
        for number, queue in enumerate(p.queue):
            for end, (name, thread, start, stop) in enumerate(
                (
                    ("Enqueue", queue.thread, queue.start_ns, queue.end_ns),
                    (queue.name, p.queue_thread, queue.taken_ns, queue.done_ns),
                )
            ):
                identity = queued + 2 * number + end
                rows["CONNECTION_IDS"].append((identity, queued + queue.correlation))
                rows["PYTORCH_API"].append(
                    (start, stop, self._thread(thread), identity, word(name), *[None] * 5, _QUEUE)
                )
        for frame in p.frames:
            rows["PYTORCH_API"].append(
                (frame.start_ns, frame.end_ns, self._thread(p.main), None, word(frame.name), *[None] * 5, _FRAME)
            )
        rows["GC_RECORD"] = [(start, end, self._thread(p.main)) for start, end in p.collections]

    def _calls(self) -> None:
        """Calls of CANN. Each has a connection of its own here; that of a task is its first call's."""
        first = {call.connection: place for place, call in reversed(list(enumerate(self.p.calls)))}
        thread = self._thread(self.p.queue_thread)
        for place, call in enumerate(self.p.calls):
            connection = call.connection if first[call.connection] == place else 2_000_000 + place
            name = self._word(call.name.partition("@")[2])
            self.rows["CANN_API"].append((call.start_ns, call.end_ns, _LEVELS[call.level], thread, connection, name))

    def _task(self, start: int, end: int, connection: int, task: str, stream: int, number: int) -> int:
        """Adds a task and returns its number in the whole database."""
        known = len(self.rows["TASK"])
        self.rows["TASK"].append((
            start, end, self.p.device, connection, known, self.p.pid, self._word(task), _NONE, stream, number, NO_MODEL,
        ))  # fmt: skip
        return known

    def _tasks(self) -> None:
        rows, word = self.rows, self._word
        blocks = {"AI_CORE": CUBE_CORES, "MIX_AIC": CUBE_CORES, "AI_VECTOR_CORE": VECTOR_CORES, "MIX_AIV": VECTOR_CORES}
        for task in self.p.tasks:
            what = task.task_type if task.core else task.name  # a copy has no name but its type
            known = self._task(task.start_ns, task.end_ns, task.connection, what, task.stream, task.number)
            if task.bytes:
                direction = "H2D" if task.bytes > 4 else "D2H"
                rows["MEMCPY_INFO"].append((known, task.bytes, word(direction)))
            if not task.core:
                continue
            facts = []
            for text in task.shapes:
                count = text.count(";") + 1
                many = ["N/A"] * 2 if text == "N/A" else [";".join([each] * count) for each in ("ND", "FLOAT")]
                facts += [word(each) for each in (*many, text if text == "N/A" else f'"{text}"')]
            state = word("static" if task.core == "AI_CPU" else "dynamic")
            rows["COMPUTE_TASK_INFO"].append((
                word(task.name), known, blocks.get(task.core, 0), 0, word(task.core), word(task.type), *facts, state,
                word("NO"), task.wait_ns,
            ))  # fmt: skip
            for title, text in counters(task).items():
                if text != "N/A" and title != "cube_utilization(%)":
                    rows["TASK_PMU_INFO"].append((known, *self._counted(title, text)))

    def _counted(self, title: str, text: str) -> tuple[int, float]:
        """The name of a counter here, where times are nanoseconds, and its value."""
        name = title.removesuffix("(us)")
        if name == title:
            return self._word(name), float(text)
        name = {"aicore_time": "aic_total_time", "aiv_time": "aiv_total_time"}.get(name, name)
        return self._word(name), round(float(text) * 1000)

    def _groups(self) -> None:
        p, rows, word = self.p, self.rows, self._word
        for number, one in enumerate(p.collectives):
            group = word(GROUPS[one.group])
            rows["COMMUNICATION_OP"].append((
                word(one.name), one.start_ns, one.end_ns, one.connection, group, number, 0, 0, _DATA_TYPES.index("FP32"),
                word("MESH-RING"), one.count, word(one.type), p.device, one.wait_before_ns,
            ))  # fmt: skip
            stream = PIPELINE if one.group == "pp" else SUMS
            tasks = (
                [("Notify_Wait", "Notify Wait", one.start_ns, one.ready_ns, 0)] if one.ready_ns > one.start_ns else []
            )
            tasks += [("Memcpy", "SDMA", start, end, one.packet_bytes) for start, end in packets(one)]
            for place, (name, task, start, end, size) in enumerate(tasks):
                known = self._task(start, end, one.connection, task, stream, 10_000 + 100 * number + place)
                here, there = p.rank, 1 - p.rank
                ranks = (here, there) if size else (there, here)
                rows["COMMUNICATION_TASK_INFO"].append((
                    word(one.name), known, word(name), 0, group, 7, 65535, *ranks, 0, size, _DATA_TYPES.index("FP32"), 1,
                    number,
                ))  # fmt: skip
        for what, bars in enumerate(bars_of(p).values()):
            for start, end in bars:
                rows["OVERLAP_ANALYSIS"].append((len(rows["OVERLAP_ANALYSIS"]), p.device, start, end, what))

    def _memory(self) -> None:
        p, rows, word = self.p, self.rows, self._word
        stream = 897_357_296 + p.rank
        given: dict[tuple[int, bool], Level] = {}
        for allocator in ("PTA", "GE"):
            for level in levels_of(p, allocator):
                given[level.block, p.blocks[level.block].start_ns == level.at] = level
        for number, block in enumerate(p.blocks):
            if block.allocator == "WORKSPACE":
                continue
            is_graph = block.allocator == "GE"
            start, end = block.start_ns, block.end_ns
            active = end - 510 if end is not None and not is_graph else None
            totals: list[int | None] = []
            for is_begin in (True, False):
                at = given.get((number, is_begin))
                totals += [at.allocated, at.reserved, None if is_graph else at.allocated] if at else [None] * 3
            whole = end - start if start is not None and end is not None else None
            held = active - start if start is not None and active is not None else None
            name = block.name.removeprefix("cann::") if is_graph else block.name
            size = block.bytes if start is not None else -block.bytes
            rows["OP_MEMORY"].append(
                (
                    word(name) if name else None,
                    size,
                    start,
                    end,
                    active,
                    whole,
                    held,
                    *totals,
                    None if is_graph else stream,
                    p.device,
                )
            )
        record = rows["MEMORY_RECORD"]
        for name, level, sides in together(p):
            active = level.allocated if name == "PTA" else None
            record.append((word(name), level.at, level.allocated, level.reserved, active, stream, p.device))
            sums = [sum(one[of] for one in sides.values()) for of in (0, 1)]
            record.append((word("PTA+GE"), level.at, *sums, sides["PTA"][0], stream, p.device))
        for level in levels_of(p, "WORKSPACE"):
            record.append((word("WORKSPACE"), level.at, level.allocated, level.reserved, None, stream, p.device))
        rows["NPU_MEM"] = [(word("app"), 0, size, at, p.device) for at, size in process_levels(p)]
        for number, (name, levels) in enumerate(component_levels(p).items()):
            rows["ENUM_MODULE"].append((number, name))
            rows["NPU_MODULE_MEM"] += [(number, at, size, p.device) for at, size in levels]

    def _counters(self) -> None:
        p = self.p
        self.rows["AICORE_FREQ"] = [(p.device, at, mhz) for at, mhz in p.frequency]
        read = self._word("read")
        self.rows["HBM"] = [(p.device, at, round(1234.5 * MIB), 0, read) for at, _ in process_levels(p)]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def analysis(process: Process) -> Tables:
    """Returns what the tool works out of the rows: times of steps, and what communication.json and its matrix say."""
    rows: Tables = defaultdict(list)
    table = list(csv.reader(io.StringIO(step_trace_time(process), newline="")))
    rows["StepTraceTime"] = [(int(device), step, *map(float, times)) for device, step, *times in table[1:]]
    for step, classes in json.loads(communication(process)).items():
        for kind, found in classes.items():
            for name, said in found.items():
                op, _, group = name.partition("@")
                of = said["Communication Time Info"]
                times = [of[f"{key} Time(ms)"] for key in ("Elapse", "Transit", "Wait", "Synchronization", "Idle")]
                if group:
                    rows["CommAnalyzerTime"].append((op, group, of["Start Timestamp(us)"], *times, step, kind))
                for band, told in said["Communication Bandwidth Info"].items() if group else ():
                    sums = tuple(
                        told[key]
                        for key in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Large Packet Ratio")
                    )
                    # A kind of link whose parts have the packets has one row without any.
                    packets = told["Size Distribution"] or ({"0": (0, 0)} if told["Transit Size(MB)"] else {})
                    rows["CommAnalyzerBandwidth"] += [
                        (op, group, band, *sums, float(size), count, took, step, kind)
                        for size, (count, took) in packets.items()
                    ]
    for step, classes in json.loads(communication_matrix(process)).items():
        for kind, found in classes.items():
            for name, links in found.items():
                op, _, group = name.partition("@")
                for pair, told in links.items():
                    size, took, rate = (
                        told[key] for key in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")
                    )
                    rows["CommAnalyzerMatrix"].append((
                        op, group, *pair.split("-"), told["Transport Type"], size, took, rate, step, kind,
                        told.get("Op Name", ""),
                    ))  # fmt: skip
    return rows


def databases(process: Process) -> dict[str, bytes]:
    """Returns the files of the export as databases by their place in the folder of the rank."""
    info = settings(process)
    info["config"]["experimental_config"]["_export_type"] = ["db"]
    return {
        f"profiler_info_{process.rank}.json": json.dumps(info, indent=4).encode(),
        f"ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_{process.rank}.db": sqlite_file(
            _SCHEMA, DatabaseRows(process).tables(), SMALL_PAGE
        ),
        "ASCEND_PROFILER_OUTPUT/analysis.db": sqlite_file(_ANALYSIS, analysis(process), SMALL_PAGE),
    }
