"""One process: two threads of the host with a clock each, streams of a device, and a log.

In one file: all methods share these clocks and the log.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from events import Json

from .config import (
    ALIGNED,
    APART_NS,
    CUPTI_SHORT_NS,
    FIRST_ADDRESS,
    FIRST_PID,
    IDLE_BYTES,
    LOCAL_TIME_NS,
    SKEW_NS,
    Config,
)
from .operators import KERNELS, defined


@dataclass
class Storage:
    """A range of addresses; tensors that are views of each other have one together."""

    address: int
    size: int
    tensors: int = 0


class Memory:
    """The memory of a device: the first gap that is wide enough is taken."""

    def __init__(self) -> None:
        self.taken: list[Storage] = []
        self.levels: list[tuple[int, int]] = []  # when, and bytes in use from then on

    def take(self, size: int, at: int) -> Storage:
        address = FIRST_ADDRESS
        for storage in self.taken:
            if storage.address - address >= size:
                break
            address = -(-(storage.address + storage.size) // ALIGNED) * ALIGNED
        found = Storage(address, size)
        self.taken = sorted([*self.taken, found], key=lambda storage: storage.address)
        self._count(at)
        return found

    def give_back(self, storage: Storage, at: int) -> None:
        self.taken.remove(storage)
        self._count(at)

    def _count(self, at: int) -> None:
        self.levels.append((at, sum(storage.size for storage in self.taken)))


@dataclass
class Tensor:
    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str = "Float32"
    producer: int | None = None  # operator
    ready: int = 0  # when the device has it
    consumers: list[int] = field(default_factory=list)
    storage: Storage | None = None
    created_ns: int = 0
    released_ns: int = 0

    @property
    def layout(self) -> str:
        strides = [1]
        for length in self.shape[:0:-1]:
            strides.append(strides[-1] * length)
        parts = [f"{length}({stride})" for length, stride in zip(self.shape, reversed(strides), strict=True)]
        return "{" + ",".join(parts) + f" {self.dtype}" + "}"

    @property
    def bytes(self) -> int:
        elements = 1
        for length in self.shape:
            elements *= length
        return 4 * elements

    def detail(self) -> Json:
        elements = self.bytes // 4
        shape = "{" + ",".join(map(str, self.shape)) + "}"
        return {
            "device": 'CompNode("gpu0:0" from "gpux:0")', "dtype": self.dtype, "id": self.id, "name": self.name,
            "nr_elements": elements, "shape": shape,
        }  # fmt: skip


@dataclass
class Operation:
    """One operator that was dispatched, with everything the truth says about it."""

    id: int
    name: str
    step: int
    scopes: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    args: Json
    line: str
    dispatch_ns: int = 0
    host_start_ns: int = 0
    host_end_ns: int = 0
    kernel_id: int = 0
    lane: str = ""
    device_start_ns: int = 0
    device_end_ns: int = 0
    kernels: list[Json] = field(default_factory=list)


@dataclass
class Scope:
    """One scope on the interpreter's thread."""

    path: tuple[str, ...]
    step: int
    start_ns: int
    worker_start_ns: int
    end_ns: int = 0
    worker_end_ns: int = 0
    forward_operator: int | None = None  # of a scope of the backward pass


class Process:
    """One process: two threads of the host with a clock each, streams of a device, and a log of what the profiler records."""

    def __init__(self, config: Config, rank: int) -> None:
        self.config, self.rank = config, rank
        self.pid = FIRST_PID + 11 * rank
        self.local_time_ns = LOCAL_TIME_NS + APART_NS * rank
        self.log: list[
            tuple[int, int, int | str, Json]
        ] = []  # recorded at, number, lane, event (a change of a counter)
        self.now = {"interpreter": 40_000, "worker": 55_000}
        self.free = {"gpux:0": 0, "gpux:1": 0}  # when each stream is done
        self.device_lanes: list[str] = []
        self.operations: list[Operation] = []
        self.tensors: dict[int, Tensor] = {}
        self.scopes: list[Scope] = []
        self.open: list[tuple[str, list[int]]] = [("", [0])]  # scopes that are open, with how many names each has given
        self.open_scopes: list[Scope] = []
        self.frames: list[str] = ["train.py , line 88, in <module>", "train.py , line 52, in train_step"]
        self.waits: list[Json] = []
        self.steps: list[Json] = []
        self.activities: list[Json] = []
        self.unused_reshapes: list[int] = []
        self.step = 0
        self.last_id = 70
        self.last_correlation = 500
        self.allocated = IDLE_BYTES
        self.memory = Memory()
        self.drawn: dict[str, int] = defaultdict(int)  # how often, of each place in this step

    # ------------------------------------------------------------------------------------------------ small things

    def number(self) -> int:
        self.last_id += 1
        return self.last_id

    def about(self, ns: int, what: str) -> int:
        """Nanoseconds near ``ns``: drawn for the place in the program, so that a fault elsewhere changes nothing here."""
        place = "/".join((*self.path, what))
        self.drawn[place] += 1
        drawn = random.Random(f"{self.config.seed}/{self.rank}/{self.step}/{place}/{self.drawn[place]}")
        return round(ns * drawn.uniform(0.85, 1.2)) + 1

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.open[1:])

    def write(self, at: int, lane: str, ph: str, name: str, ts: int | None = None, **more: Any) -> None:
        """Records an event ``at`` a time of the host; it is drawn at ``ts``, by default the same."""
        event = {
            "name": name,
            "ph": ph,
            "ts": at if ts is None else ts,
            **{k: v for k, v in more.items() if v is not None},
        }
        self.log.append((at, len(self.log), lane, event))

    def cupti(self, lane: str, ph: str, name: str) -> None:
        """Records a call into CUDA, where the profiler is told of these."""
        if self.config.cupti:
            self.write(self.now[lane], lane, ph, name)

    def linked(self, cat: str) -> None:
        if self.config.cupti:
            self.flow(self.now["worker"], "worker", "s", cat, self.last_correlation)

    def flow(self, at: int, lane: str, ph: str, cat: str, number: int, ts: int | None = None) -> None:
        bp = "e" if ph == "f" else None
        self.write(at, lane, ph, str(self.pid), ts, cat=cat, id=number, scope=str(self.pid), bp=bp)

    def count(self, at: int, lane: str, name: str, change: int) -> None:
        """Records a change of a counter; what it comes to is known when all records are in order."""
        self.log.append((at, len(self.log), lane, {"change": (name, change), "ts": at}))

    def level(self, at: int, lane: str, name: str, value: float) -> None:
        self.write(at, lane, "C", name, args={"value": float(value)})

    def spend(self, lane: str, ns: int) -> int:
        self.now[lane] += ns
        return self.now[lane]

    def named(self, what: str) -> str:
        """The name of a new tensor: the scopes that are open, each with its place in the one around it."""
        parts = []
        for (_, given), inner in zip(self.open, [*(name for name, _ in self.open[1:]), what], strict=True):
            parts.append((f"[{given[0]}]" if given[0] and parts else "") + ("." if parts else "") + inner)
        self.open[-1][1][0] += 1
        return "".join(parts)

    def backtrace(self) -> str | None:
        return "Python Backtrace: " + "".join(f"{frame}\n" for frame in self.frames) if self.config.backtrace else None

    # ---------------------------------------------------------------------------------------------------- the host

    @contextmanager
    def scope(self, name: str, frames: Iterable[str] = (), of: int | None = None) -> Iterator[None]:
        start = self.spend("interpreter", 900)
        worker = self.now["worker"] = max(self.now["worker"] + 400, start + 1_300)
        self.write(start, "interpreter", "B", name)
        self.write(worker, "worker", "B", name)
        found = Scope((*self.path, name), self.step, start, worker, forward_operator=of)
        self.scopes.append(found)
        self.open.append((name, [0]))
        self.frames += (added := list(frames))
        try:
            yield
        finally:
            self.frames = self.frames[: len(self.frames) - len(added)]
            self.open.pop()
            self.open[-1][1][0] += 1
            found.end_ns = self.spend("interpreter", 700)
            found.worker_end_ns = self.now["worker"] = max(self.now["worker"] + 300, found.end_ns + 1_300)
            self.write(found.end_ns, "interpreter", "E", name)
            self.write(found.worker_end_ns, "worker", "E", name)

    @contextmanager
    def module(self, name: str, line: int) -> Iterator[None]:
        call = "/opt/megengine/module/module.py , line 144, in __call__"
        with self.scope(name, (call, f"scope: <{name}>", f"model.py , line {line}, in forward")):
            yield

    def declare(self, name: str, shape: tuple[int, ...], producer: int | None = None, dtype: str = "Float32") -> Tensor:
        tensor = Tensor(self.number(), name, shape, dtype, producer)
        self.tensors[tensor.id] = tensor
        return tensor

    def produce(self, tensor: Tensor, base: Tensor | None = None) -> None:
        """The worker has made a tensor; one that is a view of another lies where that does."""
        at = self.spend("worker", 300)
        shared = base.storage if base is not None else None
        tensor.storage = shared if shared is not None else self.memory.take(tensor.bytes, at)
        tensor.storage.tensors += 1
        tensor.created_ns = at
        self.count(at, "worker", "nr_alive_tensor", 1)
        self.flow(at, "worker", "s", "TensorLink", tensor.id)
        self.allocated += tensor.bytes
        self.level(self.spend("worker", 500), "worker", "gpu0:0_alloc_mem", self.allocated)

    def put(self, name: str, shape: tuple[int, ...], dtype: str = "Float32") -> Tensor:
        """Data of the host become a tensor: copied by the worker on the stream that computes."""
        tensor = self.declare(self.named(name), shape, dtype=dtype)
        title = f"Put {tensor.id}"
        self.spend("interpreter", self.about(14_000, "put"))
        begin = self.now["worker"] = max(self.now["worker"] + 500, self.now["interpreter"] + 1_500)
        self.write(begin, "worker", "B", title)
        launched = self.spend("worker", 900)
        reached, end = self.copy(tensor.bytes, "PAGEABLE", "DEVICE", launched)
        self.write(launched, "gpux:0", "B", "HostToDevice", reached - SKEW_NS)
        given = {key: tensor.detail()[key] for key in ("device", "dtype", "nr_elements", "shape")}
        given["nr_elements"] = float(given["nr_elements"])
        self.write(self.now["worker"], "gpux:0", "E", "HostToDevice", end - SKEW_NS, args=given)
        tensor.ready = end
        self.produce(tensor)
        self.write(self.spend("worker", 300), "worker", "E", title, args=tensor.detail())
        return tensor

    def copy(self, bytes_: int, source: str, target: str, launched: int) -> tuple[int, int]:
        """A copy on the stream that computes; returns when the stream came to it and when it was done."""
        self.last_correlation += 1
        self.cupti("worker", "B", "cudaMemcpyAsync_v3020")
        self.spend("worker", 400)
        self.cupti("worker", "B", "Memcpy")
        self.linked("CUPTILink")
        self.spend("worker", self.about(5_000, "copy"))
        self.cupti("worker", "E", "Memcpy")
        self.spend("worker", 300)
        self.cupti("worker", "E", "cudaMemcpyAsync_v3020")
        reached = max(self.free["gpux:0"], launched + 1_200)
        start = max(reached, self.now["worker"] - 1_000) + 700
        end = start + 1_100 + bytes_ // 11
        kinds = {"src_kind": f"CUPTI_ACTIVITY_MEMORY_KIND_{source}", "dst_kind": f"CUPTI_ACTIVITY_MEMORY_KIND_{target}"}
        self.activities.append(
            {
                "name": "Memcpy", "stream": "gpux:0", "start_ns": start, "end_ns": end, "operator": None,
                "correlation": self.last_correlation, "args": {"bytes": str(bytes_), **kinds},
            }
        )  # fmt: skip
        self.free["gpux:0"] = end + 400
        return reached, end + 200

    def delete(self, tensor: Tensor) -> None:
        """The program lets go of a tensor; the worker frees it when it comes to that."""
        title = f"Del {tensor.id}"
        at = self.now["worker"] = max(self.now["worker"] + 400, self.now["interpreter"] + 900)
        self.write(at, "worker", "B", title)
        at = self.spend("worker", 250)
        self.count(at, "worker", "nr_alive_tensor", -1)
        self.flow(at, "worker", "t", "TensorLink", tensor.id)
        tensor.released_ns = at
        if tensor.storage is not None:
            tensor.storage.tensors -= 1
            if not tensor.storage.tensors:
                self.memory.give_back(tensor.storage, at)
        self.count(at, "worker", "nr_redunant_tensor", 1)
        self.flow(at, "worker", "f", "TensorLink", tensor.id)
        self.write(self.spend("worker", 600), "worker", "E", title, args=tensor.detail())
        self.allocated -= tensor.bytes

    def dispatch(self, name: str, inputs: Iterable[Tensor], shapes: Iterable[tuple[int, ...]]) -> Operation:
        """The interpreter hands an operator over."""
        inputs = list(inputs)
        python = self.about(24_000, name) * (10 if "host_bound" in self.config.faults else 1)
        self.spend("interpreter", python)
        for tensor in inputs:
            prop = {**tensor.detail(), "kind": "dtype"}
            self.write(self.spend("interpreter", 350), "interpreter", "X", "TensorGetProp", args=prop, dur=0)
        params, _ = defined(name)
        number = self.number()
        made = [self.declare("", shape, number) for shape in shapes]
        for index, tensor in enumerate(made):
            tensor.name = self.named(f"{name}:{index}")
            if index + 1 < len(made):
                self.open[-1][1][0] -= 1  # outputs of one operator count once
        args = {**params, "__device__": "invalid", "__id__": number, "__name__": name}
        backtrace = None if self.path[:1] == ("backward",) else self.backtrace()
        if backtrace is not None:
            args["python_backtrace"] = backtrace
        at = self.spend("interpreter", 600)
        outputs = tuple(tensor.id for tensor in made)
        line = self.frames[-1] if backtrace is not None else ""
        operation = Operation(
            number, name, self.step, self.path, tuple(t.id for t in inputs), outputs, args, line, dispatch_ns=at
        )
        self.count(at, "interpreter", "nr_op_pending", 1)
        self.write(at, "interpreter", "B", "OpDispatch")
        self.flow(at, "interpreter", "s", "OpDispatch", number)
        self.write(at, "interpreter", "E", "OpDispatch", args=args)
        for tensor in inputs:
            tensor.consumers.append(number)
        self.operations.append(operation)
        return operation

    def execute(self, operation: Operation, lane: str = "gpux:0") -> Generator[int, int, None]:
        """The worker runs an operator: it launches its kernels, and the device runs them when it comes to them."""
        _, kernels = defined(operation.name)
        inputs = [self.tensors[number] for number in operation.inputs]
        at = self.now["worker"] = max(self.now["worker"] + 300, operation.dispatch_ns + 1_700)
        operation.host_start_ns = at
        self.count(at, "worker", "nr_op_pending", -1)
        self.write(at, "worker", "B", operation.name)
        self.flow(at, "worker", "t", "OpDispatch", operation.id)
        for tensor in inputs:
            self.write(self.spend("worker", 150), "worker", "B", f"Input {tensor.id}", args=tensor.detail())
            self.flow(self.spend("worker", 70), "worker", "t", "TensorLink", tensor.id)
            self.write(self.spend("worker", 60), "worker", "E", f"Input {tensor.id}", args=tensor.detail())
        launched = self.spend("worker", 250)
        operation.kernel_id, operation.lane = self.number(), lane
        self.flow(launched, "worker", "s", "KernelLaunch", operation.kernel_id)
        # an event of the stream is recorded before the kernels and after them: the lane of the device shows these two
        reached = max(self.free[lane], launched + 300, *(tensor.ready for tensor in inputs))
        operation.device_start_ns = reached - SKEW_NS
        self.write(launched, lane, "B", operation.name, operation.device_start_ns, cat="Kernel")
        self.flow(launched, lane, "f", "KernelLaunch", operation.kernel_id, operation.device_start_ns)
        self.ahead(reached)
        done = reached + 250
        for name, ns in kernels:
            done = yield from self.launch(operation, name, ns, done)
        operation.device_end_ns = done + 350 - SKEW_NS
        self.free[lane] = done + 600
        self.ahead(done)
        finished = self.spend("worker", 300)
        self.write(finished, lane, "E", operation.name, operation.device_end_ns, cat="Kernel", args=operation.args)
        for number in operation.outputs:
            tensor = self.tensors[number]
            tensor.ready = done
            self.write(self.spend("worker", 150), "worker", "B", f"Output {number}", args=tensor.detail())
            self.produce(tensor, inputs[0] if operation.name == "Reshape" else None)
            self.write(self.spend("worker", 150), "worker", "E", f"Output {number}", args=tensor.detail())
        operation.host_end_ns = self.spend("worker", 200)
        self.write(operation.host_end_ns, "worker", "E", operation.name, args=operation.args)

    def launch(self, operation: Operation, name: str, ns: int, done: int) -> Generator[int, int, int]:
        """Launches a kernel; returns when it is done. One that all processes run together waits for the last of them."""
        self.last_correlation += 1
        correlation = self.last_correlation
        self.spend("worker", 300)
        self.cupti("worker", "B", "cudaLaunchKernel_v7000")
        self.spend("worker", 500)
        self.cupti("worker", "B", name)
        self.linked("KernelLink")
        self.spend("worker", self.about(3_400, f"launch {name}"))
        self.cupti("worker", "E", name)
        self.spend("worker", 400)
        self.cupti("worker", "E", "cudaLaunchKernel_v7000")
        start = max(done + 500, self.now["worker"] + 800)
        end = start + self.about(ns, name)
        if name == KERNELS["nccl"] and self.config.ranks > 1:
            last = yield self.local_time_ns + start
            end = last - self.local_time_ns + ns
        kernel = {
            "name": name, "stream": operation.lane, "start_ns": start, "end_ns": end - CUPTI_SHORT_NS,
            "operator": operation.id, "correlation": correlation,
            "args": {"execution_time": float(end - CUPTI_SHORT_NS - start)},
        }  # fmt: skip
        self.activities.append(kernel)
        operation.kernels.append({key: kernel[key] for key in ("name", "start_ns", "end_ns", "correlation")})
        return end

    def ahead(self, device: int) -> None:
        now = self.now["worker"]
        self.level(now, "worker", "device_ahead_ms", max(0, device - SKEW_NS - now) // 1_000_000)

    def read(self, tensor: Tensor, line: str, planted: bool) -> None:
        """The program wants a value: the interpreter waits until the worker has copied it."""
        self.frames.append(line)
        begin = self.spend("interpreter", 2_000)
        self.write(begin, "interpreter", "B", "TensorWaitProp")
        asked = self.now["worker"] = max(self.now["worker"] + 500, begin + 1_500)
        self.write(asked, "worker", "B", "GetValue")
        _, ready = self.copy(tensor.bytes, "DEVICE", "PAGEABLE", self.spend("worker", 600))
        called = self.spend("worker", 500)
        self.cupti("worker", "B", "cudaStreamSynchronize_v3020")
        ready = self.now["worker"] = max(called + 900, ready + 2_600)
        self.cupti("worker", "E", "cudaStreamSynchronize_v3020")
        notified = self.spend("worker", 700)
        self.flow(notified, "worker", "s", "TensorProp", tensor.id)
        self.write(self.spend("worker", 900), "worker", "E", "GetValue")
        end = self.now["interpreter"] = notified + 2_400
        self.flow(end, "interpreter", "f", "TensorProp", tensor.id)
        args = tensor.detail()
        backtrace = self.backtrace()
        if self.config.wait_params and backtrace is not None:
            args["python_backtrace"] = backtrace
        self.write(end, "interpreter", "E", "TensorWaitProp", args=args)
        self.waits.append(
            {
                "tensor": tensor.id, "step": self.step, "start_ns": begin, "dur_ns": end - begin, "notified_ns": notified,
                "line": self.frames.pop() if self.config.backtrace else "", "planted": planted,
            }
        )  # fmt: skip
