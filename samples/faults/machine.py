"""The machine that invented programs run on: host threads, a driver, and a device with streams; and what a profiler sees.

Integer nanoseconds. One clock is enough for the host, for its threads work in turns: main waits while autograd works.
When work begins on a stream is known as soon as it is launched, for it depends on nothing that is launched later.

Durations differ by a few per cent from call to call. Every place in the program (a step, the operators open there, which
call of that name) has random bits of its own, so that a program with a part taken out draws the same for all of the rest.
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from events import Json

from .hardware import (
    BF16,
    CALLS,
    COMM,
    COMPUTE,
    COPY,
    GAP,
    LATENCY,
    ON_DEVICE,
    PAGEABLE,
    PEER,
    PINNED,
    QUEUE,
    RETURN,
    SECOND,
    SIDE,
    US,
    Dims,
    Kernel,
    Row,
    Thread,
    grid_of,
    inputs_of,
    mixed,
    named,
    share,
)


class Machine:
    """Runs a program: every method is something that the program does, and lets time pass."""

    def __init__(self, seed: int, pace: float = 1.0) -> None:
        self.root = mixed(seed, 0)
        self.pace = pace  # how many times as long the host takes for operators and frames
        self.place = self.root
        self.seen: dict[int, int] = {}
        self.now = 200 * US
        self.main, self.autograd = Thread(41_000, "python"), Thread(41_170, "pt_autograd_0")
        self.thread = self.main
        self.frames: list[int] = []
        self.rows: list[Row] = []
        self.device_rows: list[Row] = []
        self.memory: list[tuple[int, int, Json]] = []
        self.annotated: dict[tuple[str, int], dict[int, list[int]]] = {}
        self.open_annotations: list[tuple[int, str, int]] = []
        self.replica = Thread(41_200, "python")  # of DataParallel, for a second device
        self.replica_autograd = Thread(41_230, "pt_autograd_1")
        streams = (COMPUTE, COPY, COMM, SIDE)
        self.device = 0  # what the open thread launches work on
        self.free = dict.fromkeys((*streams, *(SECOND + stream for stream in streams)), 0)
        self.ready = dict(self.free)
        self.begins: dict[int, list[int]] = {stream: [] for stream in self.free}
        self.captured: list[tuple[Kernel, int]] | None = None
        self.captures = 0
        self.external = self.sequence = self.arrow = self.python = 0
        self.correlation = 8_192
        self.event = 100
        self.notes = self.arrows = True  # operators note what backward needs, and get an arrow to it
        self.allocated = self.reserved = self.peak = 0
        self.address = 0x7F20_0000_0000
        self.steps: list[tuple[int, int]] = []

    # -- places and time ---------------------------------------------------------------------------------

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Opens a place: what is inside draws from bits of its own."""
        outer = self.place
        self.place = self._inside(name)
        yield
        self.place = outer

    def _inside(self, name: str) -> int:
        place = named(self.place, name)
        before = self.seen.get(place, 0)
        self.seen[place] = before + 1
        return mixed(place, before) if before else place

    def begin_step(self, number: int) -> None:
        """Begins the places of a step."""
        self.place = mixed(self.root, number + 1)
        self.seen.clear()

    def spend(self, ns: float) -> None:
        """Lets the host work, about so long, whatever its pace."""
        if self.captured is None:
            self.now += round(ns * (0.95 + 0.1 * share(self._inside("host"))))

    # -- host --------------------------------------------------------------------------------------------

    @contextmanager
    def op(
        self, name: str, *dims: Dims, dtype: str = BF16, before: float = 2_600, after: float = 1_200,
        forward: tuple[int, int] | None = None, backward: tuple[int, int] | None = None, extra: Json | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """An operator of so many nanoseconds before and after what it calls; `dims` are the shapes of its inputs.

        `forward` and `backward` are its sequence number and the arrow (0: none) from the one to the other.
        """
        outer, begin = self.place, self.now
        self.place = self._inside(name)
        jitter = self.pace * (0.95 + 0.1 * share(mixed(self.place, 1)))
        if self.captured is not None:
            yield
            self.place = outer
            return
        self.external += 1
        args: Json = {"External id": self.external, "Record function id": 0}
        flows: tuple[tuple[str, str, int], ...] = ()
        tie = (forward if self.notes else None) or backward
        if tie is not None:
            args |= {"Sequence number": tie[0], "Fwd thread id": 0 if forward else 1}
            flows = (("s" if forward else "f", "fwdbwd", tie[1]),) if tie[1] else ()
        if dims:
            args |= inputs_of(dims, dtype)
        if extra:
            args |= extra
        row = Row("cpu_op", name, self.thread.tid, begin, 0, args, flows)
        self.rows.append(row)
        self.thread.ids.append(self.external)
        self.now += round(before * jitter)
        yield
        self.now += round(after * jitter)
        self.thread.ids.pop()
        row.end = self.now
        self.place = outer

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """A named range (record_function), which the device's rows repeat."""
        outer = self.place
        self.place = self._inside(name)
        if self.captured is not None:
            yield
            self.place = outer
            return
        self.external += 1
        mine = (self.thread.tid, name, self.external)
        row = Row(
            "user_annotation", name, self.thread.tid, self.now, 0, {"External id": mine[2], "Record function id": 0}
        )
        self.rows.append(row)
        self.thread.ids.append(mine[2])
        self.open_annotations.append(mine)
        self.spend(900)
        yield
        self.spend(700)
        self.open_annotations.pop()
        self.thread.ids.pop()
        row.end = self.now
        self.place = outer

    @contextmanager
    def frame(self, name: str, module: int | None = None) -> Iterator[None]:
        """A Python call. The profiler sees those of the main thread alone."""
        outer = self.place
        self.place = self._inside(name)
        if self.captured is not None or self.thread is not self.main:
            yield
            self.place = outer
            return
        jitter = self.pace * (0.95 + 0.1 * share(mixed(self.place, 1)))
        self.python += 1
        args: Json = {"Python parent id": self.frames[-1] if self.frames else None, "Python id": self.python}
        if module is not None:
            args["Python module id"] = module
        row = Row("python_function", name, self.main.tid, self.now, 0, args)
        self.rows.append(row)
        self.frames.append(self.python)
        self.now += round(500 * jitter)
        yield
        self.now += round(300 * jitter)
        self.frames.pop()
        row.end = self.now
        self.place = outer

    @contextmanager
    def module(self, kind: str, number: int, source: str) -> Iterator[None]:
        """A call of one nn.Module: the frames that each brings along."""
        with self.frame(f"nn.Module: {kind}_{number}", number):
            with self.frame("torch/nn/modules/module.py(1784): _call_impl"), self.frame(source):
                yield

    def instant(self, category: str, name: str, ns: float, track: int | None = None) -> None:
        """Something that takes so long and that is recorded as one slice: a collection, the profiler's own work."""
        begin = self.now
        with self.at(name):
            self.spend(ns)
        self.rows.append(Row(category, name, self.main.tid if track is None else track, begin, self.now, {}))

    @contextmanager
    def on(self, thread: Thread, device: int = 0) -> Iterator[None]:
        """Another thread goes on while this one waits."""
        waiting, self.thread = (self.thread, self.device), thread
        self.device = device
        self.spend(9_000)
        yield
        self.thread, self.device = waiting
        self.spend(7_000)

    def next_sequence(self) -> tuple[int, int]:
        """Returns a sequence number and an arrow from an operator to its backward."""
        self.sequence += 1
        arrows = self.arrows and self.notes
        self.arrow += arrows
        return self.sequence, self.arrow if arrows else 0

    # -- driver ------------------------------------------------------------------------------------------

    def call(self, name: str, until: int = 0, linked: bool = False, ns: float | None = None) -> int:
        """A call of the runtime, which returns no earlier than `until`; returns its correlation."""
        category, number, usual = CALLS[name]
        self.correlation += 1
        jitter = 0.95 + 0.1 * share(self._inside("call"))
        begin = self.now
        self.now = max(begin + round((usual if ns is None else ns) * jitter), until)
        args: Json = {"External id": self.thread.ids[-1]} if self.thread.ids else {}
        args |= {"cbid": number, "correlation": self.correlation}
        flows = (("s", "ac2g", self.correlation),) if linked else ()
        self.rows.append(Row(category, name, self.thread.tid, begin, self.now, args, flows))
        return self.correlation

    def _take(self, stream: int, at: int, ns: int) -> int:
        """Puts work on a stream: when it begins."""
        begin = max(at + round(LATENCY * (0.9 + 0.3 * share(self._inside("latency")))), self.ready[stream])
        if self.begins[stream]:
            begin = max(begin, self.free[stream] + round(GAP * (0.9 + 0.2 * share(self._inside("gap")))))
        self.free[stream] = begin + ns
        self.begins[stream].append(begin)
        return begin

    def _room(self, stream: int) -> int:
        """Until when a launch has to wait for the queue."""
        begins = self.begins[stream]
        return begins[-QUEUE] if len(begins) >= QUEUE else 0

    def _work(self, category: str, name: str, stream: int, begin: int, ns: int, correlation: int, args: Json) -> None:
        own: Json = {"External id": self.thread.ids[-1]} if self.thread.ids else {}
        own |= {"device": stream // SECOND, "context": 1, "stream": stream % SECOND, "correlation": correlation}
        self.device_rows.append(
            Row(category, name, stream, begin, begin + ns, own | args, (("f", "ac2g", correlation),))
        )
        for tid, annotation, external in self.open_annotations:
            if tid == self.thread.tid:
                spans = self.annotated.setdefault((annotation, external), {}).setdefault(stream, [begin, begin])
                spans[1] = begin + ns

    def launch(self, kernel: Kernel, stream: int = COMPUTE, call: str = "cudaLaunchKernel") -> None:
        """Launches a kernel; into the graph that is being captured, if one is."""
        outer = self.place
        self.place = self._inside("launch")
        stream += SECOND * self.device
        ns = max(1_200, round(kernel.ns * (0.97 + 0.06 * share(mixed(self.place, 2)))))
        if self.captured is not None:
            self.captured.append((kernel, ns))
        else:
            correlation = self.call(call, self._room(stream), linked=True)
            begin = self._take(stream, self.now, ns)
            self._work("kernel", kernel.name, stream, begin, ns, correlation, grid_of(kernel) | kernel.args)
        self.place = outer

    @contextmanager
    def graph(self) -> Iterator[None]:
        """Replays as one graph what the program inside would launch."""
        self.captured = []
        yield
        kernels, self.captured = self.captured, None
        self.captures += 1
        with self.frame("<built-in method replay of torch._C._CUDAGraph object at 0x7f3b4c1d3a70>"):
            correlation = self.call("cudaGraphLaunch", self._room(COMPUTE), linked=True)
        for node, (kernel, ns) in enumerate(kernels):
            with self.at("node"):
                begin = self._take(COMPUTE, self.now, ns)
            args = {"graph id": self.captures, "graph node id": (self.captures << 32) + node}
            self._work("kernel", kernel.name, COMPUTE, begin, ns, correlation, grid_of(kernel) | kernel.args | args)

    def copy(self, way: str, size: int, stream: int = COMPUTE, pinned: bool = True) -> None:
        """A copy; one from or to pageable memory returns when it has ended."""
        host, device = "Host", "Device"
        kinds = {"HtoD": (host, device), "DtoH": (device, host), "DtoD": (device, device), "PtoP": (device, device)}
        sides = ["Pinned" if side == "Host" and pinned else side.replace("Host", "Pageable") for side in kinds[way]]
        rate = {"DtoD": ON_DEVICE, "PtoP": PEER}.get(way) or (PINNED if pinned else PAGEABLE)
        with self.at(f"copy {way}"):
            ns = max(1_300, round((1_100 + size / rate) * (0.97 + 0.06 * share(mixed(self.place, 2)))))
            began = self.now
            correlation = self.call("cudaMemcpyAsync", self._room(stream), linked=True)
            row = self.rows[-1]
            begin = self._take(stream, self.now if pinned else began + 2_000, ns)
            if not pinned and way == "HtoD":
                self.now = row.end = max(self.now, begin + ns + 2_000)
            args: Json = {"bytes": size, "memory bandwidth (GB/s)": round(size / ns, 6)}
            self._work("gpu_memcpy", f"Memcpy {way} ({sides[0]} -> {sides[1]})", stream, begin, ns, correlation, args)

    def fill(self, size: int, stream: int = COMPUTE) -> None:
        """Sets memory of the device."""
        with self.at("fill"):
            correlation = self.call("cudaMemsetAsync", self._room(stream), linked=True)
            ns = max(1_200, round(size / 2_400))
            begin = self._take(stream, self.now, ns)
            self._work("gpu_memset", "Memset (Device)", stream, begin, ns, correlation, {"bytes": size})

    def wait(self, stream: int, other: int) -> None:
        """Lets a stream wait for what another one has been given so far (an event is recorded and awaited)."""
        recorded = self.call("cudaEventRecord")
        self.event += 1
        begin = self.now
        correlation = self.call("cudaStreamWaitEvent")
        self.ready[stream] = max(self.ready[stream], self.free[other])
        more = {
            "wait_on_stream": other % SECOND, "wait_on_cuda_event_record_corr_id": recorded,
            "wait_on_cuda_event_id": self.event,
        }  # fmt: skip
        self._sync("Stream Wait Event", stream, begin, correlation, more)

    def _sync(self, kind: str, stream: int, begin: int, correlation: int, more: Json) -> None:
        where = (
            {"stream": stream, "device": 0} if stream < 0 else {"stream": stream % SECOND, "device": stream // SECOND}
        )
        args = {"cuda_sync_kind": kind, **where, "correlation": correlation, "context": 1, **more}
        self.device_rows.append(Row("cuda_sync", kind, stream, begin, self.now, args))

    def synchronize(self, stream: int | None = None) -> None:
        """Waits until a stream has nothing left; without one until all of them do."""
        begin = self.now
        end = max(self.free.values()) if stream is None else self.free[stream]
        end = end + RETURN if end > begin else 0
        correlation = self.call("cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize", end)
        self._sync(
            "Context Sync" if stream is None else "Stream Sync",
            -1 if stream is None else stream,
            begin,
            correlation,
            {},
        )

    def item(self) -> None:
        """``tensor.item()``: a number of the device is wanted now."""
        with self.frame("<built-in method item of Tensor object at 0x7f3b4c1d2e90>"):
            with self.op("aten::item", (), before=1_000, after=400), self.op("aten::_local_scalar_dense", ()):
                self.copy("DtoH", 4, pinned=False)
                self.synchronize(COMPUTE)

    # -- memory ------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> tuple[int, int]:
        """Takes a block from the allocator; returns its address and size."""
        self.address += -(-size // 512) * 512
        self._told(self.address, size)
        return self.address, size

    def release(self, block: tuple[int, int]) -> None:
        """Gives a block back to the allocator."""
        self._told(block[0], -block[1])

    def _told(self, address: int, size: int) -> None:
        if self.captured is not None or self.device:
            return  # a graph has its memory, and that of a second device is not told
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        args = {
            "Total Reserved": self.reserved, "Total Allocated": self.allocated, "Bytes": size, "Addr": address,
            "Device Id": 0, "Device Type": 1, "finished": False,
        }  # fmt: skip
        self.memory.append((self.now, self.thread.tid, args))

    def grow(self, size: int, ns: float | None = None) -> None:
        """The allocator gets a segment from the driver."""
        self.call("cudaMalloc", ns=ns)
        self.reserved += size

    def shrink(self, size: int, ns: float | None = None) -> None:
        """The allocator gives a segment back: the driver waits for the device first."""
        end = max(self.free.values())
        usual = CALLS["cudaFree"][2] if ns is None else ns
        self.call("cudaFree", end + round(usual) if end > self.now else 0, ns=usual)
        self.reserved -= size

    def end_of_work(self, first: int, last: int) -> int:
        """Returns when all work of the device rows from `first` to before `last` had ended."""
        ends = (row.end for row in self.device_rows[first:last] if row.category != "cuda_sync")
        return max(ends, default=0)
