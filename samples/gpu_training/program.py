"""The invented program: a GPT-like model, trained with AdamW under DistributedDataParallel."""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event: the nesting is the picture)

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack

from events import Json

from .config import BATCH, LENGTH, NO_SEQUENCE, TOKENS, VOCABULARY, WIDTH, Meeting, us
from .recorder import Gradient, Recorder


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
