"""The trace of one rank, as Kineto would write it: text by templates, a step at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from events import H100, Json, distributed_info, micros, write_pieces

from .calls import Told, first_step, listed, told
from .job import DESCRIPTIONS, Job
from .playing import BASE_NS, BEGIN_NS, CALL_NS, COMM_CALL_NS, WAIT_NS, Plan, more_calls, plan, segment_ns
from .program import BASES_NS, COMPUTE_STREAM, KERNELS, NCCL, RECV, SEGMENT, SEND, STREAMS, WAIT, Op


class _Writer:
    """Text of one rank's trace, a step at a time."""

    def __init__(self, made: Plan, rank: int) -> None:
        self.made, self.rank, self.job = made, rank, made.job
        self.stage, self.at = made.stage_of(rank)
        self.told: dict[int, list[Told]] = {}
        for one in told(made, rank):
            self.told.setdefault(one.place, []).append(one)
        self.pid, self.device = 40_000 + rank, rank % made.job.node
        self.number = 1
        thread = f'"pid": {self.pid}, "tid": {self.pid}'
        stream = f'"pid": {self.device}, "tid": {COMPUTE_STREAM}'
        shape = (
            '"context": 1, "registers per thread": 64, "shared memory": 0, "blocks per SM": 4.0, "warps per SM": 16.0'
        )
        shape += ', "grid": [528, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 25'
        # An operator, the launch in it, its arrow's begin, the kernel, the arrow's end.
        self.kernels = [
            f'{{"ph": "X", "cat": "cpu_op", "name": "{operator}", {thread}, "ts": %d.%03d, "dur": 5.000, '
            f'"args": {{"External id": %d, "Record function id": 0, "Ev Idx": %d}}}},\n'
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {thread}, "ts": %d.%03d, "dur": 3.000, '
            f'"args": {{"External id": %d, "cbid": 211, "correlation": %d}}}},\n'
            f'{{"ph": "s", "id": %d, {thread}, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g"}},\n'
            f'{{"ph": "X", "cat": "kernel", "name": "{kernel}", {stream}, "ts": %d.%03d, "dur": %d.%03d, '
            f'"args": {{"External id": %d, "device": {self.device}, "stream": {COMPUTE_STREAM}, "correlation": %d, '
            f'"queued": 0, {shape}}}}},\n'
            f'{{"ph": "f", "id": %d, {stream}, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g", "bp": "e"}},\n'
            for operator, kernel, _ in KERNELS
        ]
        self.shape = shape.replace("%%", "%")

    def head(self) -> str:
        job = self.job
        groups = [
            (str(groups.first_number + row), DESCRIPTIONS[job.naming][kind], groups.members[row].tolist())
            for kind, groups in self.made.groups.items()
            for row in [int(groups.of_rank[self.rank])]
        ]
        head: Json = {
            "schemaVersion": 1, "deviceProperties": [{"id": self.device, **H100}], "cupti_version": 26,
            "cuda_runtime_version": 12080, "cuda_driver_version": 12080,
            "distributedInfo": distributed_info(self.rank, job.ranks, groups), "trace_id": f"{job.seed:016X}{self.rank:016X}",
            "host_name": f"synthetic-{self.rank // job.node}", "record_shapes": 1,
            "synthetic": "made by samples/synthetic_job.py, not recorded", "displayTimeUnit": "ms",
            "baseTimeNanoseconds": int(self.made.base[self.rank]),
        }  # fmt: skip
        text = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
        names = [
            (self.pid, 0, "process_name", {"name": "python"}),
            (self.pid, 0, "process_labels", {"labels": "CPU"}),
            (self.pid, self.pid, "thread_name", {"name": f"thread {self.pid} (python)"}),
            (self.device, 0, "process_name", {"name": "python"}),
            (self.device, 0, "process_labels", {"labels": f"GPU {self.device}"}),
        ]
        streams = {COMPUTE_STREAM, *(STREAMS[self.stage.ops[place].stream] for place in self.told)}
        names += [(self.device, stream, "thread_name", {"name": f"stream {stream} "}) for stream in sorted(streams)]
        begin = self._us(self.made.begin[first_step(job, self.rank), self.rank] - 1_000)
        return text + ',\n"traceEvents": [\n' + "".join(
            f'{{"ph": "M", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {begin}, "args": {json.dumps(args)}}},\n'
            for pid, tid, name, args in names
        )  # fmt: skip

    def tail(self) -> str:
        begin = self.made.begin[first_step(self.job, self.rank), self.rank] - 1_000
        end = self.made.finish[-1, self.rank] + 40_000
        tool = "PyTorch Profiler"
        return (
            f'{{"ph": "X", "cat": "Trace", "name": "{tool} (0)", "pid": "Spans", "tid": "{tool}", '
            f'{self._lasting(begin, end)}, "args": {{"Op count": 0}}}},\n'
            f'{{"ph": "i", "s": "g", "name": "Iteration Start: {tool}", "pid": "Traces", "tid": "Trace {tool}", '
            f'"ts": {self._us(begin)}}},\n'
            f'{{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": {self._us(end)}}}\n'
            f'],\n"traceName": "/tmp/{file_name(self.made, self.rank)}"\n}}\n'
        )

    def text(self) -> Iterator[str]:
        yield self.head()
        for step in range(first_step(self.job, self.rank), self.job.steps):
            yield "".join(self._step(step))
        yield self.tail()

    def _us(self, time: Any) -> str:
        return micros(int(self.made.local(self.rank, np.int64(time))))

    def _lasting(self, start: Any, end: Any) -> str:
        first, last = (int(self.made.local(self.rank, np.int64(time))) for time in (start, end))
        return f'"ts": {micros(first)}, "dur": {micros(last - first)}'

    def _numbers(self, count: int) -> int:
        self.number += count
        return self.number - count

    def _host(self, category: str, name: str, start: int, ns: int, args: str, external: int) -> str:
        more = f", {args}" if args else ""
        return (
            f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {self.pid}, "tid": {self.pid}, '
            f'{self._lasting(start, start + ns)}, "args": {{"External id": {external}{more}}}}},\n'
        )

    def _arrow(self, phase: str, number: int, time: int, stream: int | None = None) -> str:
        where = f'"pid": {self.pid}, "tid": {self.pid}' if stream is None else f'"pid": {self.device}, "tid": {stream}'
        end = "" if stream is None else ', "bp": "e"'
        return f'{{"ph": "{phase}", "id": {number}, {where}, "ts": {self._us(time)}, "cat": "ac2g", "name": "ac2g"{end}}},\n'

    def _step(self, step: int) -> Iterator[str]:
        made, rank = self.made, self.rank
        begin, finish = int(made.begin[step, rank]), int(made.finish[step, rank])
        number = self._numbers(2)
        yield self._host(
            "user_annotation", f"ProfilerStep#{step}", begin, finish - begin, f'"Ev Idx": {number}', number
        )
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        loaded = int(made.loaded[step, rank])
        yield self._host("user_annotation", loader, begin, loaded - begin, f'"Ev Idx": {number + 1}', number + 1)
        yield from self._copy(step)
        yield from self._segments(step)
        last = int(made.copied[step, rank, 2])
        for place, op in enumerate(self.stage.ops):
            if op.kind == WAIT:
                for i, of in enumerate(op.of):
                    yield from self._wait(step, of, int(self.stage.host[step, place, self.at]) + i * WAIT_NS)
            elif op.kind == SEGMENT:
                last = max(last, int(self.stage.end[step, place, self.at]))
            else:
                yield from self._collective(step, place, op)
        yield from self._sync(step)
        start = int(made.copied[step, rank, 1])
        yield (
            f'{{"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#{step}", "pid": {self.device}, '
            f'"tid": {COMPUTE_STREAM}, {self._lasting(start, last)}, "args": {{"External id": {number}}}}},\n'
        )

    def _copy(self, step: int) -> Iterator[str]:
        host, start, end = (int(time) for time in self.made.copied[step, self.rank])
        number = self._numbers(1)
        yield self._host("cpu_op", "aten::to", host, 5_000, f'"Ev Idx": {number}', number)
        yield self._host(
            "cuda_runtime", "cudaMemcpyAsync", host + 1_000, 3_000, f'"cbid": 41, "correlation": {number}', number
        )
        yield self._arrow("s", number, host + 1_000)
        yield (
            f'{{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": {self.device}, '
            f'"tid": {COMPUTE_STREAM}, {self._lasting(start, end)}, "args": {{"External id": {number}, '
            f'"device": {self.device}, "stream": {COMPUTE_STREAM}, "correlation": {number}, "bytes": 4194304, '
            f'"context": 1, "memory bandwidth (GB/s)": {4194304 / (end - start)}}}}},\n'
        )
        yield self._arrow("f", number, start, COMPUTE_STREAM)

    def _sync(self, step: int) -> Iterator[str]:
        host, until = int(self.made.synced[step, self.rank]), int(self.made.finish[step, self.rank]) - 1_000
        number = self._numbers(1)
        yield self._host("cpu_op", "aten::item", host, until - host, f'"Ev Idx": {number}', number)
        call = f'"cbid": 131, "correlation": {number}'
        yield self._host("cuda_runtime", "cudaStreamSynchronize", host + 1_000, until - host - 2_000, call, number)

    def _segments(self, step: int) -> Iterator[str]:
        """All kernels of a step that compute, by one pass over arrays."""
        kinds, hosts, starts, lasting = [], [], [], []
        for place, op in enumerate(self.stage.ops):
            if op.kind != SEGMENT:
                continue
            kernels, ns = segment_ns(self.job, self.stage, step, place, self.rank)
            ns = ns[0]
            for at, kernel, more in more_calls(self.job, self.stage, step, place):
                if at == self.at:
                    kernels = np.append(kernels, np.full(more, kernel))
                    ns = np.append(ns, np.full(more, BASES_NS[kernel]))
            kinds.append(kernels)
            lasting.append(ns)
            hosts.append(self.stage.host[step, place, self.at] + np.arange(len(ns)) * CALL_NS)
            starts.append(self.stage.start[step, place, self.at] + np.cumsum(ns) - ns)
        kernels = np.concatenate(kinds)
        begin = np.concatenate(starts)
        host = self.made.local(self.rank, np.concatenate(hosts))
        start, end = self.made.local(self.rank, begin), self.made.local(self.rank, begin + np.concatenate(lasting))
        number = (self._numbers(len(kernels)) + np.arange(len(kernels))).tolist()
        parts = []
        for time in (host, host + 1_000, start, end - start):
            whole, rest = np.divmod(time, 1_000)
            parts += [whole.tolist(), rest.tolist()]
        templates = self.kernels
        for kernel, n, h, hr, c, cr, s, sr, d, dr in zip(kernels.tolist(), number, *parts, strict=True):
            yield templates[kernel] % (h, hr, n, n, c, cr, n, n, n, c, cr, s, sr, d, dr, n, n, n, s, sr)

    def _about(self, op: Op, one: Told, step: int) -> str:
        """The metadata of a collective, as its call and its kernel state it."""
        inside, outside = one.in_elements, one.out_elements
        sent = received = "[]"
        if op.collective == "all_to_allv":
            splits = self.stage.splits[step, one.place][one.group]
            given, taken = splits[one.in_group].tolist(), splits[:, one.in_group].tolist()
            inside, outside, sent, received = sum(given), sum(taken), listed(given), listed(taken)
        ends = (
            f', "Dst Rank": {one.destination}'
            if op.kind == SEND
            else f', "Src Rank": {one.source}'
            if op.kind == RECV
            else ""
        )
        sequence = f', "Seq": {step * one.a_step + one.order + 1}' if self.job.sequence else ""
        return (
            f'"Collective name": "{op.collective}", "dtype": "{op.dtype}", "In msg nelems": {inside}, '
            f'"Out msg nelems": {outside}, "Group size": {one.size}, "In split size": "{sent}", '
            f'"Out split size": "{received}", "Process Group Name": "{one.name}", '
            f'"Process Group Description": "{one.description}", '
            f'"Process Group Ranks": "{one.ranks}"{ends}{sequence}'
        )

    def _collective(self, step: int, place: int, op: Op) -> Iterator[str]:
        stream = STREAMS[op.stream]
        host, start, end = (
            int(times[step, place, self.at]) for times in (self.stage.host, self.stage.start, self.stage.end)
        )
        operator, kernel = NCCL[op.collective]
        asynchronous = "false" if op.waited else "true"
        every = self.told[place]
        for one in every:
            about, number = self._about(op, one, step), self._numbers(2)
            whose = f'"Rank": {one.in_group}, "Global rank start": {one.first}, "Global rank stride": {one.stride}'
            stated = f'"Record function id": 0, {about}, {whose}, "Is asynchronized op": {asynchronous}'
            at, width = (host, 15_000) if not op.parts else (host + one.part * 4_000 // len(every), 4_000 // len(every))
            yield self._host("cpu_op", operator, at, width, f'"Record function id": 0, "Ev Idx": {number}', number)
            inner = width // 8
            yield self._host(
                "cpu_op",
                "record_param_comms",
                at + inner,
                width - 2 * inner,
                f'{stated}, "Ev Idx": {number + 1}',
                number + 1,
            )
        launch = number + 1
        if op.parts:  # what closes the batch launches for all, and its kernel says nothing of them
            launch, about = self._numbers(1), ""
            yield self._host("user_annotation", "nccl:coalesced", host + 5_000, 9_000, f'"Ev Idx": {launch}', launch)
        call = f'"cbid": 430, "correlation": {launch}'
        yield self._host("cuda_runtime", "cudaLaunchKernelExC", host + 6_000, 6_000, call, launch)
        yield self._arrow("s", launch, host + 6_000)
        if not self.stage.lost[step, place, self.at]:
            kernel = kernel.format(t={"BFloat16": "bf16", "Float": "f32"}[op.dtype])
            kernel = kernel.replace("ncclDevKernel", "ncclKernel") if self.job.old_names else kernel
            yield (
                f'{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": {self.device}, "tid": {stream}, '
                f'{self._lasting(start, end)}, "args": {{"External id": {launch}, "device": {self.device}, '
                f'"stream": {stream}, "correlation": {launch}, "queued": 0, {self.shape}{about and ", " + about}}}}},\n'
            )
            yield self._arrow("f", launch, start, stream)
        if op.waited:
            yield from self._wait(step, place, host + COMM_CALL_NS - WAIT_NS)

    def _wait(self, step: int, place: int, host: int) -> Iterator[str]:
        """The host makes the compute stream wait for a collective."""
        one, number = self.told[place][0], self._numbers(1)
        sequence = f', "Seq": {step * one.a_step + one.order + 1}' if self.job.sequence else ""
        about = (
            f'"Record function id": 0, "Collective name": "wait", "dtype": "Byte", "In msg nelems": 0, "Out msg nelems": 0, '
            f'"Group size": {one.size}, "In split size": "[]", "Out split size": "[]", "Process Group Name": "{one.name}", '
            f'"Process Group Description": "{one.description}", "Process Group Ranks": "{one.ranks}", "Rank": {one.in_group}'
            f'{sequence}, "Ev Idx": {number}'
        )
        yield self._host("cpu_op", "record_param_comms", host, 2_500, about, number)
        call = f'"cbid": 147, "correlation": {number}'
        yield self._host("cuda_runtime", "cudaStreamWaitEvent", host + 500, 1_500, call, number)


def file_name(made: Plan, rank: int) -> str:
    """Returns what the file of a rank is called, as PyTorch's handler for TensorBoard would."""
    return f"rank{rank}.{BASE_NS + BEGIN_NS + int(made.finish[-1].max())}.pt.trace.json"


def text_of(made: Plan, rank: int) -> Iterator[str]:
    """Returns the text of a rank's trace in pieces of one step."""
    return _Writer(made, rank).text()


def write(
    job: Job, folder: Path, ranks: Iterable[int] | None = None, compressed: bool = True, made: Plan | None = None
) -> list[Path]:
    """Writes the traces of ranks, by default of all that are not absent."""
    made = made or plan(job)
    ending = ".gz" if compressed else ""
    return [
        write_pieces(folder / (file_name(made, rank) + ending), text_of(made, rank), level=1)
        for rank in (range(job.ranks) if ranks is None else ranks)
        if rank not in job.absent
    ]
