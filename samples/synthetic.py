"""Invent Kineto GPU traces whose right answers are known, for tests on machines without a GPU.

The generator plans a data-parallel transformer training step by step and writes the plan in the dialect of
modern Kineto. Next to each trace it writes the truth: the figures an analysis has to arrive at, in integer
nanoseconds. The truth comes from the plan and never from reading the written file back:

* Time is a grid. Every interval of the plan starts and ends on a cell of CELL_NS nanoseconds, so a busy time
  is a count of painted cells (`paint`). CELL_NS is a prime and not a round number: written as microseconds the
  times have every possible third digit, and a reader that rounds is caught. (gpu_user_annotation rows reach
  1 ns beyond their kernels on both sides, as Kineto draws them; no figure of the truth depends on them.)
* Host times come from one clock per thread that only `spend` can advance, and `spend` charges the operator
  that is open at that moment.
* Who owns a kernel is decided when it is launched, from the operators and modules open on that thread.

Nothing here was recorded. The device names say so, because these files look real on the screen. It is one long file on
purpose: people copy it to a machine that has nothing but Python.

In one file: the plan and all that is written of it are read together.

usage: python samples/synthetic.py OUT_DIR [--steps 6] [--ranks 1] [--streams 2] [--scale 1] [--arch cuda|rocm]
       [--seed 0] [--layers 4] [--tensor-parallel 1] [--slow-rank R] [--slow-factor 1.25]
       [--missing-rank R] [--missing-share 0.1] [--late-rank R] [--late-steps 1] [--absent-rank R ...] [--epoch-us] [--plain]
       [--truth FILE]
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event: the nesting is the picture)

from __future__ import annotations

import argparse
import gzip
import json
import random
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

CELL_NS = 137
CLASSES = ("compute", "communication", "memcpy", "memset")  # in order of priority: the first one present wins
NO_OPERATOR = "(no operator)"
BASE_NS = 1_790_857_026_000_000_000  # what Kineto would write in the quarter the samples were made
ORIGIN_NS = 4_343_762_354_588_917  # of the first cell, relative to BASE_NS
NO_SEQUENCE = -1
NODE = 8  # devices of one machine
BATCH, LENGTH, WIDTH, VOCABULARY = 16, 1024, 1024, 16000
TOKENS = BATCH * LENGTH
MIB = 1 << 20
PACE = 1.15  # of the invented device: the durations written below, times this

Json = dict[str, Any]


def us(micros: float) -> int:
    """Microseconds as a whole number of cells, at least one."""
    return max(1, round(micros * 1000 / CELL_NS))


@dataclass(frozen=True)
class Config:
    steps: int = 6
    ranks: int = 1
    streams: int = 2
    scale: int = 1
    arch: str = "cuda"
    seed: int = 0
    slow_rank: int | None = None
    slow_factor: float = 1.25
    epoch_us: bool = False
    layers: int = 4  # transformer blocks at scale 1
    tensor_parallel: int = (
        1  # neighbouring ranks that share each layer; ranks at the same place form a data-parallel group
    )
    missing_rank: int | None = None  # the rank whose profiler loses the kernels of some collectives ...
    missing_share: float = 0.1  # ... this share of them, evenly spread
    late_rank: int | None = None  # the rank whose recording begins late ...
    late_steps: int = 1  # ... after so many steps
    absent_ranks: tuple[int, ...] = ()  # ranks that take part but whose trace nobody kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "absent_ranks", tuple(self.absent_ranks))  # JSON knows only lists
        if self.arch not in DIALECTS:
            raise ValueError(f"arch is one of {sorted(DIALECTS)}, not {self.arch!r}")
        if min(self.steps, self.ranks, self.streams, self.scale, self.layers, self.tensor_parallel) < 1:
            raise ValueError("steps, ranks, streams, scale, layers and tensor_parallel are at least 1")
        if self.ranks % self.tensor_parallel:
            raise ValueError("tensor_parallel divides ranks")
        if not 0 <= self.missing_share <= 1 or not 0 < self.late_steps < max(2, self.steps):
            raise ValueError("missing_share is 0 to 1, late_steps less than steps")
        named = {self.slow_rank, self.missing_rank, self.late_rank, *self.absent_ranks} - {None}
        if not named <= set(range(self.ranks)) or len(self.absent_ranks) >= self.ranks:
            raise ValueError("a rank that is named exists, and one at least is not absent")


@dataclass(frozen=True)
class Group:
    """A process group: its name and number as PyTorch counts them, its description and its ranks in the job."""

    number: int
    description: str
    ranks: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def stride(self) -> int:
        return self.ranks[1] - self.ranks[0] if len(self.ranks) > 1 else 1


Meeting = Generator[tuple[Group, int], int, None]
"""A program that waits for others: it yields a group and when it could start, and is sent when all of the group can."""


def groups_of(config: Config) -> list[Group]:
    """All ranks; where layers are shared also the groups of neighbours (tp) and of ranks at the same place (dp)."""
    tp, everyone = config.tensor_parallel, tuple(range(config.ranks))
    found = [("default_pg", everyone)]
    if tp > 1:
        found += [("tp", everyone[first : first + tp]) for first in range(0, config.ranks, tp)]
        found += [("dp", everyone[place::tp]) for place in range(tp)]
    return [Group(number, description, ranks) for number, (description, ranks) in enumerate(found)]


# --------------------------------------------------------------------------------------------------- dialects


@dataclass(frozen=True)
class Dialect:
    """What differs between the files of two vendors: names and a few keys, not the structure."""

    stream_ids: tuple[int, ...]
    calls: dict[str, tuple[str, str, int]]  # our word -> category, name, cbid or cid
    kernels: dict[str, str]
    copies: dict[str, str]
    versions: Json
    call_id_key: str


def _elementwise(functor: str, width: int = 4) -> str:
    return (
        f"void at::native::vectorized_elementwise_kernel<{width}, at::native::{functor}, std::array<char*, 3ul> >"
        f"(int, at::native::{functor}, std::array<char*, 3ul>)"
    )


_SHARED_KERNELS = {
    "add": _elementwise("CUDAFunctor_add<c10::BFloat16>"),
    "gelu": _elementwise("GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}"),
    "gelu_backward": _elementwise("GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#2}"),
    "layer_norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "layer_norm_backward": "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized"
    "<c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, int)",
    "layer_norm_weights": "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate"
    "<c10::BFloat16, float, 32u, 32u, 256u, true, true, false>(long, long, c10::BFloat16 const*)",
    "reduce": "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, "
    "at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> >, "
    "unsigned int, c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16>)",
    "embedding": "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, "
    "2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, int, int, unsigned int, long)",
    "embedding_backward": "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16, "
    "float, long>(long const*, c10::BFloat16 const*, c10::BFloat16*, int, long, int)",
    "softmax": "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, "
    "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, float const*, int)",
    "softmax_backward": "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float, "
    "at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(float*, float const*, float const*, int)",
    "nll": "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
    "(float*, float*, float const*, long const*, float const*, bool, long, long, long, long)",
    "nll_backward": "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float, long>"
    "(float*, float const*, long const*, float const*, float const*, bool, int, int, long, long)",
    "adamw": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false> >(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)",
    "foreach_add": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
    "std::plus<float>, float>(at::native::(anonymous namespace)::TensorListMetadata<1>, std::plus<float>, float)",
    "ema": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListScalarListMetadata<float, 2>, at::native::(anonymous namespace)::TernaryOpScalarFunctor<float, 3> >()",
    "triton": "triton_red_fused_linalg_vector_norm_0",
    "leftover": _elementwise("FillFunctor<float>"),
}

DIALECTS = {
    "cuda": Dialect(
        stream_ids=(7, 20, 24, 28),
        calls={
            "launch": ("cuda_runtime", "cudaLaunchKernel", 211),
            "gemm": ("cuda_driver", "cuLaunchKernelEx", 652),
            "triton": ("cuda_driver", "cuLaunchKernel", 307),
            "collective": ("cuda_runtime", "cudaLaunchKernelExC", 430),
            "graph": ("cuda_runtime", "cudaGraphLaunch", 311),
            "memcpy": ("cuda_runtime", "cudaMemcpyAsync", 41),
            "memset": ("cuda_runtime", "cudaMemsetAsync", 51),
            "record": ("cuda_runtime", "cudaEventRecord", 135),
            "wait": ("cuda_runtime", "cudaStreamWaitEvent", 147),
            "synchronize": ("cuda_runtime", "cudaStreamSynchronize", 131),
        },
        kernels=_SHARED_KERNELS
        | {
            "gemm": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_bias_execute"
            "_segment_k_off_kernel__5x_cublas",
            "gemm_backward": "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN",
            "attention": "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
            "cutlass::bfloat16_t> >(Flash_fwd_params)",
            "attention_backward": "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, "
            "128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t> >(Flash_bwd_params)",
            "attention_dot": "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128, 128, 8> >"
            "(Flash_bwd_params)",
            "attention_convert": "void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8> >"
            "(Flash_bwd_params, int)",
            "allreduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        },
        copies={
            "HtoD": "Memcpy HtoD (Pageable -> Device)",
            "DtoH": "Memcpy DtoH (Device -> Pageable)",
            "DtoD": "Memcpy DtoD (Device -> Device)",
        },
        versions={"cupti_version": 26, "cuda_runtime_version": 12080, "cuda_driver_version": 12080},
        call_id_key="cbid",
    ),
    "rocm": Dialect(
        stream_ids=(0, 3, 4, 5),
        calls={
            "launch": ("cuda_runtime", "hipLaunchKernel", 107),
            "gemm": ("cuda_runtime", "hipExtModuleLaunchKernel", 65),
            "triton": ("cuda_runtime", "hipModuleLaunchKernel", 188),
            "collective": ("cuda_runtime", "hipExtLaunchKernel", 62),
            "graph": ("cuda_runtime", "hipGraphLaunch", 87),
            "memcpy": ("cuda_runtime", "hipMemcpyWithStream", 153),
            "memset": ("cuda_runtime", "hipMemsetAsync", 159),
            "record": ("cuda_runtime", "hipEventRecord", 61),
            "wait": ("cuda_runtime", "hipStreamWaitEvent", 200),
            "synchronize": ("cuda_runtime", "hipStreamSynchronize", 199),
        },
        kernels=_SHARED_KERNELS
        | {
            "gemm": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_ASEM1_WG64_4_1",
            "gemm_backward": "Cijk_Ailk_Bjlk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB0_WG32_8_1",
            "attention": "attn_fwd",
            "attention_backward": "bwd_kernel_dk_dv",
            "attention_dot": "bwd_preprocess",
            "attention_convert": "bwd_kernel_dq",
            "allreduce": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        },
        copies={
            "HtoD": "Memcpy HtoD (Host -> Device)",
            "DtoH": "Memcpy DtoH (Device -> Host)",
            "DtoD": "Memcpy DtoD (Device -> Device)",
        },
        versions={"roctracer_version": 4.1, "hip_runtime_version": 60443483, "hip_driver_version": 60443483},
        call_id_key="cid",
    ),
}


def device_properties(arch: str, number: int) -> Json:
    """One invented device, with the figures of the real one it stands for and a name nobody takes for real."""
    shared = {"maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536}
    if arch == "cuda":
        return {
            "id": number, "name": "Synthetic H100 (not a recording)", "totalGlobalMem": 85_018_279_936,
            "computeMajor": 9, "computeMinor": 0, **shared, "warpSize": 32, "sharedMemPerBlock": 49_152, "numSms": 132,
            "regsPerMultiprocessor": 65_536, "sharedMemPerBlockOptin": 232_448, "sharedMemPerMultiprocessor": 233_472,
        }  # fmt: skip
    return {
        "id": number, "name": "Synthetic MI300X (not a recording)", "totalGlobalMem": 206_141_652_992,
        "computeMajor": 9, "computeMinor": 4, **shared, "warpSize": 64, "sharedMemPerBlock": 65_536, "numSms": 304,
        "maxSharedMemoryPerMultiProcessor": 65_536,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------- what is planned


@dataclass
class Row:
    """One event as it will be written; times in nanoseconds from BASE_NS."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int = 0
    args: Json | None = None
    flow: int = 0


@dataclass
class Activity:
    """A kernel, copy or fill on the device, with everything the truth needs to know about its launch."""

    kind: str  # one of CLASSES
    name: str
    start: int
    cells: int
    stream: int
    correlation: int
    owners: tuple[str, ...]  # open operators, outermost first
    modules: tuple[str, ...]  # open modules, outermost first
    backward: bool
    launched: bool
    step: int
    args: Json
    external_id: int | None

    @property
    def end(self) -> int:
        return self.start + self.cells


@dataclass
class OpenOp:
    name: str
    start: int
    external_id: int
    sequence: int
    in_children: int = 0


@dataclass
class HostThread:
    tid: int
    now: int = 0
    ops: list[OpenOp] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)  # Python ids
    rows: list[Row] = field(default_factory=list)
    frame_rows: list[Row] = field(default_factory=list)


@dataclass
class OperatorTruth:
    calls: int = 0
    host_self: int = 0
    host_total: int = 0
    host_runtime: int = 0
    device_self: int = 0
    device_total: int = 0


@dataclass
class ModuleTruth:
    calls: int = 0
    host_total: int = 0
    forward_device: int = 0
    backward_device: int = 0


@dataclass
class Gradient:
    """One node of the autograd tape: what backward has to run for a forward operator."""

    name: str
    sequence: int
    modules: tuple[str, ...]
    run: Callable[[], None]
    flow: int
    frees: list[tuple[int, int]]
    parameters: list[tuple[int, str]]  # bytes and shape of the gradients accumulated right after


class Recorder:
    """The profiler of one invented process: a clock per thread, a queue per stream, and the running counts."""

    def __init__(self, config: Config, rank: int) -> None:
        self.config = config
        self.dialect = DIALECTS[config.arch]
        self.rank = rank
        self.device = rank % NODE
        self.groups = [group for group in groups_of(config) if rank in group.ranks]
        self.began = 0  # cell in which the recording begins
        self.random = random.Random(config.seed * 1009 + rank)
        self.pid = 41_000 + rank
        self.main = HostThread(tid=self.pid, now=us(500 + 20 * rank))
        self.autograd = HostThread(tid=self.pid + 170)
        self.streams = self.dialect.stream_ids[: config.streams]
        self.compute = self.streams[0]
        self.comm = self.streams[min(1, len(self.streams) - 1)]
        self.copies = self.streams[2] if len(self.streams) > 2 else self.compute
        self.side = self.streams[3] if len(self.streams) > 3 else self.compute
        self.free_at = dict.fromkeys(self.streams, 0)
        self.activities: list[Activity] = []
        self.runtime_rows: list[Row] = []
        self.memory_rows: list[Row] = []
        self.annotation_activities: dict[tuple[str, int], list[Activity]] = {}
        self.open_annotations: list[tuple[int, str, int]] = []
        self.modules_open: tuple[str, ...] = ()
        self.in_backward = False
        self.step = -1
        self.step_windows: list[tuple[str, int, int]] = []
        self.operators: dict[str, OperatorTruth] = {}
        self.modules: dict[str, ModuleTruth] = {}
        self.collectives: list[Json] = []
        self.last_collective = {group.name: 0 for group in self.groups}
        every = 1 / config.missing_share if rank == config.missing_rank and config.missing_share else 0.0
        self.lost_every, self.until_lost = every, random.Random(config.seed * 31 + rank).uniform(0, every)
        self.counts = dict.fromkeys(
            ("cpu_ops", "user_annotations", "python_functions", "runtime_calls", "memory_events", "fwdbwd_links"), 0
        )
        self.last_external_id = 0
        self.last_correlation = 8_192 * (rank + 1)
        self.last_sequence = 0
        self.last_flow = 0
        self.last_python_id = 0
        self.last_address = 0x7F20_0000_0000
        self.allocated = {"gpu": 512 * MIB, "cpu": 0}
        self.peak = dict(self.allocated)
        self.head: Json = {}  # what the file says at its top besides, or instead (None = not at all)

    # -- host ---------------------------------------------------------------------------------------------

    def ns(self, cell: int) -> int:
        return ORIGIN_NS + cell * CELL_NS

    def spend(self, thread: HostThread, cells: int, in_runtime: bool = False) -> None:
        """Let time pass on one thread, charged to the operator open there."""
        thread.now += cells
        if thread.ops:
            truth = self.operators[thread.ops[-1].name]
            truth.host_self += cells
            truth.host_runtime += cells if in_runtime else 0

    def next_id(self) -> int:
        self.last_external_id += 1
        return self.last_external_id

    @contextmanager
    def op(
        self, thread: HostThread, name: str, *dims: list[int], sequence: int = NO_SEQUENCE,
        link: tuple[str, int] | None = None, forward_thread: int = 0, before: float = 3, after: float = 2,
        extra: Json | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """An open operator; `dims` are its inputs' shapes, `link` the end of a forward-backward flow it carries."""
        opened = OpenOp(name, thread.now, self.next_id(), sequence)
        args: Json = {"External id": opened.external_id, "Record function id": 0}
        if sequence != NO_SEQUENCE:
            args |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if dims:
            args |= {
                "Concrete Inputs": [""] * len(dims),
                "Input type": ["c10::BFloat16" if d else "Scalar" for d in dims],
                "Input Strides": [_strides(d) for d in dims],
                "Input Dims": list(dims),
            }
        row = Row("X", "cpu_op", name, self.pid, thread.tid, self.ns(opened.start), args=args | (extra or {}))
        thread.rows.append(row)
        if link is not None:
            thread.rows.append(
                Row(link[0], "fwdbwd", "fwdbwd", self.pid, thread.tid, self.ns(opened.start), flow=link[1])
            )
        self.counts["cpu_ops"] += 1
        truth = self.operators.setdefault(name, OperatorTruth())
        thread.ops.append(opened)
        self.spend(thread, us(before))
        yield
        self.spend(thread, us(after))
        thread.ops.pop()
        truth.calls += 1
        truth.host_total += thread.now - opened.start
        row.dur_ns = (thread.now - opened.start) * CELL_NS

    @contextmanager
    def annotation(self, thread: HostThread, name: str) -> Iterator[None]:
        external_id, start = self.next_id(), thread.now
        row = Row("X", "user_annotation", name, self.pid, thread.tid, self.ns(start))
        row.args = {"External id": external_id, "Record function id": 0}
        thread.rows.append(row)
        self.counts["user_annotations"] += 1
        self.open_annotations.append((thread.tid, name, external_id))
        self.spend(thread, us(1))
        yield
        self.spend(thread, us(1))
        self.open_annotations.pop()
        row.dur_ns = (thread.now - start) * CELL_NS

    @contextmanager
    def frame(self, name: str, module_id: int | None = None) -> Iterator[None]:
        """A Python frame of the main thread (the profiler sees no Python on the autograd thread)."""
        thread = self.main
        self.last_python_id += 1
        python_id, start = self.last_python_id, thread.now
        args: Json = {"Python parent id": thread.frames[-1] if thread.frames else None, "Python id": python_id}
        if module_id is not None:
            args["Python module id"] = module_id
        row = Row("X", "python_function", name, self.pid, thread.tid, self.ns(start), args=args)
        thread.frame_rows.append(row)
        thread.frames.append(python_id)
        self.counts["python_functions"] += 1
        self.spend(thread, us(1.5))
        yield
        self.spend(thread, us(1))
        thread.frames.pop()
        row.dur_ns = self.ns(thread.now) - row.start_ns

    @contextmanager
    def module(self, kind: str, number: int) -> Iterator[None]:
        """A call of one nn.Module instance, with the two frames every module call brings along."""
        instance = f"{kind}_{number}"
        truth = self.modules.setdefault(instance, ModuleTruth())
        start, outer = self.main.now, self.modules_open
        source = "model.py" if kind in {"GPT", "Block", "Attention", "MLP"} else f"torch/nn/modules/{kind.lower()}.py"
        with ExitStack() as frames:
            frames.enter_context(self.frame(f"nn.Module: {instance}", number))
            self.modules_open = (*outer, instance)
            frames.enter_context(self.frame("torch/nn/modules/module.py(1782): _call_impl"))
            frames.enter_context(self.frame(f"{source}({40 + len(kind)}): forward"))
            yield
            self.modules_open = outer
        truth.calls += 1
        truth.host_total += self.main.now - start

    def sequence(self) -> int:
        self.last_sequence += 1
        return self.last_sequence

    def flow(self) -> int:
        self.last_flow += 1
        self.counts["fwdbwd_links"] += 1
        return self.last_flow

    # -- memory -------------------------------------------------------------------------------------------

    def _memory(self, thread: HostThread, device: str, address: int, size: int) -> None:
        self.allocated[device] += size
        self.peak[device] = max(self.peak[device], self.allocated[device])
        self.counts["memory_events"] += 1
        gpu = device == "gpu"
        args = {
            "Total Reserved": -(-self.peak[device] // (32 * MIB)) * 32 * MIB if gpu else 0,
            "Total Allocated": self.allocated[device], "Bytes": size, "Addr": address,
            "Device Id": self.device if gpu else -1, "Device Type": 1 if gpu else 0, "finished": False,
        }  # fmt: skip
        self.memory_rows.append(
            Row("i", "cpu_instant_event", "[memory]", self.pid, thread.tid, self.ns(thread.now), args=args)
        )

    def allocate(self, thread: HostThread, size: int, device: str = "gpu") -> tuple[int, int]:
        self.last_address += -(-size // 512) * 512
        self._memory(thread, device, self.last_address, size)
        self.spend(thread, us(0.6))
        return self.last_address, size

    def release(self, thread: HostThread, block: tuple[int, int], device: str = "gpu") -> None:
        self._memory(thread, device, block[0], -block[1])
        self.spend(thread, us(0.4))

    # -- device -------------------------------------------------------------------------------------------

    def call(self, thread: HostThread, word: str, cells: int, linked: bool = False, hip: Json | None = None) -> int:
        """A runtime or driver call of that length; returns its correlation. `hip` is what only ROCm writes on it."""
        category, name, number = self.dialect.calls[word]
        self.last_correlation += 1
        start = self.ns(thread.now)
        args: Json = {"External id": thread.ops[-1].external_id} if thread.ops else {}
        args |= {self.dialect.call_id_key: number, "correlation": self.last_correlation}
        if self.config.arch == "rocm" and hip is not None:
            args |= hip
        self.runtime_rows.append(Row("X", category, name, self.pid, thread.tid, start, cells * CELL_NS, args))
        if linked:
            self.runtime_rows.append(Row("s", "ac2g", "ac2g", self.pid, thread.tid, start, flow=self.last_correlation))
        self.counts["runtime_calls"] += 1
        self.spend(thread, cells, in_runtime=True)
        return self.last_correlation

    def queue(
        self, thread: HostThread, kind: str, name: str, cells: int, stream: int, correlation: int, args: Json,
        ready: int = 0,
    ) -> Activity:  # fmt: skip
        """Put work on a stream: it starts when launched, when the stream is free and when `ready`."""
        start = max(thread.now + us(2), self.free_at[stream], ready)
        owners = tuple(opened.name for opened in thread.ops)
        activity = Activity(
            kind, name, start, cells, stream, correlation, owners, self.modules_open, self.in_backward, True, self.step,
            args, thread.ops[-1].external_id if thread.ops else None,
        )  # fmt: skip
        self.free_at[stream] = activity.end
        self.activities.append(activity)
        for tid, annotation, external_id in self.open_annotations:
            if tid == thread.tid:  # CUPTI keeps one stack of annotations for each thread
                self.annotation_activities.setdefault((annotation, external_id), []).append(activity)
        return activity

    def kernel(
        self, thread: HostThread, key: str, micros: float, blocks: int, threads: int = 256, word: str = "launch",
        stream: int | None = None,
    ) -> Activity:  # fmt: skip
        cells = self.cells(micros)
        name, grid, block = self.dialect.kernels[key], [blocks, 1, 1], [threads, 1, 1]
        hip: Json = {"kernel": name, "grid": grid, "block": block, "shared memory": 0}
        correlation = self.call(thread, word, us(5), linked=True, hip=hip)
        args = self.kernel_args(grid, block, key.startswith(("gemm", "attention")))
        where = self.compute if stream is None else stream
        return self.queue(thread, "compute", name, cells, where, correlation, args)

    def graph(self, thread: HostThread, key: str, micros: float, nodes: int) -> None:
        """One launch, many kernels: all carry the correlation of the graph launch and none an operator."""
        correlation = self.call(thread, "graph", us(18), linked=True)
        for node in range(nodes):
            args = self.kernel_args([512, 1, 1], [256, 1, 1], False)
            args |= {"graph id": 3, "graph node id": 12_884_901_888 + node}
            self.queue(
                thread, "compute", self.dialect.kernels[key], self.cells(micros), self.compute, correlation, args
            )
            self.free_at[self.compute] += us(1.2)

    def memcpy(self, thread: HostThread, way: str, size: int, micros: float, stream: int) -> Activity:
        direction = {"HtoD": "1", "DtoH": "2", "DtoD": "3"}[way]
        hip: Json = {"src": "0x7f0e4a7e8000", "dst": "0x7f0e79800400", "bytes": str(size), "kind": direction}
        correlation = self.call(thread, "memcpy", us(7), linked=True, hip=hip)
        cells = self.cells(micros)
        args: Json = {"bytes": size}
        if self.config.arch == "cuda":
            args |= {"context": 1, "memory bandwidth (GB/s)": size / (cells * CELL_NS)}
        else:
            args["kind"] = way
        return self.queue(thread, "memcpy", self.dialect.copies[way], cells, stream, correlation, args)

    def memset(self, thread: HostThread, size: int, micros: float) -> None:
        correlation = self.call(thread, "memset", us(5), linked=True)
        cells = self.cells(micros)
        args: Json = {"bytes": size}
        if self.config.arch == "cuda":
            args |= {"context": 1, "memory bandwidth (GB/s)": size / (cells * CELL_NS)}
        else:
            args["kind"] = "Device"
        self.queue(thread, "memset", "Memset (Device)", cells, self.compute, correlation, args)

    def cells(self, micros: float) -> int:
        """A device duration: the planned one, a little different every time, longer on the slow rank."""
        slow = self.config.slow_factor if self.rank == self.config.slow_rank else 1.0
        return us(micros * PACE * slow * self.random.uniform(0.94, 1.06))

    def compute_done(self) -> int:
        """When everything queued so far outside the communication stream is done."""
        return max(self.free_at[stream] for stream in {self.compute, self.side, self.copies})

    def kernel_args(self, grid: list[int], block: list[int], heavy: bool) -> Json:
        if self.config.arch == "rocm":
            return {"grid": grid, "block": block, "kind": "Dispatch Kernel"}
        per_sm = grid[0] * grid[1] * grid[2] / 132
        warps = per_sm * block[0] / 32
        registers = 168 if heavy else 32
        resident = min(64, 65_536 // (registers * 32)) if heavy else 64
        return {
            "queued": 0, "context": 1, "registers per thread": registers, "shared memory": 164_864 if heavy else 0,
            "blocks per SM": round(per_sm, 6), "warps per SM": round(warps, 6), "grid": grid, "block": block,
            "est. achieved occupancy %": round(min(1.0, warps / 64, resident / 64) * 100),
        }  # fmt: skip

    # -- collectives --------------------------------------------------------------------------------------

    def group(self, description: str) -> Group:
        """The group of that description that this rank is in; without such groups the one of all ranks."""
        return next((group for group in self.groups if group.description == description), self.groups[0])

    def allreduce(
        self, thread: HostThread, elements: int, micros: float, group: Group, dtype: str = "Float", wait: bool = False
    ) -> Meeting:
        """An all-reduce. It yields when it could start and is sent when all ranks of the group can.

        With `wait` the work that follows on the device needs the result.
        """
        self.last_collective[group.name] += 1
        sequence = self.last_collective[group.name]
        shared: Json = {
            "Collective name": "allreduce", "dtype": dtype, "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": len(group.ranks), "In split size": "[]", "Out split size": "[]",
            "Process Group Name": group.name, "Process Group Description": group.description,
            "Process Group Ranks": str(list(group.ranks)),
        }  # fmt: skip
        more: Json = {
            "Rank": group.ranks.index(self.rank), "Global rank start": group.ranks[0],
            "Global rank stride": group.stride, "Seq": sequence, "Is asynchronized op": not wait,
            "Comms Id": 13_835_058_055_282_163_712 + 77 + group.number,
        }  # fmt: skip
        with self.op(thread, "c10d::allreduce_", [elements], before=12, after=6):
            with self.op(thread, "record_param_comms", [elements], extra=shared | more, before=6, after=4):
                with self.annotation(thread, "nccl:all_reduce"):
                    self.call(thread, "record", us(2))
                    self.call(thread, "wait", us(2))
                    correlation = self.call(thread, "collective", us(9), linked=True)
                    ready = max(thread.now + us(2), self.free_at[self.comm], self.compute_done())
                    everyone_ready = yield group, ready
                    end = everyone_ready + us(micros)
                    recorded = self._recorded()
                    if recorded:
                        kernel_args = self.kernel_args([24, 1, 1], [544, 1, 1], True) | shared | {"Seq": sequence}
                        name = self.dialect.kernels["allreduce"].replace(
                            "_f32_", "_bf16_" if dtype != "Float" else "_f32_"
                        )
                        self.queue(
                            thread, "communication", name, end - ready, self.comm, correlation, kernel_args, ready
                        )  # fmt: skip
                    self.free_at[self.comm] = end
                    if wait:
                        self.free_at[self.compute] = max(self.free_at[self.compute], end)
                    self.call(thread, "record", us(2))
        self.collectives.append(
            {
                "seq": sequence, "name": "allreduce", "group": group.name, "step": self.step,
                "bytes": elements * (4 if dtype == "Float" else 2), "recorded": recorded,
                "start_ns": self.ns(ready), "dur_ns": (end - ready) * CELL_NS,
                "wait_ns": (everyone_ready - ready) * CELL_NS, "transfer_ns": (end - everyone_ready) * CELL_NS,
            }
        )  # fmt: skip

    def _recorded(self) -> bool:
        """Whether the profiler keeps the kernel of the next collective."""
        if not self.lost_every:
            return True
        self.until_lost -= 1
        if self.until_lost >= 0:
            return True
        self.until_lost += self.lost_every
        return False

    def forget(self) -> None:
        """The recording begins now, between two steps: nothing of before is in it but the Python frames that are open."""
        self.began = self.main.now
        self.activities.clear()
        self.runtime_rows.clear()
        self.memory_rows.clear()
        self.annotation_activities.clear()
        self.step_windows.clear()
        self.operators.clear()
        self.modules.clear()
        self.collectives.clear()
        self.counts = dict.fromkeys(self.counts, 0)
        self.peak = dict(self.allocated)
        for thread in (self.main, self.autograd):
            thread.rows.clear()
            thread.frame_rows[:] = [
                row for row in thread.frame_rows if row.args and row.args["Python id"] in thread.frames
            ]
            for row in thread.frame_rows:
                row.start_ns = self.ns(self.began)
        self.counts["python_functions"] = len(self.main.frame_rows)


def _strides(shape: list[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides if shape else []


# ------------------------------------------------------------------------------------------------------ the model


class Training:
    """The invented program: a GPT-like model, trained with AdamW under DistributedDataParallel."""

    def __init__(self, recorder: Recorder) -> None:
        self.r = recorder
        self.tape: list[Gradient] = []
        self.gradients: list[tuple[int, int]] = []
        self.layers = recorder.config.layers * recorder.config.scale

    # -- forward ------------------------------------------------------------------------------------------

    def record(
        self, name: str, sequence: int, run: Callable[[], None], flow: int, frees: list[tuple[int, int]] | None = None,
        parameters: list[tuple[int, str]] | None = None,
    ) -> None:  # fmt: skip
        self.tape.append(Gradient(name, sequence, self.r.modules_open, run, flow, frees or [], parameters or []))

    def linear(self, number: int, inputs: int, outputs: int, micros: float) -> None:
        r, main, back = self.r, self.r.main, self.r.autograd
        rows, weight = [TOKENS, inputs], [outputs, inputs]
        first, second = r.sequence(), r.sequence()
        first_flow, second_flow = r.flow(), r.flow()
        with r.module("Linear", number), r.frame("<built-in function linear>"):
            with r.op(main, "aten::linear", rows, weight, [outputs], sequence=first):
                with r.op(main, "aten::t", weight, sequence=first, link=("s", first_flow), before=1.5, after=0.6):
                    with r.op(main, "aten::transpose", weight, [], [], before=1, after=0.5):
                        with r.op(main, "aten::as_strided", weight, [], [], [], before=0.5, after=0.3):
                            pass
                shapes: tuple[list[int], ...] = ([outputs], rows, [inputs, outputs], [], [])
                with r.op(main, "aten::addmm", *shapes, sequence=second, link=("s", second_flow), before=9, after=4):
                    block = r.allocate(main, TOKENS * outputs * 2)
                    r.kernel(main, "gemm", micros, TOKENS * outputs // (128 * 128), 384, word="gemm")

            def transposed() -> None:
                self.transpose(weight)

            def multiplied() -> None:
                self.transpose(weight)
                self.product([TOKENS, outputs], weight, TOKENS * inputs * 2, micros * 1.02)
                self.transpose(rows)
                self.product([outputs, TOKENS], rows, 0, micros * 1.05, r.side)
                with r.op(back, "aten::sum", [TOKENS, outputs], [], [], before=8, after=3):
                    r.kernel(back, "reduce", 28, outputs // 32, 512)

            self.record("TBackward0", first, transposed, first_flow, parameters=[(inputs * outputs * 4, str(weight))])
            self.record("AddmmBackward0", second, multiplied, second_flow, [block], [(outputs * 4, str([outputs]))])

    def transpose(self, shape: list[int]) -> None:
        r, back = self.r, self.r.autograd
        with r.op(back, "aten::t", shape, before=1.5, after=0.6):
            with r.op(back, "aten::transpose", shape, [], [], before=1, after=0.5):
                with r.op(back, "aten::as_strided", shape, [], [], [], before=0.5, after=0.3):
                    pass

    def product(self, left: list[int], right: list[int], keep: int, micros: float, stream: int | None = None) -> None:
        r, back = self.r, self.r.autograd
        with r.op(back, "aten::mm", left, right, before=8, after=3):
            if keep:
                block = r.allocate(back, keep)
            r.kernel(back, "gemm_backward", micros, 512, 384, word="gemm", stream=stream)
        if keep:
            r.release(back, block)

    def simple(
        self, names: list[str], shape: list[int], key: str, micros: float, backward: str, run: Callable[[], None],
        size: int = TOKENS * WIDTH * 2, parameters: list[tuple[int, str]] | None = None,
    ) -> None:  # fmt: skip
        """A chain of operators, the innermost of which launches one kernel, with one node on the tape."""
        r, main = self.r, self.r.main
        sequence, flow = r.sequence(), r.flow()
        with ExitStack() as open_ops:
            for depth, name in enumerate(names):
                last_tracked = depth == min(1, len(names) - 1)
                open_ops.enter_context(
                    r.op(
                        main,
                        name,
                        shape,
                        sequence=sequence if depth < 2 else NO_SEQUENCE,
                        link=("s", flow) if last_tracked else None,
                        before=5,
                        after=2,
                    )
                )
            block = r.allocate(main, size)
            r.kernel(main, key, micros, TOKENS // 8)
        self.record(backward, sequence, run, flow, [block], parameters)

    def layer_norm(self, number: int) -> None:
        r, back = self.r, self.r.autograd
        shape = [BATCH, LENGTH, WIDTH]

        def run() -> None:
            with r.op(back, "aten::native_layer_norm_backward", shape, shape, [WIDTH], before=9, after=4):
                r.kernel(back, "layer_norm_backward", 74, TOKENS)
                r.kernel(back, "layer_norm_weights", 31, WIDTH // 32, 1024)

        with r.module("LayerNorm", number), r.frame("<built-in function layer_norm>"):
            names = ["aten::layer_norm", "aten::native_layer_norm"]
            parameters = [(WIDTH * 4, f"[{WIDTH}]"), (WIDTH * 4, f"[{WIDTH}]")]
            self.simple(names, shape, "layer_norm", 58, "NativeLayerNormBackward0", run, parameters=parameters)

    def attention(self) -> None:
        r, back = self.r, self.r.autograd
        shape = [BATCH, 16, LENGTH, 64]

        def run() -> None:
            with r.op(back, "aten::_scaled_dot_product_flash_attention_backward", shape, shape, shape, before=6):
                with r.op(back, "aten::_flash_attention_backward", shape, shape, shape, before=14, after=5):
                    r.kernel(back, "attention_dot", 44, LENGTH // 128 * BATCH * 16, 256)
                    r.kernel(back, "attention_backward", 930, LENGTH // 128 * BATCH * 16, 256)
                    r.kernel(back, "attention_convert", 39, LENGTH // 128 * BATCH * 16, 256)

        sdpa = "aten::scaled_dot_product_attention"
        with r.frame("<built-in function scaled_dot_product_attention>"):
            names = [sdpa, "aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward"]
            self.simple(names, shape, "attention", 410, "ScaledDotProductFlashAttentionBackward0", run)

    def gelu(self, number: int) -> None:
        r, back = self.r, self.r.autograd
        shape = [BATCH, LENGTH, 4 * WIDTH]

        def run() -> None:
            with r.op(back, "aten::gelu_backward", shape, shape, before=6, after=3):
                r.kernel(back, "gelu_backward", 136, TOKENS)

        with r.module("GELU", number), r.frame("<built-in function gelu>"):
            self.simple(["aten::gelu"], shape, "gelu", 92, "GeluBackward0", run, size=TOKENS * WIDTH * 8)

    def add(self) -> None:
        self.simple(["aten::add"], [BATCH, LENGTH, WIDTH], "add", 66, "AddBackward0", lambda: None)

    def embedding(self) -> None:
        r, back = self.r, self.r.autograd

        def run() -> None:
            with r.op(back, "aten::embedding_backward", [BATCH, LENGTH, WIDTH], before=4):
                with r.op(back, "aten::embedding_dense_backward", [BATCH, LENGTH, WIDTH], before=8, after=3):
                    r.memset(back, VOCABULARY * WIDTH * 2, 26)
                    r.kernel(back, "embedding_backward", 155, WIDTH // 4)

        with r.module("Embedding", 0), r.frame("<built-in function embedding>"):
            names = ["aten::embedding", "aten::index_select"]
            parameters = [(VOCABULARY * WIDTH * 4, f"[{VOCABULARY}, {WIDTH}]")]
            self.simple(names, [VOCABULARY, WIDTH], "embedding", 61, "EmbeddingBackward0", run, parameters=parameters)

    def loss(self) -> None:
        r, back = self.r, self.r.autograd
        shape = [TOKENS, VOCABULARY]

        def softmax() -> None:
            with r.op(back, "aten::_log_softmax_backward_data", shape, shape, [], before=6, after=3):
                r.kernel(back, "softmax_backward", 905, TOKENS, 1024)

        def nll() -> None:
            with r.op(back, "aten::nll_loss_backward", [], shape, [TOKENS], before=6, after=3):
                r.memset(back, TOKENS * VOCABULARY * 4, 240)
                r.kernel(back, "nll_backward", 17, 1, 32)

        with r.module("CrossEntropyLoss", 0), r.frame("<built-in function cross_entropy_loss>"):
            size = TOKENS * VOCABULARY * 4
            names = ["aten::cross_entropy_loss", "aten::log_softmax", "aten::_log_softmax"]
            self.simple(names, shape, "softmax", 610, "LogSoftmaxBackward0", softmax, size=size)
            names = ["aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward"]
            self.simple(names, shape, "nll", 21, "NllLossBackward0", nll, size=4)

    def forward(self) -> Meeting:
        r = self.r
        with r.module("GPT", 0):
            self.embedding()
            for layer in range(self.layers):
                with r.module("Block", layer):
                    self.layer_norm(2 * layer)
                    with r.module("Attention", layer):
                        self.linear(4 * layer, WIDTH, 3 * WIDTH, 300)
                        for _ in range(3):
                            with r.op(r.main, "aten::view", [BATCH, LENGTH, WIDTH], [], before=1, after=0.5):
                                pass
                        self.attention()
                        self.linear(4 * layer + 1, WIDTH, WIDTH, 112)
                        yield from self.share()
                    self.add()
                    self.layer_norm(2 * layer + 1)
                    with r.module("MLP", layer):
                        self.linear(4 * layer + 2, WIDTH, 4 * WIDTH, 395)
                        self.gelu(layer)
                        self.linear(4 * layer + 3, 4 * WIDTH, WIDTH, 402)
                        yield from self.share()
                    self.add()
            self.layer_norm(2 * self.layers)
            self.linear(4 * self.layers, WIDTH, VOCABULARY, 1480)
        self.loss()

    def share(self) -> Meeting:
        """Where a layer is shared: the sum of what the ranks of the group have of its output."""
        if self.r.config.tensor_parallel > 1:
            yield from self.r.allreduce(self.r.main, TOKENS * WIDTH, 190, self.r.group("tp"), "BFloat16", wait=True)

    # -- backward -----------------------------------------------------------------------------------------

    def backward(self) -> Meeting:
        """Run the tape backwards on the autograd thread; a full gradient bucket goes out as an all-reduce."""
        r, back = self.r, self.r.autograd
        parameter_bytes = sum(size for gradient in self.tape for size, _ in gradient.parameters)
        bucket_limit = parameter_bytes // (4 * r.config.scale)
        bucket = 0
        back.now = r.main.now + us(30)
        r.in_backward = True
        for gradient in reversed(self.tape):
            prefix = "autograd::engine::evaluate_function: "
            r.modules_open = gradient.modules
            tracked: Json = {"sequence": gradient.sequence, "forward_thread": 1}
            with r.op(back, prefix + gradient.name, before=2, after=2, **tracked):
                with r.op(back, gradient.name, link=("f", gradient.flow), before=3, after=2, **tracked):
                    gradient.run()
                for block in gradient.frees:
                    r.release(back, block)
            r.modules_open = ()
            for size, shape in gradient.parameters:
                with r.op(back, prefix + "torch::autograd::AccumulateGrad", before=3, after=2):
                    with r.op(back, "torch::autograd::AccumulateGrad", json.loads(shape), before=2, after=2):
                        with r.op(back, "aten::detach", json.loads(shape), before=1, after=0.5):
                            self.gradients.append(r.allocate(back, size))
                    bucket += size
                    last = gradient is self.tape[0]
                    if bucket >= bucket_limit or last:
                        with r.op(back, "aten::copy_", [bucket // 4], [bucket // 4], before=6, after=3):
                            r.memcpy(back, "DtoD", bucket, 40 + bucket / 4_000_000, r.comm)
                        yield from r.allreduce(back, bucket // 4, 300 + bucket / 25_000, r.group("dp"))
                        bucket = 0
            r.spend(back, us(3))
        r.in_backward = False
        r.call(back, "wait", us(2))
        for stream in {r.comm, r.side} - {r.compute}:
            r.free_at[r.compute] = max(r.free_at[r.compute], r.free_at[stream])
        r.spend(back, us(5))

    # -- one step -----------------------------------------------------------------------------------------

    def run_step(self, number: int) -> Meeting:
        r, main = self.r, self.r.main
        r.step = number
        start = main.now
        with r.annotation(main, f"ProfilerStep#{number}"):
            self.load_data()
            with r.annotation(main, "Optimizer.zero_grad#AdamW.zero_grad"):
                with r.frame("torch/optim/optimizer.py(971): zero_grad"):
                    for block in self.gradients:
                        r.release(main, block)
                self.gradients.clear()
            self.tape.clear()
            with r.frame("train.py(52): forward_and_loss"):
                yield from self.forward()
            with r.frame("torch/_tensor.py(604): backward"), r.frame("torch/autograd/__init__.py(243): backward"):
                with r.frame("<built-in method run_backward of torch._C._EngineBase object at 0x7f3b754cea40>"):
                    r.spend(main, us(20))
                    yield from self.backward()
                    r.spend(main, r.autograd.now + us(8) - main.now)
            self.read_loss()
            with r.frame("train.py(68): log_metrics"):
                r.spend(main, us(11500 * r.config.scale * r.random.uniform(0.9, 1.1)))
            self.optimize()
        r.step_windows.append((f"ProfilerStep#{number}", start, main.now))
        with r.frame("torch/profiler/profiler.py(918): step"):
            r.spend(main, us(60))

    def load_data(self) -> None:
        """The main thread prepares the batch itself, about a fifth of the step; then the copy to the device."""
        r, main = self.r, self.r.main
        with r.annotation(main, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            with r.frame("torch/utils/data/dataloader.py(788): _next_data"), r.frame("dataset.py(33): __getitem__"):
                for _ in range(4):
                    r.spend(main, us(3850 * r.config.scale * r.random.uniform(0.95, 1.05)))
                    with r.op(main, "aten::stack", [LENGTH + 1], before=30, after=10):
                        with r.op(main, "aten::cat", [1, LENGTH + 1], before=120, after=20):
                            block = r.allocate(main, BATCH * (LENGTH + 1) * 2, "cpu")
                    r.release(main, block, "cpu")
        with r.frame("train.py(47): to_device"):
            for _ in range(2):
                with r.op(main, "aten::to", [BATCH, LENGTH], [], [], before=4):
                    with r.op(main, "aten::_to_copy", [BATCH, LENGTH], before=4):
                        with r.op(main, "aten::empty_strided", [], [], before=3):
                            block = r.allocate(main, TOKENS * 8)
                        with r.op(main, "aten::copy_", [BATCH, LENGTH], [BATCH, LENGTH], before=5):
                            copy = r.memcpy(main, "HtoD", TOKENS * 8, 310, r.copies)
                            r.call(main, "synchronize", max(us(4), copy.end + us(3) - main.now))
                r.release(main, block)

    def read_loss(self) -> None:
        """`loss.item()`: the host waits for everything queued so far."""
        r, main = self.r, self.r.main
        with r.frame("<built-in method item of Tensor object at 0x7f3b4c1d2e90>"), r.op(main, "aten::item", []):
            with r.op(main, "aten::_local_scalar_dense", [], before=4):
                copy = r.memcpy(main, "DtoH", 4, 2, r.compute)
                r.call(main, "synchronize", max(us(4), copy.end + us(6) - main.now))

    def optimize(self) -> None:
        """Kernels of the Triton launch and of the graph have no operator; the last ones outlast the host's step."""
        r, main = self.r, self.r.main
        with r.annotation(main, "Optimizer.step#AdamW.step"):
            with r.frame("torch/optim/optimizer.py(497): wrapper"), r.frame("torch/optim/adamw.py(226): step"):
                r.kernel(main, "triton", 190, 1024, 128, word="triton")
                r.spend(main, us(6000 * r.config.scale))
                with r.op(main, "aten::_foreach_add_", [WIDTH], [], before=40, after=12):
                    r.kernel(main, "foreach_add", 6, 4, 512)
                for _ in range(2 * self.layers + 2):
                    with r.op(main, "aten::_fused_adamw_", [4 * WIDTH, WIDTH], before=46, after=14):
                        r.kernel(main, "adamw", 430, 2_048, 512)
        replay = "<built-in method replay of torch._C._CUDAGraph object at 0x7f3b4c1d3a70>"
        with r.frame("ema.py(18): update"), r.frame(replay):
            r.graph(main, "ema", 105, 2 * self.layers)


# -------------------------------------------------------------------------------------------------------- the truth


def paint(activities: list[Activity], start: int, end: int) -> dict[str, int]:
    """Colour the cells from start to end and count them: each class alone, then by priority, then none.

    Painting is the whole algorithm: a cell that two kernels cover is still one cell, and the class painted last
    (the one of highest priority) is the one that shows.
    """
    counted: dict[str, int] = {}
    canvas = bytearray(end - start)
    for colour, kind in reversed(list(enumerate(CLASSES, start=1))):
        alone = bytearray(end - start)
        for activity in activities:
            first, last = max(activity.start, start) - start, min(activity.end, end) - start
            if activity.kind == kind and first < last:
                alone[first:last] = b"\1" * (last - first)
                canvas[first:last] = bytes([colour]) * (last - first)
        counted[f"{kind}_ns"] = alone.count(1) * CELL_NS
    for colour, kind in enumerate(CLASSES, start=1):
        counted[f"{kind}_exposed_ns"] = canvas.count(colour) * CELL_NS
    counted["idle_ns"] = canvas.count(0) * CELL_NS
    counted["busy_ns"] = (end - start) * CELL_NS - counted["idle_ns"]
    return counted


def device_truth(recorder: Recorder) -> Json:
    """The time account of one device over its window (first start to last end of any work on it)."""
    activities = sorted(recorder.activities, key=lambda a: a.start)
    first, last = activities[0].start, max(a.end for a in activities)
    starts = [a.start for a in activities]
    longest = max(a.cells for a in activities)
    edges = (edge for _, start, end in recorder.step_windows for edge in (start, end))
    bounds = sorted({first, last, *(min(last, max(first, edge)) for edge in edges)})
    total: dict[str, int] = {}
    for left, right in pairwise(bounds):
        near = activities[bisect_left(starts, left - longest) : bisect_left(starts, right)]
        for key, value in paint(near, left, right).items():
            total[key] = total.get(key, 0) + value
    counts = {kind: sum(a.kind == kind for a in activities) for kind in CLASSES}
    return {
        "window_start_ns": recorder.ns(first), "window_ns": (last - first) * CELL_NS, **dict(sorted(total.items())),
        "kernels": counts["compute"] + counts["communication"], "communication_kernels": counts["communication"],
        "memcpys": counts["memcpy"], "memsets": counts["memset"], "unlaunched": sum(not a.launched for a in activities),
    }  # fmt: skip


def _kernels_by_name(activities: list[Activity]) -> Json:
    found: dict[str, dict[str, int]] = {}
    for activity in activities:
        if activity.kind in {"compute", "communication"}:
            entry = found.setdefault(activity.name, {"calls": 0, "total_ns": 0})
            entry["calls"] += 1
            entry["total_ns"] += activity.cells * CELL_NS
    return dict(sorted(found.items()))


def truth_of(recorder: Recorder) -> Json:
    """Every figure the plan fixes for one worker, in integer nanoseconds; times count from baseTimeNanoseconds."""
    own = OperatorTruth()
    for activity in recorder.activities:
        owner = recorder.operators[activity.owners[-1]] if activity.owners else own
        owner.device_self += activity.cells
        for name in set(activity.owners):
            recorder.operators[name].device_total += activity.cells
        for name in activity.modules:
            module = recorder.modules[name]
            if activity.backward:
                module.backward_device += activity.cells
            else:
                module.forward_device += activity.cells
    steps = []
    for name, start, end in recorder.step_windows:
        number = int(name.partition("#")[2])
        near = [a for a in recorder.activities if a.start < end and a.end > start]
        launched = [a for a in recorder.activities if a.step == number and a.launched]
        steps.append(
            {
                "name": name, "start_ns": recorder.ns(start), "dur_ns": (end - start) * CELL_NS,
                "device_work_launched_ns": sum(a.cells for a in launched) * CELL_NS,
                "device_in_window": paint(near, start, end),
            }
        )  # fmt: skip
    operators = {
        name: {
            "calls": o.calls, "host_self_ns": o.host_self * CELL_NS, "host_total_ns": o.host_total * CELL_NS,
            "host_runtime_ns": o.host_runtime * CELL_NS, "device_self_ns": o.device_self * CELL_NS,
            "device_total_ns": o.device_total * CELL_NS,
        }
        for name, o in sorted(recorder.operators.items())
    }  # fmt: skip
    modules = {
        name: {
            "calls": m.calls, "host_total_ns": m.host_total * CELL_NS, "forward_device_ns": m.forward_device * CELL_NS,
            "backward_device_ns": m.backward_device * CELL_NS,
        }
        for name, m in recorder.modules.items()
    }  # fmt: skip
    return {
        "rank": recorder.rank,
        "counts": recorder.counts,
        "devices": {str(recorder.device): device_truth(recorder)},
        "steps": steps,
        "operators": operators,
        "device_self_without_operator_ns": own.device_self * CELL_NS,
        "device_self_by_operator_ns": {
            NO_OPERATOR: own.device_self * CELL_NS,
            **{name: o["device_self_ns"] for name, o in operators.items() if o["device_self_ns"]},
        },
        "modules": modules,
        "kernels_by_name": _kernels_by_name(recorder.activities),
        "memory": {"peak_allocated_bytes": {"gpu": recorder.peak["gpu"], "cpu": recorder.peak["cpu"]}},
        "collectives": recorder.collectives,
    }


# -------------------------------------------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Worker:
    name: str
    file_name: str
    recorder: Recorder
    truth: Json

    def text(self) -> Iterator[str]:
        """The trace, piece by piece, so that a large one is never held as one string."""
        yield from _trace_text(self.recorder, self.file_name)


def _micros(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _rows(recorder: Recorder) -> Iterator[Row]:
    """In the order of a real file: host events of one thread after another, Python, then the device."""
    memory = sorted(recorder.memory_rows, key=lambda row: row.start_ns)
    index = 0
    for group in (recorder.autograd.rows, recorder.main.rows, memory, recorder.main.frame_rows):
        for row in group:
            if row.flow == 0 and row.args is not None:
                row.args["Ev Idx"] = index
                index += 1
            yield row
    yield from recorder.runtime_rows
    device = recorder.device
    for activity in recorder.activities:
        start = recorder.ns(activity.start)
        category = {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(activity.kind, "kernel")
        args: Json = {"External id": activity.external_id} if activity.external_id is not None else {}
        args |= {"device": device, "stream": activity.stream, "correlation": activity.correlation, **activity.args}
        dur = activity.cells * CELL_NS
        yield Row("X", category, activity.name, device, activity.stream, start, dur, args)
        if activity.launched:
            yield Row("f", "ac2g", "ac2g", device, activity.stream, start, flow=activity.correlation)
    for (name, external_id), members in recorder.annotation_activities.items():
        for stream in sorted({a.stream for a in members}):
            on_stream = [a for a in members if a.stream == stream]
            start = recorder.ns(min(a.start for a in on_stream)) - 1
            dur = recorder.ns(max(a.end for a in on_stream)) + 1 - start
            yield Row("X", "gpu_user_annotation", name, device, stream, start, dur, {"External id": external_id})


def _named_tracks(recorder: Recorder) -> Iterator[tuple[str, int, int, Json]]:
    pid = recorder.pid
    yield "process_name", pid, 0, {"name": "python"}
    yield "process_labels", pid, 0, {"labels": "CPU"}
    yield "process_sort_index", pid, 0, {"sort_index": pid}
    for gpu in range(16):
        yield "process_name", gpu, 0, {"name": "python"}
        yield "process_labels", gpu, 0, {"labels": f"GPU {gpu}"}
        yield "process_sort_index", gpu, 0, {"sort_index": 5_000_000 + gpu}
    for stream in recorder.streams:
        yield "thread_name", recorder.device, stream, {"name": f"stream {stream} "}
        yield "thread_sort_index", recorder.device, stream, {"sort_index": stream}
    for tid, title in ((recorder.main.tid, "python"), (recorder.autograd.tid, f"pt_autograd_{recorder.rank}")):
        yield "thread_name", pid, tid, {"name": f"thread {tid} ({title})"}
        yield "thread_sort_index", pid, tid, {"sort_index": tid}


def _event_text(row: Row, shift_ns: int) -> str:
    def quoted(value: Any) -> str:
        return json.dumps(value)

    head = f'  {{\n    "ph": "{row.ph}"'
    where = f'"pid": {quoted(row.pid)},\n    "tid": {quoted(row.tid)},\n    "ts": {_micros(row.start_ns + shift_ns)}'
    name = quoted(row.name)
    if row.ph in "sf":
        tail = '\n    , "bp": "e"' if row.ph == "f" else "\n    "
        labels = f'"cat": "{row.cat}",\n    "name": {name}'
        return f'{head},\n    "id": {row.flow},\n    {where},\n    {labels}{tail}\n  }}'
    args = "" if row.args is None else ", ".join(f"{quoted(key)}: {quoted(value)}" for key, value in row.args.items())
    body = f',\n    "args": {{\n      {args}\n    }}\n  }}' if row.args is not None else "\n  }"
    if row.ph == "M":
        return f'{head},\n    "name": {name},\n    {where}{body}'
    if row.ph == "i":
        category = f'\n    "cat": "{row.cat}",' if row.cat else "\n    "
        scope = "t" if row.cat else "g"
        return f'{head},{category}\n    "s": "{scope}",\n    "name": {name},\n    {where}{body}'
    dur = f',\n    "dur": {_micros(row.dur_ns)}\n    '
    return f'{head},\n    "cat": "{row.cat}",\n    "name": {name},\n    {where}{dur}{body}'


def _trace_text(recorder: Recorder, file_name: str) -> Iterator[str]:
    config = recorder.config
    shift_ns = BASE_NS if config.epoch_us else 0
    devices = [device_properties(config.arch, number) for number in range(min(config.ranks, NODE))]
    head: Json = {"schemaVersion": 1, "deviceProperties": devices, **recorder.dialect.versions}
    if config.ranks > 1:
        listed = [
            {
                "pg_name": group.name, "pg_desc": group.description, "backend_config": "cuda:nccl",
                "pg_size": len(group.ranks), "ranks": list(group.ranks),
            }
            for group in recorder.groups
        ]  # fmt: skip
        head["distributedInfo"] = {
            "backend": "nccl", "rank": recorder.rank, "world_size": config.ranks, "pg_count": len(listed),
            "pg_config": listed, "nccl_version": "2.27.5",
        }  # fmt: skip
    identity = f"{random.Random(config.seed * 31 + recorder.rank).getrandbits(128):032X}"
    head |= {"trace_id": identity, "with_stack": 1, "profile_memory": 1, "record_shapes": 1}
    head["host_name"] = "synthetic" if config.ranks <= NODE else f"synthetic-{recorder.rank // NODE}"
    head |= {"synthetic": "made by samples/synthetic.py, not recorded", "displayTimeUnit": "ms"}
    if not config.epoch_us:
        head["baseTimeNanoseconds"] = BASE_NS
    head = {key: value for key, value in (head | recorder.head).items() if value is not None}
    yield " {\n" + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    yield ',\n    "traceEvents": [\n    \n'
    begin = recorder.ns(recorder.began) - 1_000
    end = recorder.ns(max(recorder.main.now, *(a.end for a in recorder.activities), 0) + us(40))
    for name, pid, tid, args in _named_tracks(recorder):
        yield _event_text(Row("M", "", name, pid, tid, begin, args=args), shift_ns) + ",\n"
    for row in _rows(recorder):
        yield _event_text(row, shift_ns) + ",\n"
    tool = "PyTorch Profiler"
    span = Row("X", "Trace", f"{tool} (0)", "Spans", tool, begin, end - begin, {"Op count": 0})
    sort = Row("M", "", "process_sort_index", "Spans", 0, begin, args={"sort_index": 536_870_912})
    opening = Row("i", "", f"Iteration Start: {tool}", "Traces", f"Trace {tool}", begin)
    closing = Row("i", "", "Record Window End", "", "", end)
    yield ",\n".join(_event_text(row, shift_ns) for row in (span, sort, opening, closing))
    yield f'\n  ],"traceName": "/tmp/{file_name.removesuffix(".gz")}" }}'


# --------------------------------------------------------------------------------------------------- all together


def _leftover(recorder: Recorder) -> None:
    """A kernel whose launch happened before the recording began: the profiler has no call for it."""
    args = recorder.kernel_args([216, 1, 1], [128, 1, 1], False)
    recorder.last_correlation += 1
    recorder.activities.append(
        Activity(
            "compute", recorder.dialect.kernels["leftover"], us(90), us(35), recorder.compute,
            recorder.last_correlation, (), (), False, False, -1, args, None,
        )
    )  # fmt: skip


def _meet(programs: list[Meeting]) -> None:
    """Run the ranks in turn; whenever all of a group wait for a collective, tell each when the last of them can start."""
    waiting = [next(program, None) for program in programs]
    while any(waiting):
        groups = dict.fromkeys(arrival[0] for arrival in waiting if arrival is not None)
        met = 0
        for group in groups:
            arrivals = [
                arrival for rank in group.ranks if (arrival := waiting[rank]) is not None and arrival[0] == group
            ]
            if len(arrivals) == len(group.ranks):
                met += 1
                last = max(ready for _, ready in arrivals)
                for rank in group.ranks:
                    waiting[rank] = _resume(programs[rank], last)
        if not met:
            raise AssertionError("every rank of a group runs the same collectives")


def _resume(program: Meeting, value: int) -> tuple[Group, int] | None:
    try:
        return program.send(value)
    except StopIteration:
        return None


def generate(config: Config) -> list[Worker]:
    """Plan one run; the workers hold their trace as text on demand and their truth."""
    recorders = [Recorder(config, rank) for rank in range(config.ranks)]
    trainings = [Training(recorder) for recorder in recorders]
    with ExitStack() as frames:
        for recorder in recorders:
            _leftover(recorder)
            frames.enter_context(recorder.frame("train.py(88): <module>"))
            frames.enter_context(recorder.frame("train.py(80): train"))
        for number in range(config.steps):
            if config.late_rank is not None and number == config.late_steps:
                recorders[config.late_rank].forget()
            _meet([training.run_step(number) for training in trainings])
    workers = []
    for recorder in (recorder for recorder in recorders if recorder.rank not in config.absent_ranks):
        name = f"rank{recorder.rank}" if config.ranks > 1 else "worker0"
        written_at = BASE_NS + recorder.ns(recorder.main.now)
        workers.append(Worker(name, f"{name}.{written_at}.pt.trace.json", recorder, truth_of(recorder)))
    return workers


def write(workers: list[Worker], out_dir: Path, compressed: bool = True) -> list[Path]:
    """Write every worker's trace; gzip without a time stamp, so that equal plans give equal files."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for worker in workers:
        path = out_dir / (worker.file_name + (".gz" if compressed else ""))
        with path.open("wb") as raw:
            if compressed:
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    packed.writelines(piece.encode() for piece in worker.text())
            else:
                raw.writelines(piece.encode() for piece in worker.text())
        paths.append(path)
    return paths


def truth_document(workers: list[Worker], run: str) -> Json:
    config = workers[0].recorder.config
    return {
        "run": run, "synthetic": True, "config": asdict(config), "cell_ns": CELL_NS,
        "base_time_ns": BASE_NS, "priority": list(CLASSES),
        "workers": {worker.name: worker.truth for worker in workers},
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--streams", type=int, default=2, choices=(1, 2, 3, 4), help="compute, comm, copy, side")
    parser.add_argument("--scale", type=int, default=1, help="times as many layers, and steps as many times as long")
    parser.add_argument("--arch", choices=sorted(DIALECTS), default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-rank", type=int, default=None, help="rank whose kernels take longer")
    parser.add_argument("--layers", type=int, default=4, help="transformer blocks at scale 1")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="neighbouring ranks that share each layer")
    parser.add_argument(
        "--missing-rank", type=int, default=None, help="rank that lacks the kernels of some collectives"
    )
    parser.add_argument("--missing-share", type=float, default=0.1, help="share of its collectives that it lacks")
    parser.add_argument("--late-rank", type=int, default=None, help="rank whose recording begins late")
    parser.add_argument("--late-steps", type=int, default=1, help="after so many steps")
    parser.add_argument("--absent-rank", type=int, action="append", default=[], help="rank whose trace nobody kept")
    parser.add_argument("--slow-factor", type=float, default=1.25, help="how many times as long its kernels take")
    parser.add_argument("--epoch-us", action="store_true", help="epoch times, no baseTimeNanoseconds (early 2024)")
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(
        chosen.steps, chosen.ranks, chosen.streams, chosen.scale, chosen.arch, chosen.seed, chosen.slow_rank,
        slow_factor=chosen.slow_factor, epoch_us=chosen.epoch_us, layers=chosen.layers,
        tensor_parallel=chosen.tensor_parallel, missing_rank=chosen.missing_rank, missing_share=chosen.missing_share,
        late_rank=chosen.late_rank, late_steps=chosen.late_steps, absent_ranks=tuple(chosen.absent_rank),
    )  # fmt: skip
    workers = generate(config)
    for path in write(workers, chosen.out_dir, not chosen.plain):
        print(f"{path}  {path.stat().st_size:,} bytes")
    if chosen.truth is not None:
        chosen.truth.parent.mkdir(parents=True, exist_ok=True)
        chosen.truth.write_text(json.dumps(truth_document(workers, chosen.out_dir.name), indent=1) + "\n")
        print(chosen.truth)


if __name__ == "__main__":
    main()
