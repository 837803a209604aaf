"""The text export: events of trace_view.json."""

from __future__ import annotations

from typing import Any, ClassVar

from events import Json, micros

from .records import COMPUTE, COPIES, GROUPS, KIB, NO_MODEL, Process
from .sums import bars_of
from .tables import compact_json, packets, process_levels


class TraceView:
    """Events as the producer writes them: a bare list, times as texts."""

    SORT: ClassVar = {
        "Python GC": 1, "CANN": 7, "Ascend Hardware": 13, "AI Core Freq": 14, "Communication": 15, "HBM": 17, "NPU MEM": 19,
        "Overlap Analysis": 23,
    }  # fmt: skip

    def __init__(self, process: Process) -> None:
        self.p = process
        self.events: list[Json] = []

    def text(self) -> str:
        """Returns the file."""
        self._host()
        self._cann()
        self._streams()
        self._groups()
        self._counters()
        for tid, (lane, bars) in enumerate(bars_of(self.p).items()):
            for start, end in bars:
                self._add("X", lane, self._pid("Overlap Analysis"), tid, start, end - start)
        return compact_json([*self._names(), *self.events])

    def _pid(self, name: str) -> int:
        return self.p.pid << 10 | self.SORT[name] << 5 | self.p.device

    def _add(self, ph: str, name: str, pid: int, tid: int, at: int, dur: int | None = None, **more: Any) -> None:
        took = {} if dur is None else {"dur": dur / 1000}
        self.events.append({"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": micros(at), **took, **more})

    def _arrow(
        self, cat: str, name: str, number: int | str, source: tuple[int, int, int], target: tuple[int, int, int]
    ) -> None:
        for ph, (pid, tid, at) in (("s", source), ("f", target)):
            self._add(ph, name, pid, tid, at, bp="e", id=number, cat=cat)

    def _names(self) -> list[Json]:
        npu = f"NPU {self.p.device}"
        rows: list[tuple[str, int, str, int, dict[int, str]]] = [
            ("Python", self.p.pid, "CPU", 0, {t: f"Thread {t}" for t in self.p.threads}),
            ("Python GC", self._pid("Python GC"), "CPU", 1, {self.p.main: f"Thread {self.p.main}"}),
            ("CANN", self._pid("CANN"), "CPU", 7, {self.p.queue_thread: f"Thread {self.p.queue_thread}"}),
            ("Ascend Hardware", self._pid("Ascend Hardware"), npu, 13, {n: f"Stream {n}" for n in (COMPUTE, COPIES)}),
            ("Communication", self._pid("Communication"), npu, 15, {
                0: "Group 0 Communication", 1: "Plane 0", 2: "Group 1 Communication", 3: "Plane 0"}),
            ("Overlap Analysis", self._pid("Overlap Analysis"), npu, 23, dict(enumerate(bars_of(self.p)))),
            *((name, self._pid(name), npu, self.SORT[name], {}) for name in ("AI Core Freq", "HBM", "NPU MEM")),
        ]  # fmt: skip
        made: list[Json] = []
        for name, pid, label, sort, threads in rows:
            facts = [
                ("process_name", "name", name),
                ("process_labels", "labels", label),
                ("process_sort_index", "sort_index", sort),
            ]
            made += [
                {"ph": "M", "name": what, "pid": pid, "tid": 0, "args": {key: value}} for what, key, value in facts
            ]
            for order, (tid, thread) in enumerate(threads.items()):
                facts = [("thread_name", "name", thread), ("thread_sort_index", "sort_index", order)]
                made += [
                    {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}}
                    for what, key, value in facts
                ]
        return made

    def _host(self) -> None:
        p = self.p
        for op in p.ops:
            args: Json = {"Sequence number": op.sequence, "Fwd thread id": op.forward_thread}
            if op.shapes:
                args |= {"Input Dims": ";\r\n".join(op.shapes), "Input type": ";\r\n".join(op.types)}
            if op.stack:
                args["Call stack"] = ";\r\n".join(op.stack)
            self._add("X", op.name, p.pid, op.thread, op.start_ns, op.end_ns - op.start_ns, cat="cpu_op", args=args)
        for frame in p.frames:
            args = {"Python id": frame.number, "Python parent id": frame.parent}
            if frame.module is not None:
                args["Python module id"] = frame.module
            self._add(
                "X",
                frame.name,
                p.pid,
                p.main,
                frame.start_ns,
                frame.end_ns - frame.start_ns,
                cat="python_function",
                args=args,
            )
        for one in p.queue:
            args = {"correlation_id": one.correlation}
            self._add(
                "X", "Enqueue", p.pid, one.thread, one.start_ns, one.end_ns - one.start_ns, cat="enqueue", args=args
            )
            self._add(
                "X", one.name, p.pid, p.queue_thread, one.taken_ns, one.done_ns - one.taken_ns, cat="dequeue", args=args
            )
            target = (p.pid, p.queue_thread, one.taken_ns)
            self._arrow(
                "async_task_queue", "enqueue_to_dequeue", one.correlation, (p.pid, one.thread, one.start_ns), target
            )
        for source, target in p.forward_backward:
            ends = [(p.pid, p.ops[place].thread, p.ops[place].start_ns) for place in (source, target)]
            self._arrow("fwdbwd", "fwdbwd", p.ops[source].sequence, ends[0], ends[1])
        for start, end in p.collections:
            self._add("X", "GC", self._pid("Python GC"), p.main, start, end - start, cat="GC")

    def _cann(self) -> None:
        p = self.p
        for call in p.calls:
            args = {
                "Thread Id": p.queue_thread, "Mode": "ACL_RTS", "level": call.level, "id": call.name.partition("@")[2],
                "item_id": "0", "connection_id": call.connection,
            }  # fmt: skip
            self._add(
                "X", call.name, self._pid("CANN"), p.queue_thread, call.start_ns, call.end_ns - call.start_ns, args=args
            )

    def _launched(self, connection: int, op: int, pid: int, tid: int, start: int) -> None:
        """Both arrows to work of the device: from the call of the framework, and from the last call of CANN for it."""
        p = self.p
        if op < 0:
            return
        end = (pid, tid, start)
        self._arrow("async_npu", "torch_to_npu", start, (p.pid, p.ops[op].thread, p.ops[op].start_ns), end)
        call = [one for one in p.calls if one.connection == connection and one.level in ("node", "acl")][-1]
        source = (self._pid("CANN"), p.queue_thread, call.start_ns)
        self._arrow("HostToDevice", f"HostToDevice{connection}", str(connection), source, end)

    def _streams(self) -> None:
        pid = self._pid("Ascend Hardware")
        for task in self.p.tasks:
            args: Json = {
                "Model Id": NO_MODEL, "Task Type": task.task_type, "Physic Stream Id": task.stream, "Task Id": task.number,
                "Batch Id": 0, "Subtask Id": NO_MODEL, "connection_id": task.connection,
            }  # fmt: skip
            if task.bytes:
                args |= {"data size(Byte)": task.bytes, "memcpy direction": "H2D" if task.bytes > 4 else "D2H"}
            self._add("X", task.name, pid, task.stream, task.start_ns, task.end_ns - task.start_ns, args=args)
            self._launched(task.connection, task.op, pid, task.stream, task.start_ns)

    def _groups(self) -> None:
        pid = self._pid("Communication")
        for one in self.p.collectives:
            tid = 2 * list(GROUPS).index(one.group)
            args: Json = {
                "connection_id": one.connection, "model id": NO_MODEL, "data_type": "FP32", "alg_type": "MESH-RING",
                "count": one.count,
            }  # fmt: skip
            self._add("X", one.name, pid, tid, one.start_ns, one.end_ns - one.start_ns, args=args)
            self._launched(one.connection, one.op, pid, tid, one.start_ns)
            if one.ready_ns > one.start_ns:
                args = {
                    "notify_id": "7",
                    "task type": "Notify_Wait",
                    "src rank": 1 - self.p.rank,
                    "dst rank": self.p.rank,
                }
                self._add("X", "Notify_Wait", pid, tid + 1, one.start_ns, one.ready_ns - one.start_ns, args=args)
            for start, end in packets(one):
                args = {
                    "task type": "Memcpy", "src rank": self.p.rank, "dst rank": 1 - self.p.rank, "transport type": "SDMA",
                    "size(Byte)": one.packet_bytes, "data type": "FP32", "link type": "HCCS",
                }  # fmt: skip
                self._add("X", "Memcpy", pid, tid + 1, start, end - start, args=args)

    def _counters(self) -> None:
        for at, mhz in self.p.frequency:
            self._add("C", "AI Core Freq", self._pid("AI Core Freq"), 0, at, args={"MHz": mhz})
        for at, size in process_levels(self.p):
            self._add("C", "APP/HBM", self._pid("NPU MEM"), 0, at, args={"KB": size / KIB})
            self._add("C", "HBM 0/Read", self._pid("HBM"), 0, at, args={"Read(MB/s)": 1234.5})
