"""Databases as torch_npu exports them, a few rows each, and folders that hold them."""

from __future__ import annotations

import io
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.trace.table import RawTrace

ROWS, ANALYSED = "P/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_3.db", "P/ASCEND_PROFILER_OUTPUT/analysis.db"
PID, TID, QUEUE = 700, 701, 702
HOST, WORKER = (PID << 32) | TID, (PID << 32) | QUEUE
T0 = 1_736_410_576_000_000_000
"""Nanoseconds since 1970 with more digits than a float holds."""

TABLES = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "PYTORCH_API": (
        "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
        "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "CANN_API": (
        "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, name INTEGER"
    ),
    "TASK": (
        "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
        "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, taskType INTEGER, "
        "opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
        "outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER"
    ),
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "COMMUNICATION_OP": (
        "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
        "opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, "
        "opType INTEGER"
    ),
    "COMMUNICATION_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, notifyId INTEGER, "
        "rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, dataType INTEGER, "
        "linkType INTEGER, opId INTEGER"
    ),
    "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MODULE": "id INTEGER PRIMARY KEY, name TEXT",
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
    "NPU_MODULE_MEM": "moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER",
    "NPU_MEM": "type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "HBM": "deviceId INTEGER, timestampNs INTEGER, bandwidth NUMERIC, hbmId INTEGER, type INTEGER",
    "LLC": "deviceId INTEGER, llcId INTEGER, timestampNs INTEGER, hitRate REAL, throughput INTEGER, mode INTEGER",
    "ACC_PMU": (
        "accId INTEGER, readBwLevel INTEGER, writeBwLevel INTEGER, readOstLevel INTEGER, writeOstLevel INTEGER, "
        "timestampNs NUMERIC, deviceId INTEGER"
    ),
    "SOC_BANDWIDTH_LEVEL": "l2BufferBwLevel INTEGER, mataBwLevel INTEGER, timestampNs NUMERIC, deviceId INTEGER",
    "OVERLAP_ANALYSIS": "id INTEGER PRIMARY KEY, deviceId INTEGER, startNs INTEGER, endNs INTEGER, type INTEGER",
    "MEMCPY_INFO": "globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC",
    "QOS": "deviceId INTEGER, eventName NUMERIC, bandwidth NUMERIC, timestampNs NUMERIC",
    "NIC": "deviceId INTEGER, timestampNs INTEGER, bandwidth INTEGER, rxPacketRate NUMERIC, funcId INTEGER",
    "HCCS": "deviceId INTEGER, timestampNs INTEGER, txThroughput NUMERIC, rxThroughput NUMERIC",
    "META_DATA": "name TEXT, value TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
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
    "StepTraceTime": "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, free NUMERIC",
}  # fmt: skip


class Words:
    """Texts of a database by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 10)


def training() -> dict[str, list[tuple[Any, ...]]]:
    """One step: an operator with two kernels (one made of two tasks) and a copy, and an operation of a group of two tasks."""
    word = Words()
    far = 2**32 - 1
    rows: dict[str, list[tuple[Any, ...]]] = {
        "PYTORCH_API": [
            _api(0, 900, "ProfilerStep#7", 50001, word),
            _api(10, 200, "aten::mm", 50001, word, sequence=5, types="float;\r\nfloat", shapes="2,3;\r\n3,4", chain=1),
            _api(20, 60, "aclnnMatmul", 50001, word, connection=40),
            _api(70, 80, "Enqueue", 50002, word, connection=1),
            _api(85, 190, "Dequeue@aclnnMatmul", 50002, word, connection=2, thread=WORKER),
            _api(300, 400, "HcclAllreduce", 50001, word, connection=41),
            _api(5, 850, "nn.Module: Net_0", 50003, word),
            _api(6, 8, "builtin", 50003, word),
            _api(500, 600, "a mark", 50004, word),
            _api(700, 800, "MmBackward0", 50001, word, sequence=5, forward=1),
        ],
        "CONNECTION_IDS": [(1, 9000), (2, 9000), (40, 100), (40, 101), (41, 102)],
        "PYTORCH_CALLCHAINS": [(1, word("outer.py(2): g"), 1), (1, word("inner.py(1): f"), 0), (2, 5, 0)],
        "CANN_API": [
            (T0 + 90, T0 + 95, 20000, WORKER, 99, word("aclrtMemcpyAsync")),
            (T0 + 100, T0 + 110, 10000, WORKER, 100, word("launch")),
            (T0 + 120, T0 + 130, 10000, WORKER, 101, word("launch")),
            (T0 + 320, T0 + 330, 5500, HOST, 102, word("Launch_Ffts")),
        ],
        "TASK": [
            (T0 + 150, T0 + 160, 0, 99, 1, PID, word("MEMCPY_ASYNC"), far, 2, 1, far),
            (T0 + 200, T0 + 250, 0, 100, 2, PID, word("KERNEL_AIVEC"), far, 2, 2, far),
            (T0 + 260, T0 + 300, 0, 101, 3, PID, word("KERNEL_AICORE"), 0, 2, 3, far),
            (T0 + 255, T0 + 305, 0, 101, 4, PID, word("KERNEL_AICORE"), far, 2, 3, far),
            (T0 + 340, T0 + 345, 0, 102, 5, PID, word("Notify Wait"), far, 3, 4, far),
            (T0 + 345, T0 + 380, 0, 102, 6, PID, word("SDMA"), far, 3, 5, far),
            (T0 + 310, T0 + 311, 0, far, 7, PID, word("EVENT_RECORD"), far, 2, 6, far),
        ],
        "COMPUTE_TASK_INFO": [
            _info(2, "mm_vec", "AI_VECTOR_CORE", "Cast", word),
            _info(3, "mm_cube", "AI_CORE", "MatMulV2", word),
        ],
        "TASK_PMU_INFO": [
            (2, word("aiv_total_time"), 45_500), (3, word("aic_total_time"), 39_000.5), (3, word("aic_mac_ratio"), 0.75),
            (3, word("aic_total_cycles"), 70_000), (99, word("aic_mac_ratio"), 0.5),
        ],
        "COMMUNICATION_OP": [
            (word("hcom_allReduce__1_0_1"), T0 + 340, T0 + 400, 102, word("group a"), 1, 0, 0, 4, word("MESH"), 64,
             word("hcom_allReduce_")),
        ],
        "COMMUNICATION_TASK_INFO": [
            (word("x"), 5, word("Notify_Wait"), 0, word("group a"), 8, 0, 0, 1, 0, 0, 4, 0, 1),
            (word("x"), 6, word("Memcpy"), 1, word("group a"), 8, 0, 0, 1, 0, 4096, 4, 0, 1),
            (word("x"), 77, word("Memcpy"), 1, word("group a"), 8, 0, 0, 1, 0, 4096, 4, 0, 1),
        ],
        "ENUM_HCCL_DATA_TYPE": [(4, "FP32")],
        "ENUM_MODULE": [(3, "RUNTIME")],
        "STEP_TIME": [(7, T0, T0 + 900)],
        "OP_MEMORY": [
            (word("aten::empty"), 512, T0 + 30, T0 + 600, T0 + 610, 570, 580, 1024, 4096, 1024, 512, 4096, 512, 77, 0),
            (word("Conv1"), 2048, T0 + 40, None, None, None, None, 2048, 4096, None, None, None, None, None, 0),
        ],
        "MEMORY_RECORD": [(word("PTA"), T0 + 30, 1024, 4096, 1024, 77, 0)],
        "NPU_MODULE_MEM": [(3, T0 + 10, 3_145_728, 0)],
        "NPU_MEM": [(word("app"), 0, 8192, T0 + 20, 0), (word("device"), 0, 65536, T0 + 20, 0)],
        "AICORE_FREQ": [(0, T0 + 1, 1800), (0, T0 + 500, 800)],
        "HBM": [(0, T0 + 2, 3 * 2**20, 1, word("read"))],
        "LLC": [(0, 0, T0 + 3, 85.5, 2**20, word("read"))],
        "ACC_PMU": [(4, 1, 2, 3, 4, T0 + 4, 0)],
        "SOC_BANDWIDTH_LEVEL": [(1, 2, T0 + 5, 0)],
        "OVERLAP_ANALYSIS": [(1, 0, T0 + 200, T0 + 250, 0), (2, 0, T0 + 250, T0 + 260, 3)],
        "MEMCPY_INFO": [(1, 640, word("host to device"))],
        "QOS": [(0, word("OTHERS"), 2**20, T0 + 6)],
        "NIC": [(0, T0 + 7, 100, 2.5, 3)],
        "HCCS": [(0, T0 + 8, 4, 5)],
        "META_DATA": [("SCHEMA_VERSION", "1.0.0"), ("distributed_args", '{"world_size": 8}'), ("odd", "{no json")],
        "NPU_INFO": [(0, "Ascend910B"), (1, "Ascend910B")],
        "HOST_INFO": [("1", "node-7")],
        "RANK_DEVICE_MAP": [(5, 0)],
    }  # fmt: skip
    return {"STRING_IDS": [(number, text) for text, number in word.numbers.items()], **rows}


def _api(
    start: int, end: int, name: str, what: int, word: Words, connection: int | None = None, sequence: int = -1,
    forward: int = 0, types: str = "", shapes: str = "", chain: int | None = None,
    thread: int = HOST,
) -> tuple[Any, ...]:  # fmt: skip
    return (
        str(T0 + start), str(T0 + end), thread, connection, word(name), sequence, forward, word(types) if types else None,
        word(shapes) if shapes else None, chain, what,
    )  # fmt: skip


def _info(number: int, name: str, core: str, kind: str, word: Words) -> tuple[Any, ...]:
    layout, dtype, shape, none = word("ND"), word("FLOAT"), word('"2,3;3,4"'), word("N/A")
    return (word(name), number, 24, 0, word(core), word(kind), layout, dtype, shape, layout, dtype, shape, none)


def database(
    rows: Mapping[str, Iterable[Sequence[Any]]], more: Sequence[str] = (), tables: Mapping[str, str] = TABLES
) -> bytes:
    """A database with these rows; ``more`` are statements that are run last."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            for table in rows:
                connection.execute(f"CREATE TABLE {table} ({tables[table]})")
            for table, content in rows.items():
                for row in content:
                    connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
            connection.execute("COMMIT")
            for statement in more:
                connection.execute(statement)
        connection.close()
        return path.read_bytes()


@dataclass(frozen=True)
class Folder:
    """A Source of several files in memory."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        return list(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])

    def size(self, name: str) -> int:
        return len(self.files[name])


def read(files: Mapping[str, bytes] | bytes) -> RawTrace:
    """The profile of these files, or of one database of rows."""
    folder = Folder({ROWS: files} if isinstance(files, bytes) else files)
    return AscendReader().read(folder, ReadOptions(), no_progress)
