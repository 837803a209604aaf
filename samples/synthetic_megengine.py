"""Invent timelines of MegEngine trainings on GPUs whose right answers are known, for tests on machines without a GPU.

The generator plays a small training through (an interpreter that dispatches, a worker that executes, streams of a device) and
writes `<pid>.chrome_timeline.json` as MegEngine's profiler does with CUPTI switched on: one line, keys in the order of the
alphabet, microseconds as floats, operators told at their ends. Beside it goes the truth, in integer nanoseconds, counted
while the training is played and never from reading the written file back. `<pid>.memory_flow.svg` beside it draws where the
tensors of the same training lay in the memory of the device.

Nothing here was recorded: the host rows follow recordings of MegEngine 1.13, the rows of devices and of CUPTI what the
source of its writer says. It is one long file on purpose: people copy it to a machine that has nothing but Python.

Faults (`--fault`, any number of times) are planted in every step, and the truth says what each costs (the same program is
played again without it): `wait` reads a value in the middle of the step, `reshapes` reshapes to the same shape, thrice a
block, `serial_all_reduce` sums gradients on the stream that computes, `host_bound` takes ten times as long in Python.

In one file: the plan and all that is written of it are read together.

usage: python samples/synthetic_megengine.py OUT_DIR [--steps 3] [--ranks 1] [--blocks 2] [--seed 0] [--fault NAME ...]
       [--no-cupti] [--no-backtrace] [--scopes] [--as-recorded] [--plain] [--truth FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

FAULTS = ("host_bound", "reshapes", "serial_all_reduce", "wait")
LOCAL_TIME_NS = 1_790_857_026_000_000_000  # when the profiler of the first process was started
APART_NS = 1_734_561  # so much later that of each next process: their times count from their own start
FIRST_PID = 4100
SKEW_NS = 2_300  # the device's clock as MegEngine takes it is so much early: a kernel may begin before its operator
CUPTI_SHORT_NS = 16  # MegEngine ends a kernel so much early, to keep neighbours apart
BATCH, CLASSES = 32, 10
MIB = 1 << 20
FIRST_ADDRESS, ALIGNED = 0x7F2A_4000_0000, 512
IDLE_BYTES = 900 * MIB

Json = dict[str, Any]


@dataclass(frozen=True)
class Config:
    steps: int = 3
    ranks: int = 1
    blocks: int = 2
    seed: int = 0
    faults: tuple[str, ...] = ()
    cupti: bool = True
    backtrace: bool = True
    scopes: bool = False  # with_scopes: methods of tensors are scopes as well
    wait_params: bool = (
        True  # the end of a wait carries the parameters; a recording of 1.13 on a CPU has the tensor alone
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", tuple(sorted(self.faults)))
        if min(self.steps, self.ranks, self.blocks) < 1:
            raise ValueError("steps, ranks and blocks are at least 1")
        if not set(self.faults) <= set(FAULTS) or len(set(self.faults)) < len(self.faults):
            raise ValueError(f"faults are some of {FAULTS}, each once")
        if "serial_all_reduce" in self.faults and self.ranks < 2:
            raise ValueError("one process has nothing to sum over: serial_all_reduce takes 2 ranks")


# ---------------------------------------------------------------------------------------------------- the program

_KERNELS = {
    "convolution": "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::"
    "WinogradDataParams<float, float>)",
    "gemm": "ampere_sgemm_128x64_nn",
    "elementwise": "void megdnn::cuda::elemwise_intl::cuda_kern<megdnn::cuda::ElemArithKern<{0}, 2, float, void> >"
    "(megdnn::cuda::elemwise_intl::OpCallerUniform<megdnn::cuda::ElemArithKern<{0}, 2, float, void>, 2>, unsigned int)",
    "norm": "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>(cudnnTensorStruct, float const*)",
    "norm_backward": "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float)",
    "reduce": "void megdnn::cuda::reduce_intern::kern_largeC<megdnn::cuda::reduce::SumOp<float, float, float>, 32, 4>"
    "(megdnn::cuda::reduce::SumOp<float, float, float>, unsigned int, unsigned int, unsigned int)",
    "pooling": "void cudnn::pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float>, 0, false>(cudnnTensorStruct)",
    "pooling_backward": "void cudnn::pooling_bw_kernel_max<float, float, cudnn::maxpooling_func<float>, 0>(cudnnTensor)",
    "indexing": "void megdnn::cuda::indexing_one_hot::kern<float, int>(float const*, int const*, float*, unsigned int)",
    "nccl": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
}

_SEARCHED = {"strategy": "HEURISTIC", "workspace_limit": "18446744073709551615"}
_NORM = {
    "avg_factor": "0.100000", "bias": "0.000000", "epsilon": "0.000010", "fwd_mode": "TRAINING",
    "param_dim": "DIM_1C11", "scale": "1.000000",
}  # fmt: skip
_CONVOLUTION = {
    "compute_mode": "DEFAULT", "dilate_h": "1", "dilate_w": "1", "format": "NCHW", "mode": "CROSS_CORRELATION",
    "pad_h": "1", "pad_w": "1", "sparse": "DENSE", **_SEARCHED, "stride_h": "1", "stride_w": "1",
}  # fmt: skip
_POOLING = {
    "format": "NCHW", "mode": "MAX", "pad_h": "0", "pad_w": "0", **_SEARCHED, "stride_h": "2", "stride_w": "2",
    "window_h": "2", "window_w": "2",
}  # fmt: skip
_PRODUCT = {
    "compute_mode": "DEFAULT", "dimA": "2", "dimB": "2", "format": "DEFAULT", **_SEARCHED, "transposeA": "0",
    "transposeB": "1",
}  # fmt: skip


def _reduce(mode: str) -> Json:
    return {"axis": "1", "data_type": "DEFAULT", "keepdim": "0", "mode": mode}


_DEFINED: dict[str, tuple[Json, tuple[tuple[str, int], ...]]] = {
    "Convolution": (_CONVOLUTION, (("convolution", 210_000), ("gemm", 340_000))),
    "ConvolutionBackwardDataV2": (_CONVOLUTION, (("gemm", 390_000),)),
    "ConvolutionBackwardFilterV2": (_CONVOLUTION, (("convolution", 170_000), ("gemm", 310_000))),
    "BatchNorm": (_NORM, (("norm", 95_000),)),
    "BatchNormBackward": (_NORM, (("norm_backward", 130_000),)),
    "Pooling": (_POOLING, (("pooling", 41_000),)),
    "PoolingBackwardV1": (_POOLING, (("pooling_backward", 52_000),)),
    "MatrixMul": (_PRODUCT, (("gemm", 88_000),)),
    "Reshape": ({"axis": "1", "shape": "{std::vector}"}, ()),
    "Reduce": (_reduce("SUM"), (("reduce", 19_000),)),
    "IndexingOneHot": ({"axis": "1", "ndim": "2"}, (("indexing", 6_100),)),
    "IndexingSetOneHot": ({"axis": "1", "ndim": "2"}, (("indexing", 7_300),)),
    "CollectiveComm": (
        {"backend": "nccl", "dtype": "Float32", "is_root": "0", "mode": "ALL_REDUCE_SUM"},
        (("nccl", 240_000),),
    ),
}
"""Parameters and kernels (with what each takes) of the operators; every other one is a mode of Elemwise."""
_ELEMENTWISE_NS = 23_000


def defined(name: str) -> tuple[Json, tuple[tuple[str, int], ...]]:
    """Returns the parameters of an operator and its kernels: name and nanoseconds."""
    params, kernels = _DEFINED.get(name, ({"mode": name}, (("elementwise", _ELEMENTWISE_NS),)))
    return params, tuple((_KERNELS[kernel].replace("{0}", name.lower()), ns) for kernel, ns in kernels)


_GRADIENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "Convolution": (("ConvolutionBackwardDataV2", "input"), ("ConvolutionBackwardFilterV2", "weight")),
    "BatchNorm": (("BatchNormBackward", "input weight"),),
    "RELU": (("SWITCH_GT0", "input"),),
    "Pooling": (("PoolingBackwardV1", "input"),),
    "Reshape": (("Reshape", "input"),),
    "MatrixMul": (("MatrixMul", "input"), ("MatrixMul", "weight")),
    "ADD": (("Reduce", "weight"),),  # the gradient of the other one is the gradient that came
    "SUB": (("NEGATE", "input"),),
    "EXP": (("MUL", "input"),),
    "LOG": (("TRUE_DIV", "input"),),
    "Reduce": (("Broadcast", "input"),),
    "IndexingOneHot": (("IndexingSetOneHot", "input"),),
}
"""What the gradient of an operator runs, and whose gradient each makes."""
_MODES_OF_ELEMWISE = {"RELU", "ADD", "SUB", "EXP", "LOG"}


# ---------------------------------------------------------------------------------------------------- what is played


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
        if name == _KERNELS["nccl"] and self.config.ranks > 1:
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


class Training:
    """The program that each process runs."""

    def __init__(self, process: Process) -> None:
        self.p = process
        self.config = process.config
        self.weights: dict[str, Tensor] = {}
        widths = [3, *(16 * 2**index for index in range(self.config.blocks))]
        for index in range(self.config.blocks):
            self.weights |= {
                f"block{index}.c": process.declare("", (widths[index + 1], widths[index], 3, 3)),
                f"block{index}.c.bias": process.declare("", (1, widths[index + 1], 1, 1)),
                f"block{index}.bn": process.declare("", (1, widths[index + 1], 1, 1)),
            }
        self.features = widths[-1] * 16 * 16
        self.weights |= {
            "fc": process.declare("", (CLASSES, self.features)),
            "fc.bias": process.declare("", (CLASSES,)),
        }
        self.tape: list[tuple[Operation, Tensor | None]] = []
        process.write(50_000, "worker", "B", "StartProfile")
        for weight in self.weights.values():
            process.produce(weight)
        process.ahead(0)
        process.write(process.spend("worker", 700), "worker", "E", "StartProfile")

    def run(
        self, name: str, inputs: list[Tensor], shape: tuple[int, ...], weight: str = ""
    ) -> Generator[int, int, Tensor]:
        """Runs an operator that the backward pass comes back to."""
        given = [*inputs, *([self.weights[weight]] if weight else [])]
        operation = self.p.dispatch(name, given, [shape])
        self.tape.append((operation, self.weights.get(weight)))
        yield from self.p.execute(operation)
        return self.p.tensors[operation.outputs[0]]

    def forward(self, x: Tensor, y: Tensor) -> Generator[int, int, Tensor]:
        p = self.p
        p.frames += ["/opt/megengine/module/module.py , line 144, in __call__", "model.py , line 31, in forward"]
        for index in range(self.config.blocks):
            shape = (BATCH, self.weights[f"block{index}.c"].shape[0], 32, 32)
            with p.module(f"block{index}", 31):
                with p.module("c", 12):
                    x = yield from self.run("Convolution", [x], shape, f"block{index}.c")
                    x = yield from self.run("ADD", [x], shape, f"block{index}.c.bias")
                with p.module("bn", 13):
                    x = yield from self.run("BatchNorm", [x], shape, f"block{index}.bn")
                x = yield from self.run("RELU", [x], shape)
                if "reshapes" in self.config.faults:
                    for _ in range(3):
                        x = yield from self.reshape(x)
        x = yield from self.run("Pooling", [x], (BATCH, x.shape[1], 16, 16))
        x = yield from self.run("Reshape", [x], (BATCH, self.features))
        with p.module("fc", 34):
            x = yield from self.run("MatrixMul", [x], (BATCH, CLASSES), "fc")
            x = yield from self.run("ADD", [x], (BATCH, CLASSES), "fc.bias")
        del p.frames[-2:]
        if "wait" in self.config.faults:
            p.read(x, "train.py , line 47, in watch", planted=True)
        p.frames.append("/opt/megengine/functional/loss.py , line 207, in cross_entropy")
        high = yield from self.run("EXP", [x], x.shape)
        high = yield from self.run("Reduce", [high], (BATCH,))
        high = yield from self.run("LOG", [high], (BATCH,))
        chosen = yield from self.run("IndexingOneHot", [x, y], (BATCH,))
        loss = yield from self.run("SUB", [high, chosen], (BATCH,))
        loss = yield from self.run("Reduce", [loss], (1,))
        p.frames.pop()
        return loss

    def reshape(self, x: Tensor) -> Generator[int, int, Tensor]:
        """A planted fault: a reshape to the shape that the tensor has."""
        self.p.frames.append("model.py , line 17, in forward")
        if self.config.scopes:
            with self.p.scope("tensor.reshape"):
                x = yield from self.run("Reshape", [x], x.shape)
        else:
            x = yield from self.run("Reshape", [x], x.shape)
        self.p.frames.pop()
        self.p.unused_reshapes.append(self.p.operations[-1].id)
        return x

    def backward(self, loss: Tensor) -> Generator[int, int, dict[str, Tensor]]:
        """Goes back over the operators: a scope for each, and a sum over the processes for each weight."""
        p = self.p
        gradient, gradients = loss, dict[str, Tensor]()
        names = {weight.id: name for name, weight in self.weights.items()}
        with p.scope("backward"):
            for operation, weight in reversed(self.tape):
                scope = ("Elemwise" if operation.name in _MODES_OF_ELEMWISE else operation.name) + "Backward"
                results: dict[str, Tensor] = {}
                with p.scope(scope, of=operation.id):
                    target = p.tensors[operation.inputs[0]]
                    for name, of in _GRADIENTS[operation.name]:
                        shapes = {"input": target.shape, "weight": weight.shape if weight is not None else ()}
                        made = p.dispatch(name, [gradient, target], [shapes[one] for one in of.split()])
                        yield from p.execute(made)
                        results |= {
                            one: p.tensors[number] for one, number in zip(of.split(), made.outputs, strict=True)
                        }
                    gradient = results.get("input", gradient)
                if weight is not None:
                    gradients[names[weight.id]] = results["weight"]
                if weight is not None and self.config.ranks > 1:
                    serial = "serial_all_reduce" in self.config.faults
                    summed = p.dispatch("CollectiveComm", [gradients[names[weight.id]]], [weight.shape])
                    yield from p.execute(summed, "gpux:0" if serial else "gpux:1")
                    gradients[names[weight.id]] = p.tensors[summed.outputs[0]]
        return gradients

    def optimizer(self, gradients: dict[str, Tensor]) -> Generator[int, int, None]:
        p = self.p
        with p.scope("step", ("/opt/megengine/optimizer/sgd.py , line 95, in _updates",)):
            for name, gradient in gradients.items():
                weight = self.weights[name]
                scaled = p.dispatch("MUL", [gradient], [weight.shape])
                yield from p.execute(scaled)
                updated = p.dispatch("SUB", [weight, p.tensors[scaled.outputs[0]]], [weight.shape])
                yield from p.execute(updated)
                self.weights[name] = p.tensors[updated.outputs[0]]
                p.delete(weight)
        with p.scope("clear_grad"):
            pass

    def one_step(self) -> Generator[int, int, None]:
        p = self.p
        begin, kept = p.now["interpreter"], set(self.weights)
        before = set(p.tensors)
        x = p.put("data", (BATCH, 3, 32, 32))
        y = p.put("label", (BATCH,), "Int32")
        with p.scope("forward"):
            loss = yield from self.forward(x, y)
        gradients = yield from self.backward(loss)
        yield from self.optimizer(gradients)
        p.read(loss, "train.py , line 61, in train_step", planted=False)
        self.tape.clear()
        alive = {self.weights[name].id for name in kept}
        for number in sorted(set(p.tensors) - before - alive):
            p.delete(p.tensors[number])
        end = p.now["interpreter"]
        p.steps.append({"start_ns": begin, "end_ns": end, "dur_ns": end - begin})
        if p.step + 1 < self.config.steps:
            p.write(p.spend("interpreter", 40_000), "interpreter", "i", "StopStep")
            p.write(p.spend("worker", 40_000), "worker", "i", "StopStep")
        p.step += 1
        p.drawn.clear()

    def everything(self) -> Generator[int, int, None]:
        for _ in range(self.config.steps):
            yield from self.one_step()
        p = self.p
        p.write(p.spend("worker", 90_000), "worker", "B", "StopProfile")
        stop = p.spend("worker", 400_000)
        p.activities.sort(key=lambda activity: activity["start_ns"])
        if self.config.cupti:  # the buffers of CUPTI are read when the profile ends
            for activity in p.activities:
                _write_activity(p, activity, stop)
        p.level(p.spend("worker", 5_000), "worker", "gpu0:0_alloc_mem", p.allocated)
        p.write(p.spend("worker", 700), "worker", "E", "StopProfile")


def _write_activity(process: Process, activity: Json, at: int) -> None:
    lane, name, start, end = (
        f"stream of {activity['stream']}",
        activity["name"],
        activity["start_ns"],
        activity["end_ns"],
    )
    process.write(at, lane, "B", name, start, args=activity["args"])
    if activity["operator"] is None:
        process.flow(at, lane, "f", "CUPTILink", activity["correlation"], start)
    else:
        process.flow(at, lane, "f", "KernelLink", activity["correlation"], end)
    process.write(at, lane, "E", name, end, args=activity["args"])


def play(config: Config) -> list[Process]:
    """Plays all processes through, one after the other up to the next sum, which ends for all at once."""
    processes = [Process(config, rank) for rank in range(config.ranks)]
    programs = [Training(process).everything() for process in processes]
    waiting = [next(program, None) for program in programs]
    while any(ready is not None for ready in waiting):
        last = max(ready for ready in waiting if ready is not None)
        waiting = [_resume(program, last) for program in programs]
    return processes


def _resume(program: Generator[int, int, None], last: int) -> int | None:
    try:
        return program.send(last)
    except StopIteration:
        return None


# ---------------------------------------------------------------------------------------------------- file and truth


def _lanes(process: Process) -> dict[str, int]:
    """Numbers of the lanes: threads in the order of their first record, then devices, then streams of CUPTI."""
    seen = dict.fromkeys(lane for _, _, lane, _ in sorted(process.log, key=lambda record: record[:2]))
    ranks = [("interpreter", "worker"), ("gpux:0", "gpux:1"), ("stream of gpux:0", "stream of gpux:1")]
    ordered = [lane for group in ranks for lane in seen if lane in group]
    return {lane: number for number, lane in enumerate(ordered)}


def _ratio(process: Process) -> tuple[float, int]:
    """The share of time with a kernel, in percent, and when the last kernel ended."""
    last = max(operation.device_end_ns for operation in process.operations)
    first = min(operation.device_start_ns for operation in process.operations)
    return 100 * busy((o.device_start_ns, o.device_end_ns) for o in process.operations) / (last - first), last


def busy(intervals: Iterable[tuple[int, int]]) -> int:
    """Returns how long at least one of the intervals was open."""
    total = until = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def text(process: Process) -> str:
    """Returns the timeline as MegEngine writes it."""
    lanes = _lanes(process)
    counters: dict[str, int] = defaultdict(int)
    ratio, last = _ratio(process)
    host = lanes["worker"]
    ratios = {"train_time_ratio": ratio / 2, "gpu_usgae_ratio": ratio}
    events: list[Json] = [_counter(process, host, name, value, 0) for name, value in ratios.items()]
    for _, _, lane, event in sorted(process.log, key=lambda record: record[:2]):
        if "change" in event:
            name, change = event["change"]
            counters[name] += change
            events.append(_counter(process, lanes[lane], name, counters[name], event["ts"]))
        else:
            events.append({**event, "pid": process.pid, "tid": lanes[lane], "ts": event["ts"] / 1000})
    events += [_counter(process, host, name, value, last) for name, value in reversed(ratios.items())]
    for lane, number in lanes.items():
        if not lane.startswith("stream"):  # the writer names threads and devices alone
            events.append({"args": {"name": lane}, "name": "thread_name", "ph": "M", "pid": process.pid, "tid": number})
    written = {"traceEvents": events, "metadata": {"localTime": str(process.local_time_ns)}}
    head, tail = (json.dumps(part, sort_keys=True, separators=(",", ":")) for part in written.values())
    return f'{{"traceEvents":{head},"metadata":{tail}}}'


_TIME_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_SIZE_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1))


def _words(number: int, units: Iterable[tuple[str, int]]) -> str:
    """A number as the writer says it: nothing for zero."""
    said = ""
    for unit, size in units:
        if number >= size:
            said, number = f"{said}{number // size}{unit} ", number % size
    return said


def drawing(process: Process) -> str:
    """Returns the memory flow as MegEngine draws it: a tensor that was not released ends at nothing."""
    tensors = [(tensor, tensor.storage) for tensor in process.tensors.values() if tensor.storage is not None]
    low, high = min(s.address for _, s in tensors), max(s.address + s.size for _, s in tensors)
    begin, end = min(t.created_ns for t, _ in tensors), max(t.released_ns for t, _ in tensors)
    width, height = (end - begin) // 100_000, (high - low) / 1e6
    rows = [f'<rect x="0" y="0" width="{width}" height="{height:.6f}" fill="blue">\n</rect>\n']
    random.Random(process.config.seed).shuffle(tensors)  # the writer keeps them by hash
    for tensor, storage in tensors:
        life = tensor.released_ns - tensor.created_ns
        x, y = (tensor.created_ns - begin) // 100_000, (storage.address - low) / 1e6
        fill = next(color for most, color in _FILLS if life <= most)
        group = f' tag:group="{tensor.producer}"' if tensor.producer is not None else ""
        rows.append(
            f'<rect x="{x:.6f}" y="{y:.6f}" height="{tensor.bytes / 1e6:.6f}" '
            f'width="{int(life / 100_000):.6f}" fill="{fill}" '
            f'tag:type="tensor" tag:name="{tensor.name}" tag:address="0x{storage.address:x}" '
            f'tag:size="{_words(tensor.bytes, _SIZE_UNITS)}" tag:layout="{tensor.layout}" '
            f'tag:produced="{_words(tensor.created_ns, _TIME_UNITS)}" tag:erased="{_words(tensor.released_ns, _TIME_UNITS)}" '
            f'tag:duration="{_words(life, _TIME_UNITS)}"{group}>\n</rect>\n'
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" '
        '"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n<svg xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:tag="https://megengine.org.cn" width="{width}" height="{height:.6f}">\n{"".join(rows)}</svg>\n'
    )


_FILLS = (
    *(
        (0, "#DDDDDD"),
        (10**5, "#CCCCCC"),
        (10**6, "#BBBBBB"),
        (10**7, "#AAAAAA"),
        (10**8, "#999999"),
        (10**9, "#888888"),
    ),
    (float("inf"), "#555555"),
)


def _counter(process: Process, tid: int, name: str, value: float, ts: int) -> Json:
    args = {"value": float(value)}
    return {"args": args, "name": name, "ph": "C", "pid": process.pid, "tid": tid, "ts": ts / 1000}


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
        "lanes": _lanes(process)
        if process.config.cupti
        else {k: v for k, v in _lanes(process).items() if "of" not in k},
        "gpu_usage_percent": _ratio(process)[0],
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


def write(processes: list[Process], out_dir: Path, compressed: bool = True) -> list[Path]:
    """Writes timeline and memory flow of every process; gzip without a time stamp, so that equal plays give equal files."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for process in processes:
        path = out_dir / f"{process.pid}.chrome_timeline.json{'.gz' if compressed else ''}"
        content = text(process).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
        paths.append(path)
        paths.append(out_dir / f"{process.pid}.memory_flow.svg")
        paths[-1].write_text(drawing(process))
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Writes a run, and its truth where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=2, help="convolutions, each with its norm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fault", action="append", default=[], choices=FAULTS, help="planted in every step; repeatable"
    )
    parser.add_argument("--no-cupti", action="store_true", help="without calls and kernels of CUDA (enable_cupti=0)")
    parser.add_argument("--no-backtrace", action="store_true", help="without with_backtrace")
    parser.add_argument("--scopes", action="store_true", help="with_scopes: methods of tensors as scopes")
    parser.add_argument(
        "--as-recorded", action="store_true", help="waits without the place in Python, as 1.13 on a CPU"
    )
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(
        chosen.steps, chosen.ranks, chosen.blocks, chosen.seed, tuple(chosen.fault), not chosen.no_cupti,
        not chosen.no_backtrace, chosen.scopes, not chosen.as_recorded,
    )  # fmt: skip
    processes = play(config)
    for path in write(processes, chosen.out_dir, not chosen.plain):
        print(f"{path}  {path.stat().st_size:,} bytes")
    if chosen.truth is not None:
        chosen.truth.parent.mkdir(parents=True, exist_ok=True)
        chosen.truth.write_text(json.dumps(truth_document(config, chosen.out_dir.name, processes)) + "\n")
        print(chosen.truth)


if __name__ == "__main__":
    main()
