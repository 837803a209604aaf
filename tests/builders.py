"""Hand-sized traces: say what happened in whole microseconds, get Kineto's JSON, the model, or an analysis's answer.

    table = trace().step(1, at=0, dur=400).op("aten::mm", at=0, dur=5).launches(kernel("gemm", dur=4)).table()

Hosts are pid 1, devices are pid = device id; correlations are numbered by ``launches``. ``dur`` and ``at`` may also be
fractions: they are written as they are.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params, Part
from tb_plugin.formats.base import Reader, ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tests.synthetic import loaded

Timeline: Any = loaded("events").Timeline
HOST = 1
Time = int | float
Json = dict[str, Any]


@dataclass(frozen=True)
class Bytes:
    """A Source of one file in memory."""

    content: bytes
    name: str = "worker0.pt.trace.json"

    def names(self) -> Sequence[str]:
        return [self.name]

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.content)

    def size(self, name: str) -> int:
        return len(self.content)


def reader_of(content: bytes, name: str) -> Reader:
    """The reader that a scan would choose by the name and the first bytes."""
    if ".pt.trace.json" in name:
        return KinetoReader()
    head = zlib.decompressobj(wbits=31).decompress(content, 65_536) if content[:2] == b"\x1f\x8b" else content[:65_536]
    return next(reader for reader in registry.readers() if reader.sniff(head))


def read(content: bytes | Path, chunk_bytes: int = 512 * 1024, name: str = "worker0.pt.trace.json") -> RawTrace:
    """The raw trace of bytes or of a file."""
    if isinstance(content, Path):
        content, name = content.read_bytes(), content.name
    return reader_of(content, name).read(Bytes(content, name), ReadOptions(chunk_bytes), no_progress)


def model(content: bytes | Path) -> TraceTable:
    """The model of bytes or of a file."""
    return assemble(read(content))


def analysis(name: str) -> Analysis:
    return next(a for a in registry.analyses() if a.id == name)


def part(table: TraceTable, view: str, steps: tuple[str, ...] | None = None, **params: Any) -> Part:
    return analysis(view).part(table, Params(steps=steps, **params))


def whole_part(table: TraceTable, view: str, steps: tuple[str, ...] | None = None) -> Part:
    """A part with what it borrows from other views, over all recorded steps unless some are chosen."""
    steps = steps or (tuple(table.steps.label) if table.steps.recorded else None)
    found = part(table, view, steps)
    for other, names in analysis(view).borrows.items():
        lender = part(table, other, steps)
        frames = {name: lender.frames[name] for name in names if name in lender.frames}
        payloads = {name: lender.payloads[name] for name in names if name in lender.payloads}
        found = replace(found, frames={**found.frames, **frames}, payloads={**found.payloads, **payloads})
    return found


def rows(table: TraceTable, view: str, frame: str | None = None, **params: Any) -> list[Json]:
    """All rows of one table of a view, in its own order."""
    found: list[Json] = part(table, view, **params).frames[frame or view].data.to_pylist()
    return found


def row(table: TraceTable, view: str, frame: str | None = None, steps: Any = None, **where: Any) -> Json:
    """The only row of a table whose values are these."""
    every = rows(table, view, frame, steps=steps)
    found = [r for r in every if all(r[key] == value for key, value in where.items())]
    assert len(found) == 1, f"{len(found)} rows for {where} among {every}"
    return found[0]


def figures(shown: Any) -> Json:
    """Key -> value of the figures of a notice or payload."""
    return {figure.metric.key: figure.value for figure in shown.figures}


def paths(nodes: Iterable[Mapping[str, Any]], parents: Iterable[int], name: str) -> list[tuple[str, ...]]:
    """The path of each node of a tree, by the names of a column; a parent stands before its children."""
    found: list[tuple[str, ...]] = []
    for node, above in zip(nodes, parents, strict=True):
        found.append((*(found[above] if above >= 0 else ()), str(node[name])))
    return found


def facts(table: TraceTable, steps: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    return part(table, "overview", steps).facts


def named(table: TraceTable, name: str) -> int:
    """The number of the only event of that name."""
    (found,) = [i for i, text in enumerate(table.name) if table.strings[text] == name]
    return found


def name_of(table: TraceTable, event: int) -> str | None:
    return None if event < 0 else table.strings[int(table.name[event])]


@dataclass(frozen=True)
class Work:
    """Work on a device that a call launches; without ``at`` it starts when the call ends."""

    category: str
    name: str
    dur: Time
    at: Time | None = None
    device: Any = 0
    stream: Any = 7
    args: Json = field(default_factory=dict)


def kernel(
    name: str = "kernel", dur: Time = 1, at: Time | None = None, *, device: Any = 0, stream: Any = 7, **args: Any
) -> Work:
    return Work("kernel", name, dur, at, device, stream, _device_args(args))


def memcpy(dur: Time = 1, at: Time | None = None, name: str = "Memcpy HtoD (Pinned -> Device)", **args: Any) -> Work:
    return Work("gpu_memcpy", name, dur, at, args.pop("device", 0), args.pop("stream", 7), args)


def memset(dur: Time = 1, at: Time | None = None, name: str = "Memset (Device)", **args: Any) -> Work:
    return Work("gpu_memset", name, dur, at, args.pop("device", 0), args.pop("stream", 7), args)


_LONG = {
    "blocks_per_sm": "blocks per SM",
    "occupancy": "est. achieved occupancy %",
    "registers": "registers per thread",
    "shared_memory": "shared memory",
}


def _device_args(args: Json) -> Json:
    return {_LONG.get(key, key): value for key, value in args.items()}


class TraceBuilder(Timeline):
    """Collects events; every method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Json = {}
        self._correlation = 1_000_000
        self._flow = 0

    # host

    def event(
        self, category: str | None, name: str, at: Time, dur: Time | None, pid: Any, tid: Any, **args: Any
    ) -> Self:
        """Any duration event. Arguments that are None are left out."""
        stated = {key: value for key, value in args.items() if value is not None}
        return self.span(category, name, at, dur, pid, tid, stated)

    def op(
        self,
        name: str,
        at: Time,
        dur: Time,
        ext: int | None = None,
        tid: Any = 1,
        *,
        shapes: Any = None,
        stack: str | None = None,
        sequence: int | None = None,
        forward_thread: int | None = None,
        category: str = "cpu_op",
        **args: Any,
    ) -> Self:
        args |= {"External id": ext, "Input Dims": shapes, "Call stack": stack, "Sequence number": sequence}
        return self.event(category, name, at, dur, HOST, tid, **{**args, "Fwd thread id": forward_thread})

    def annotation(self, name: str, at: Time, dur: Time, ext: int | None = None, tid: Any = 1) -> Self:
        return self.event("user_annotation", name, at, dur, HOST, tid, **{"External id": ext})

    def step(self, number: int, at: Time, dur: Time, ext: int | None = None, tid: Any = 1) -> Self:
        return self.annotation(f"ProfilerStep#{number}", at, dur, ext, tid)

    def python(
        self, name: str, at: Time, dur: Time, id: int | None = None, parent: int | None = None, tid: Any = 1
    ) -> Self:
        return self.event("python_function", name, at, dur, HOST, tid, **{"Python id": id, "Python parent id": parent})

    def module(
        self,
        name: str,
        at: Time,
        dur: Time,
        number: int = 0,
        id: int | None = None,
        parent: int | None = None,
        tid: Any = 1,
    ) -> Self:
        args = {"Python id": id, "Python parent id": parent, "Python module id": number}
        return self.event("python_function", f"nn.Module: {name}_{number}", at, dur, HOST, tid, **args)

    def call(
        self,
        at: Time,
        dur: Time,
        ext: int | None = None,
        corr: int | None = None,
        tid: Any = 1,
        name: str = "cudaLaunchKernel",
        category: str = "cuda_runtime",
    ) -> Self:
        """A call of the runtime (or, by ``category``, of the driver)."""
        return self.event(category, name, at, dur, HOST, tid, **{"External id": ext, "correlation": corr})

    def launches(self, *work: Work, at: Time | None = None, dur: Time = 0, name: str = "cudaLaunchKernel") -> Self:
        """The last operator calls the runtime (by default at its start, for no time), which launches all of ``work``."""
        caller = next(
            e for e in reversed(self.events) if e.get("cat") in ("cpu_op", "user_annotation", "python_function")
        )
        begin = caller["ts"] if at is None else at
        self._correlation += 1
        category = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
        self.call(begin, dur, None, self._correlation, caller["tid"], name, category)
        for item in work:
            start = begin + dur if item.at is None else item.at
            self._work(item, start, {"correlation": self._correlation})
        return self

    # device

    def on_device(self, work: Work, ext: int | None = None, corr: int | None = None) -> Self:
        """Work whose launch is another event (with the same ``corr``) or none."""
        assert work.at is not None, "say when"
        return self._work(work, work.at, {"External id": ext, "correlation": corr})

    def _work(self, work: Work, at: Time, ids: Json) -> Self:
        where = {"device": work.device, "stream": work.stream}
        pid = 0 if work.device is None else work.device
        return self.event(work.category, work.name, at, work.dur, pid, work.stream, **{**where, **work.args, **ids})

    def device_annotation(self, name: str, at: Time, dur: Time, device: int = 0, stream: Any = 7) -> Self:
        return self.event("gpu_user_annotation", name, at, dur, device, stream)

    def device(self, number: int, **properties: Any) -> Self:
        plain = {"name": "Tesla V100", "totalGlobalMem": 16 << 30, "computeMajor": 7, "computeMinor": 0, "numSms": 80}
        self.root.setdefault("deviceProperties", []).append({"id": number, **plain, **properties})
        return self

    # the rest

    def memory(self, at: Time, size: int, device_type: int = 0, device_id: int = -1, tid: Any = 1, **args: Any) -> Self:
        args = {"Bytes": size, "Device Type": device_type, "Device Id": device_id, "Addr": 1, **args}
        return self.memory_event(at, HOST, tid, args)

    def counter(self, at: Time, name: str = "c", pid: Any = HOST, tid: Any = 0, **values: Any) -> Self:
        """A counter event with a value for each of its series."""
        return self.counter_event(name, at, pid, tid, values)

    def arrow(self, forward: Time, backward: Time, forward_tid: Any = 1, backward_tid: Any = 2) -> Self:
        """A forward-backward link between the operators that start then."""
        self._flow += 1
        self.flow("s", "fwdbwd", self._flow, forward, HOST, forward_tid)
        return self.flow("f", "fwdbwd", self._flow, backward, HOST, backward_tid)

    def thread_name(self, tid: Any, name: str, pid: Any = HOST) -> Self:
        return self.metadata("thread_name", pid, tid, 0, {"name": name})

    def meta(self, **root: Any) -> Self:
        self.root |= root
        return self

    # results

    def text(self) -> str:
        """The file, laid out as Kineto does."""
        head = {"schemaVersion": 1, **self.root}
        members = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        events = ",\n".join("  " + json.dumps(event) for event in self.events)
        return "{\n" + ",\n".join(members) + ',\n  "traceEvents": [\n' + events + "\n  ]\n}\n"

    def bytes(self, compressed: bool = False) -> bytes:
        content = self.text().encode()
        return gzip.compress(content, mtime=0) if compressed else content

    def raw_trace(self, chunk_bytes: int = 512 * 1024) -> RawTrace:
        return read(self.bytes(), chunk_bytes)

    def table(self) -> TraceTable:
        return assemble(self.raw_trace())


def trace() -> TraceBuilder:
    return TraceBuilder()
