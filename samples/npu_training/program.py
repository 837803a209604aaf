"""The program of each rank, and both ranks played together."""

from __future__ import annotations

from collections.abc import Generator

from events import MIB, resumed

from .kernels import (
    ADAM,
    CAST,
    EMBEDDING,
    EMBEDDING_BACK,
    GELU,
    GELU_BACK,
    LAYOUT,
    LOSS,
    MASK,
    NONZERO,
    PRODUCT,
    PRODUCT_BACK,
    SOFTMAX,
    SOFTMAX_BACK,
    SUM_BACK,
    WEIGHT_BACK,
    Kernel,
)
from .player import Player
from .records import FIRST_STEP, KIB, NORMAL_MHZ, RANKS, SLOW_MHZ, SLOW_RANK, Block, Config, Process, Step


class Training:
    """The program of a rank: its half of the forward and the backward pass, sums, and the optimizer."""

    def __init__(self, player: Player) -> None:
        self.x = player
        self.is_first = player.p.rank == 0
        self.older = Block("", 3 * MIB, "PTA", None)  # gradients of the step before the window
        player.p.blocks.append(self.older)

    def everything(self) -> Generator[int, tuple[int, int], None]:
        x = self.x
        main = x.p.main
        # The end of a step that nobody recorded: its kernel belongs to no step.
        with x.op("Optimizer.zero_grad#AdamW.zero_grad"):
            x.launch(
                "aclnnInplaceZero",
                [Kernel("aclnnInplaceZero_ZerosLike", "ZerosLike", "AI_VECTOR_CORE", 25_000, "1024", "1024")],
            )
        x.spend(main, 60_000)
        for index in range(x.config.steps):
            x.step = FIRST_STEP + index
            slow = x.p.rank == SLOW_RANK and index == x.config.steps - 1
            with x.frame("train.py(31): train_step"), x.op(f"ProfilerStep#{x.step}") as place:
                yield from self.one_step(slow, index)
            x.p.steps.append(Step(x.step, x.p.ops[place].start_ns, x.p.ops[place].end_ns))
            x.spend(main, 30_000)
        x.p.end_ns = max(*x.now.values(), *x.free.values()) + 1_000_000

    def one_step(self, slow: bool, index: int) -> Generator[int, tuple[int, int], None]:
        x, main, kept = self.x, self.x.p.main, list[Block]()
        with x.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", stack=("train.py(22): batches",)):
            x.spend(main, 900_000)
        if self.is_first:
            if index == x.config.steps - 1:
                begin = x.spend(main, 1_300_000)
                x.p.collections.append((begin, x.now[main]))
            with x.op("aten::to", shapes=["512", "", "", ""], types=["long int", "Scalar", "", ""]):
                kept.append(x.allocate("aten::to", 4 * KIB))
                x.copy("acl_memcpy_host_to_device", 4 * KIB, waits=False)
            with x.frame("nn.Module: Embedding_0", True), x.op(
                "aten::embedding", shapes=["32000,1024", "512"], types=["float", "long int"], sequence=x.number("sequence")
            ) as embedding:  # fmt: skip
                kept.append(x.allocate("aten::embedding", 2 * MIB))
                x.launch("aclnnEmbedding", [EMBEDDING])
        else:
            yield from x.communicate("receive", "c10d::recv_", "pp", 2 * MIB, main)
        if slow:
            x.frequency(SLOW_MHZ)
        with x.frame("nn.Module: Linear_0", True):
            linear = self.linear(kept)
        if self.is_first:
            activation = self.plain("aten::gelu", "aclnnGelu", [GELU], kept)
            yield from x.communicate("send", "c10d::send", "pp", 2 * MIB, main, holds=False)
            yield from x.communicate("receive", "c10d::recv_", "pp", 2 * MIB, main)
        else:
            self.plain("aten::native_dropout", "aclnnDropoutGenMaskV2", [MASK], kept)
            activation = self.plain("aten::log_softmax", "aclnnLogSoftmax", [SOFTMAX], kept)
            self.plain("aten::nll_loss", "aclnnNLLLoss", [LOSS], kept)
        back = x.p.backward_thread
        x.now[back] = max(x.now[back], x.now[main] + 20_000)
        name, api, kernel = (
            ("GeluBackward0", "aclnnGeluBackward", GELU_BACK)
            if self.is_first
            else ("LogSoftmaxBackward0", "aclnnLogSoftmaxBackward", SOFTMAX_BACK)
        )
        self.backward(name, activation, [(api, [kernel])], kept)
        if self.is_first:
            self.backward("AddmmBackward0", linear, [("aclnnMm", [PRODUCT_BACK]), ("aclnnMm", [WEIGHT_BACK])], kept)
        else:
            self.backward("AddmmBackward0", linear, [("aclnnMm", [PRODUCT_BACK])], kept)
            yield from x.communicate("send", "c10d::send", "pp", 2 * MIB, back, holds=False)
            with x.op("aten::mm", back, ["1024,512", "512,1024"], ["float", "float"], forward_thread=1):
                x.launch("aclnnMm", [WEIGHT_BACK], back)
        if slow:
            x.frequency(NORMAL_MHZ)
        yield from x.communicate("allReduce", "c10d::allreduce_", "embd", 16 * MIB, back, holds=False)
        if self.is_first:
            self.backward("EmbeddingBackward0", embedding, [("aclnnEmbeddingDenseBackward", [EMBEDDING_BACK])], kept)
        else:
            with x.op("aten::sum", back, ["512,1024"], ["float"], forward_thread=1):
                x.launch("aclnnReduceSum", [SUM_BACK], back)
        yield from x.communicate("allReduce", "c10d::allreduce_", "embd", 32 * KIB, back, packet=4 * KIB)
        x.now[main] = max(x.now[main], x.now[back] + 15_000)
        self.optimize(kept)

    def linear(self, kept: list[Block]) -> int:
        x = self.x
        sequence = x.number("sequence")
        with x.op("aten::linear", shapes=["512,1024", "1024,1024", "1024"], types=["float", "float", "float"]):
            with x.op("aten::to", shapes=["512,1024", "", "", ""], types=["float", "Scalar", "", ""]):
                kept.append(x.allocate("aten::to", MIB))
                x.launch("aclnnCast", [CAST])
            with x.op(
                "aten::addmm", shapes=["1024", "512,1024", "1024,1024", "", ""],
                types=["float", "float", "float", "Scalar", "Scalar"], sequence=sequence,
                stack=("model.py(17): forward", "train.py(34): train_step"),
            ) as place:  # fmt: skip
                kept.append(x.allocate("aten::addmm", 2 * MIB))
                x.launch("aclnnAddmm", [LAYOUT, PRODUCT])
        return place

    def plain(self, name: str, api: str, kernels: list[Kernel], kept: list[Block]) -> int:
        x = self.x
        with x.op(name, shapes=["512,1024"], types=["float"], sequence=x.number("sequence")) as place:
            kept.append(x.allocate(name, 2 * MIB))
            x.launch(api, kernels)
        return place

    def backward(self, name: str, forward: int, launches: list[tuple[str, list[Kernel]]], kept: list[Block]) -> None:
        """Runs a node of the backward pass, for a call of the forward one."""
        x, back = self.x, self.x.p.backward_thread
        sequence = x.p.ops[forward].sequence
        with x.op(
            f"autograd::engine::evaluate_function: {name}",
            back,
            ["512,1024"],
            ["float"],
            sequence=sequence,
            forward_thread=1,
        ) as place:
            for api, kernels in launches:
                kept.append(x.allocate(name, 4 * MIB, back))
                x.launch(api, kernels, back)
        x.p.forward_backward.append((forward, place))

    def optimize(self, kept: list[Block]) -> None:
        x, main = self.x, self.x.p.main
        if self.older.end_ns is None:
            x.release(self.older)
        # The norm of the gradients: the program waits for the device, and the device then for the program.
        with (
            x.op("aten::item", shapes=[""], types=["float"]),
            x.op("aten::_local_scalar_dense", shapes=[""], types=["float"]),
        ):
            x.copy("acl_memcpy_device_to_host", 4, waits=True)
        x.spend(main, 180_000)
        with x.op("Optimizer.step#AdamW.step", stack=("train.py(41): train_step",)):
            with x.op("npu::npu_apply_adam_w", shapes=["1024,1024", "1024,1024"], types=["float", "float"]):
                if x.step == FIRST_STEP:  # states of the optimizer: nobody gives them back
                    x.allocate("npu::npu_apply_adam_w", 4 * MIB)
                    x.allocate("npu::npu_apply_adam_w", 4 * MIB)
                x.launch("aclnnApplyAdamWV2", [ADAM])
            with x.op("aten::nonzero", shapes=["1024"], types=["float"]):
                kept.append(x.allocate("aten::nonzero", 16 * KIB))
                x.launch("aclnnNonzeroV2", [NONZERO])
        for block in kept:
            x.release(block)
        x.spend(main, 8_000)


def play(config: Config) -> list[Process]:
    """Plays both ranks through, each up to its next operation of a group, at which they meet."""
    players = [Player(config, rank) for rank in range(RANKS)]
    programs = [Training(player).everything() for player in players]
    there = [next(program) for program in programs]
    while there:
        ready = max(there)
        last = there.index(ready)
        there = [at for program in programs if (at := resumed(program, (ready, last))) is not None]
        if len(there) not in (0, RANKS):
            raise AssertionError("one rank has an operation more than the other")
    return [player.p for player in players]
