"""Faults of trainings that are spread over many devices: shards, stages of a pipeline, offloaded states, experts."""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from events import Json

from .faulty import Faulty, fault
from .hardware import COMM, COMPUTE, US, Kernel
from .kernels import WORLD, elementwise

NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)"
GROUPED = "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<GemmUniversal<GroupProblemShape>>>"


class _Spread(Faulty):
    ddp_only = True

    def reduce(self, elements: int) -> None:
        """Nothing is reduced but what the fault itself does."""

    def talk(
        self, operator: str, work: str, collective: str, kernel: str, elements: int, ns: float, more: Json | None = None
    ) -> None:
        """Ranks exchange something on the stream for it, after all work that the device has been given."""
        m = self.m
        self.collectives += 1
        said: Json = {
            "Collective name": collective, "dtype": "BFloat16", "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": WORLD, "In split size": "[]", "Out split size": "[]", "Process Group Name": "1",
            "Process Group Description": "mesh", "Process Group Ranks": str(list(range(WORLD))), **(more or {}),
        }  # fmt: skip
        with m.op(operator, (elements,), before=3_000, after=1_500):
            with m.op("record_param_comms", (elements,), extra=said | {"Rank": 0, "Seq": self.collectives}):
                with m.annotation(work):
                    m.wait(COMM, COMPUTE)
                    first = len(m.device_rows)
                    m.launch(Kernel(NCCL.format(kernel), ns, 24, 544, said), COMM, "cudaLaunchKernelExC")
                    self.talked = m.device_rows[first:]


@fault("sharding")
class Sharding(_Spread):
    """Parameters of a layer are gathered when it is called. Mended, while the layer before it computes."""

    also = ("communication",)

    def block(self, number: int) -> None:
        m = self.m
        if not self.mended:
            with m.annotation(f"FSDP::pre_forward (layers.{number})"):
                self._gather(number)
                m.wait(COMPUTE, COMM)
        elif number + 1 < self.shape.layers:
            with m.annotation(f"FSDP::forward_prefetch for layers.{number + 1}"):
                self._gather(number + 1)
        before = len(self.tape)
        super().block(number)
        first = self.tape[before]
        run = first.run

        def reduced() -> None:
            run()
            self._post(number)

        first.run = reduced

    def _post(self, number: int) -> None:
        with self.m.annotation(f"FSDP::post_backward_reduce (layers.{number})"):
            self._reduce_scatter()

    def _size(self) -> int:
        return 12 * self.shape.width * self.shape.width

    def _gather(self, number: int) -> None:
        ns = max(30 * US, self.part("sharding") / self.shape.layers)
        with self.m.annotation(f"FSDP::all_gather (layers.{number})"):
            kernel = "AllGather_RING_LL"
            self.talk("c10d::_allgather_base_", "nccl:_all_gather_base", "_allgather_base", kernel, self._size(), ns)
        if not self.mended:
            self.count("gathers", len(self.talked))
            self.count("gather_ns", sum(row.end - row.start for row in self.talked))

    def _reduce_scatter(self) -> None:
        kernel = "ReduceScatter_Sum_bf16_RING_LL"
        self.talk(
            "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base",
            "_reduce_scatter_base",
            kernel,
            self._size(),
            60 * US,
        )
        if not self.mended:
            self.count("reduces", len(self.talked))
            self.count("reduce_ns", sum(row.end - row.start for row in self.talked))

    def after_backward(self) -> None:
        self.m.wait(COMPUTE, COMM)


@fault("pipeline")
class Pipeline(_Spread):
    """A stage waits for its input and for its gradient. Mended, both are there."""

    also = ("pipeline_bubble",)

    def forward(self) -> None:
        with self.m.annotation("Forward 0"):
            self._receive()
            super().forward()
            self._send()

    def run_tape(self) -> None:
        with self.m.annotation("Backward 0"):
            self._receive()
            super().run_tape()
            self._send()

    def _receive(self) -> None:
        ns = 20 * US if self.mended else 20 * US + self.part("pipeline") / 2
        elements = self.shape.tokens * self.shape.width
        self.talk("c10d::recv_", "nccl:recv 1<-0", "recv", "SendRecv", elements, ns, {"Group size": 2})
        self.m.wait(COMPUTE, COMM)
        self._count("receives")

    def _send(self) -> None:
        elements = self.shape.tokens * self.shape.width
        self.talk("c10d::send", "nccl:send 1->2", "send", "SendRecv", elements, 20 * US, {"Group size": 2})
        self._count("sends")

    def _count(self, what: str) -> None:
        if not self.mended:
            self.count(what, len(self.talked))
            self.count("device_ns", sum(row.end - row.start for row in self.talked))


@fault("offloading")
class Offloading(Faulty):
    """Gradients go to the host and parameters come back in the optimizer's step. Mended, they stay on the device."""

    also = ("offload_copies",)

    def update(self, dims: tuple[int, ...]) -> None:
        super().update(dims)
        if self.mended:
            return
        m = self.m
        size = int(self.part("offloading") * 52.0 / 8)
        for _ in range(4):
            for way, operator in (("DtoH", "aten::copy_"), ("HtoD", "aten::copy_")):
                first = len(m.device_rows)
                with m.op(operator, dims, dims):
                    m.copy(way, size)
                self.count_copies(m.device_rows[first:])


@fault("experts")
class Experts(_Spread):
    """One rank gets most tokens, and all wait for it. Mended, tokens go evenly."""

    also = ("expert_imbalance", "communication")

    def block(self, number: int) -> None:
        super().block(number)
        m, width = self.m, self.shape.width
        skew = self.drawn("experts: skew", 1.6, 3.0)
        mean = self.shape.tokens // WORLD
        busiest = int(mean * skew)
        others = (self.shape.tokens - busiest) // (WORLD - 1)
        sizes = [mean] * WORLD if self.mended else [busiest, *[others] * (WORLD - 1)]
        flops = max(self.part("experts") / self.shape.layers / (skew - 1), 20 * US)
        with m.module("MoE", number, "model.py(140): forward"):
            with m.op("aten::topk", self.tokens3()):
                m.launch(elementwise("MoE topk_softmax", self.activation))
            self._exchange(sizes, 30 * US)
            first = len(m.device_rows)
            with m.op("aten::_grouped_mm", (self.shape.tokens, width), (8, width, 4 * width)):
                m.launch(Kernel(GROUPED, flops, 132, 384), call="cudaLaunchKernelExC")
            if not self.mended:
                self.count("experts_ns", sum(row.end - row.start for row in m.device_rows[first:]))
            waits = 0 if self.mended else flops * (max(sizes) * WORLD / sum(sizes) - 1)
            self._exchange(sizes, 30 * US + waits)
        if not self.mended:
            self.planted["busiest"] = max(sizes) * WORLD * 1_000 // sum(sizes)

    def _exchange(self, sizes: list[int], ns: float) -> None:
        more: Json = {"In split size": str(sizes), "Out split size": str(sizes)}
        elements = sum(sizes) * self.shape.width
        self.talk("c10d::alltoall_base_", "nccl:all_to_all", "all_to_allv", "SendRecv", elements, ns, more)
        self.m.wait(COMPUTE, COMM)
        if not self.mended:
            self.count("exchanges", len(self.talked))
