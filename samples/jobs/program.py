"""What the ranks of a stage do in a step, and what kernels they have for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .job import Int64, Job

SEGMENT, COLLECTIVE, SEND, RECV, WAIT = "segment", "collective", "send", "recv", "wait"


KERNELS: tuple[tuple[str, str, int], ...] = (
    ("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", 14_000),
    ("aten::mm", "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", 60_000),
    ("aten::_flash_attention_forward", "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >", 90_000),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >", 10_000),
    ("aten::mm", "nvjet_hsh_256x128_64x4_2x1_v_bz_coopB_TNN", 80_000),
    ("aten::_flash_attention_backward", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Traits<64> >", 150_000),
    ("aten::native_layer_norm_backward", "void at::native::layer_norm_grad_input_kernel_vectorized<float>", 18_000),
    ("aten::_fused_adamw_", "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >", 70_000),
    ("aten::_grouped_mm", "void cutlass::device_kernel<GroupedGemmKernel<c10::BFloat16> >", 75_000),
)  # fmt: skip
"""Operator, kernel and its nanoseconds."""
PHASES = {"forward": (0, 1, 2, 1, 3), "backward": (6, 4, 5, 4, 3), "optimizer": (7, 3), "expert": (8, 3)}
"""The kernels of a segment, again and again until there are enough."""


STREAMS = {"tp": 20, "cp": 24, "ep": 28, "dp": 32, "world": 36, "down": 40, "up": 44}
COMPUTE_STREAM = 7


DTYPES = {"BFloat16": 2, "Float": 4}
NCCL = {
    "allreduce": ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_{t}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "_allgather_base": ("c10d::_allgather_base_", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "_reduce_scatter_base": (
        "c10d::_reduce_scatter_base_", "ncclDevKernel_ReduceScatter_Sum_{t}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    ),
    "all_to_allv": ("c10d::alltoall_base_", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "send": ("c10d::send", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "recv": ("c10d::recv_", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
}  # fmt: skip
"""Dispatcher's operator and kernel by the name that PyTorch states of a collective."""


@dataclass(frozen=True)
class Op:
    """What every rank of a stage does at one place of a step."""

    kind: str
    phase: str = ""
    """Of a segment."""
    collective: str = ""
    """As PyTorch states it."""
    group: str = ""
    """Kind of group; of point-to-point calls "pp"."""
    elements: int = 0
    """Of the larger buffer on a rank; of all_to_allv the mean that a rank sends."""
    dtype: str = "BFloat16"
    waited: bool = True
    """The compute stream waits for it at once."""
    stream: str = ""
    microbatch: int = -1
    of: tuple[int, ...] = ()
    """Of a wait: the places of what it waits for."""
    parts: tuple[int, ...] = ()
    """Of a coalesced batch: the elements of its calls."""

    @property
    def calls(self) -> tuple[int, ...]:
        """Returns the elements of each call."""
        return self.parts or (self.elements,)


def program(job: Job, stage: int) -> list[Op]:
    """Returns what the ranks of a stage do in a step, in the order of their host threads: as many microbatches ahead as there
    are stages behind it, then one forward and one backward by turns."""
    ops: list[Op] = []
    last, pending, held = job.pp - 1, list[int](), list[int]()
    width, copies = 1 << 20, job.dp * job.cp

    def meet(collective: str, group: str, elements: int, dtype: str = "BFloat16") -> None:
        ops.append(Op(COLLECTIVE, collective=collective, group=group, elements=elements, dtype=dtype, stream=group))

    def message(kind: str, stream: str, microbatch: int) -> None:
        ops.append(Op(kind, "", kind, "pp", width * 2, waited=kind == RECV, stream=stream, microbatch=microbatch))

    def layers(backward: bool, gradients: bool = False) -> None:
        for layer in range(job.layers):
            ops.append(Op(SEGMENT, "backward" if backward else "forward"))
            size = width << (layer % 4)
            if job.cp > 1:
                meet("_reduce_scatter_base" if backward else "_allgather_base", "cp", size * job.cp // 4)
            if job.ep > 1:
                meet("all_to_allv", "ep", size // 2)
                ops.append(Op(SEGMENT, "expert"))
                meet("all_to_allv", "ep", size // 2)
            if job.tp > 1:
                meet("allreduce", "tp", size)
            if gradients and copies > 1:
                held.append(size * 2 // copies * copies)
                if not job.coalesced or layer == job.layers - 1:
                    pending.append(len(ops))
                    name, parts = "_reduce_scatter_base" if job.sharded else "allreduce", tuple(held)
                    ops.append(
                        Op(
                            COLLECTIVE,
                            "",
                            name,
                            "dp",
                            sum(held),
                            "Float",
                            False,
                            "dp",
                            parts=parts if job.coalesced else (),
                        )
                    )
                    held.clear()

    def forward(microbatch: int) -> None:
        if stage > 0:
            message(RECV, "down", microbatch)
        layers(False)
        if stage < last:
            message(SEND, "down", microbatch)

    def backward(microbatch: int) -> None:
        if stage < last:
            message(RECV, "up", microbatch)
        layers(True, microbatch == job.microbatches - 1)
        if stage > 0:
            message(SEND, "up", microbatch)

    ahead = min(last - stage, job.microbatches)
    for microbatch in range(job.microbatches):
        forward(microbatch)
        if microbatch >= ahead:
            backward(microbatch - ahead)
    for microbatch in range(job.microbatches - ahead, job.microbatches):
        backward(microbatch)
    if pending:
        ops.append(Op(WAIT, stream="dp", of=tuple(pending)))
    if job.ranks > 1:
        meet("allreduce", "world", 1, "Float")
    ops.append(Op(SEGMENT, "optimizer"))
    if job.sharded and pending:
        meet("_allgather_base", "dp", width * 2 // copies * copies)
    return ops


def kernels_of(job: Job, op: Op) -> Int64:
    """Returns the kernels of a segment, as positions in KERNELS."""
    count = {"optimizer": max(2, job.kernels // 2), "expert": max(1, job.kernels // 4)}.get(op.phase, job.kernels)
    return np.resize(np.array(PHASES[op.phase], np.int64), count)


BASES_NS = np.array([ns for *_, ns in KERNELS], np.int64)
