"""The healthy program's model, a vision transformer in bfloat16, and autograd's way back through it.

A `Shape` says how large everything is.
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from .hardware import BF16, US, Dims, Kernel, named, share
from .kernels import (
    ADD,
    BF16_FLOPS,
    CLASSES,
    FLASH,
    FLASH_BACKWARD,
    FLASH_CONVERT,
    FLASH_DOT,
    FLASH_FLOPS,
    GEMM,
    GEMM_FORWARD,
    HEAD,
    LAYER_NORM,
    LAYER_NORM_BACKWARD,
    LAYER_NORM_WEIGHTS,
    NLL,
    REDUCE,
    SEQUENCE,
    SOFTMAX,
    SOFTMAX_BACKWARD,
    bandwidth_kernel,
    elementwise,
    product_of,
)
from .machine import Machine


@dataclass(frozen=True)
class Shape:
    """How large the program is. Dimensions are multiples of 64."""

    layers: int
    width: int
    tokens: int
    features: int = 768
    """Numbers of the input for each token."""

    @property
    def batch(self) -> int:
        return self.tokens // SEQUENCE

    @property
    def input_bytes(self) -> int:
        return self.tokens * self.features * 2


@dataclass(slots=True)
class Node:
    """What backward has to run for an operator: a node of autograd's tape."""

    name: str
    tie: tuple[int, int]
    run: Callable[[], None]
    frees: list[tuple[int, int]]
    parameters: tuple[Dims, ...]
    place: int


class Model:
    """A model on a machine. Every method is a line or a call of it."""

    def __init__(self, machine: Machine, shape: Shape, ddp: bool = False) -> None:
        self.m, self.shape, self.ddp = machine, shape, ddp
        self.base_bytes = 0  # what is allocated all the time: weights, moments, caches
        self.tape: list[Node] = []
        self.gradients: list[tuple[int, int]] = []
        self.bucket = 0
        self.collectives = 0
        self.step = 0
        self.dtype = self.product_dtype = BF16
        self.updated: list[Dims] = []  # shapes of the parameters that have a gradient
        self.weights = self._weights()
        # A network on which the all-reduces take 8 to 30 % of a step, roughly.
        step_ns = 6 * shape.tokens * self.weights / 2 / BF16_FLOPS / 0.68
        self.network = self.weights / step_ns / (0.08 + 0.22 * share(named(machine.root, "network")))

    @property
    def element(self) -> int:
        """Bytes of a number of an activation."""
        return 2 if self.dtype == BF16 else 4

    @property
    def activation(self) -> int:
        """Bytes of an activation."""
        return self.shape.tokens * self.shape.width * self.element

    def _weights(self) -> int:
        """Returns the bytes of all parameters in bfloat16."""
        width = self.shape.width
        return 2 * (self.shape.layers * 12 * width * width + width * (self.shape.features + CLASSES))

    # -- parts of the model ------------------------------------------------------------------------------

    def record(
        self, name: str, tie: tuple[int, int], run: Callable[[], None], size: int = 0, parameters: tuple[Dims, ...] = ()
    ) -> None:
        """Notes on the tape what backward has to run, and the memory that it then lets go."""
        frees = [self.m.allocate(size)] if size else []
        self.tape.append(Node(name, tie, run, frees, parameters, self.m.place))

    def gemm(self, rows: int, inner: int, columns: int, forward: bool, dtype: str) -> Kernel:
        """Returns the kernel of a product of matrices."""
        return Kernel(
            GEMM_FORWARD if forward else GEMM, 2_500 + 2 * rows * inner * columns / BF16_FLOPS,
            max(1, rows * columns // (128 * 128)), 384,
        )  # fmt: skip

    def linear(self, number: int, inputs: int, outputs: int, first: bool = False, dtype: str = "") -> None:
        """A linear layer; nothing wants the gradient of the first one's input."""
        dtype = dtype or self.product_dtype
        m, tokens = self.m, self.shape.tokens
        size = 2 if dtype == BF16 else 4
        rows, weight = (tokens, inputs), (outputs, inputs)
        tie = m.next_sequence()
        with (
            m.module("Linear", number, "torch/nn/modules/linear.py(130): forward"),
            m.frame("<built-in function linear>"),
        ):
            with m.op("aten::linear", rows, weight, (outputs,), forward=(tie[0], 0), dtype=dtype):
                with m.op("aten::t", weight, before=500, after=300, dtype=dtype):
                    pass
                with m.op("aten::addmm", (outputs,), rows, (inputs, outputs), (), (), forward=tie, dtype=dtype):
                    m.launch(self.gemm(tokens, inputs, outputs, True, dtype), call="cudaLaunchKernelExC")

            def run() -> None:
                if not first:
                    with m.op("aten::mm", (tokens, outputs), weight, dtype=dtype):
                        m.launch(self.gemm(tokens, outputs, inputs, False, dtype), call="cudaLaunchKernelExC")
                with m.op("aten::mm", (outputs, tokens), rows, dtype=dtype):
                    m.launch(self.gemm(outputs, tokens, inputs, False, dtype), call="cudaLaunchKernelExC")
                with m.op("aten::sum", (tokens, outputs), (), (), dtype=dtype):
                    m.launch(bandwidth_kernel(REDUCE, tokens * outputs * size, 512))

            self.record("AddmmBackward0", tie, run, tokens * outputs * size, (weight, (outputs,)))

    def simple(
        self, names: tuple[str, ...], dims: tuple[Dims, ...], kernel: Kernel, backward: str,
        kernels: Callable[[], tuple[tuple[str, tuple[Kernel, ...]], ...]], size: int = 0, parameters: tuple[Dims, ...] = (),
    ) -> None:  # fmt: skip
        """A chain of operators of which the innermost launches a kernel; `kernels`: those of backward, by operator."""
        m = self.m
        tie = m.next_sequence()
        outer, *inner = names
        with m.op(outer, *dims, dtype=self.dtype, forward=(tie[0], 0) if inner else tie):
            with m.op(inner[0], *dims, dtype=self.dtype, forward=tie) if inner else nullcontext():
                with m.op(inner[1], *dims, dtype=self.dtype) if len(inner) > 1 else nullcontext():
                    m.launch(self.typed(kernel))

        def run() -> None:
            for name, launched in kernels():
                with m.op(name, *dims, dtype=self.dtype):
                    for one in launched:
                        m.launch(self.typed(one))

        self.record(backward, tie, run, size, parameters)

    def typed(self, kernel: Kernel) -> Kernel:
        """Returns a kernel as it is called for the numbers of the activations."""
        if self.dtype == BF16:
            return kernel
        return replace(kernel, name=kernel.name.replace("c10::BFloat16", self.dtype))

    def layer_norm(self, number: int) -> None:
        size, width = self.activation, self.shape.width

        def backward() -> tuple[tuple[str, tuple[Kernel, ...]], ...]:
            both = (
                bandwidth_kernel(LAYER_NORM_BACKWARD, 3 * size),
                bandwidth_kernel(LAYER_NORM_WEIGHTS, 2 * size, 1024),
            )
            return (("aten::native_layer_norm_backward", both),)

        with self.m.module("LayerNorm", number, "torch/nn/modules/normalization.py(228): forward"):
            self.simple(
                ("aten::layer_norm", "aten::native_layer_norm"), (self.tokens3(),), bandwidth_kernel(LAYER_NORM, 2 * size),
                "NativeLayerNormBackward0", backward, size, ((width,), (width,)),
            )  # fmt: skip

    def tokens3(self, width: int = 0) -> Dims:
        """Returns the shape of an activation."""
        return (self.shape.batch, SEQUENCE, width or self.shape.width)

    def heads(self) -> Dims:
        """Returns the shape of queries, keys or values."""
        return (self.shape.batch, self.shape.width // HEAD, SEQUENCE, HEAD)

    def attention(self) -> None:
        """Scaled dot product attention, with flash kernels."""
        flops = 4 * self.shape.tokens * SEQUENCE * self.shape.width
        blocks = self.shape.batch * (self.shape.width // HEAD) * 2

        def backward() -> tuple[tuple[str, tuple[Kernel, ...]], ...]:
            three = (
                bandwidth_kernel(FLASH_DOT, 2 * self.activation), Kernel(FLASH_BACKWARD, 2.5 * flops / FLASH_FLOPS, blocks),
                bandwidth_kernel(FLASH_CONVERT, 2 * self.activation),
            )  # fmt: skip
            return (("aten::_scaled_dot_product_flash_attention_backward", three),)

        with self.m.frame("<built-in function scaled_dot_product_attention>"):
            names = (
                "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
                "aten::_flash_attention_forward",
            )  # fmt: skip
            kernel = Kernel(FLASH, 4_000 + flops / FLASH_FLOPS, blocks)
            self.simple(
                names,
                (self.heads(),) * 3,
                kernel,
                "ScaledDotProductFlashAttentionBackward0",
                backward,
                self.activation,
            )

    def add(self) -> None:
        """A residual connection."""
        kernel = elementwise(ADD, 3 * self.activation)
        self.simple(
            ("aten::add",), (self.tokens3(), self.tokens3(), ()), kernel, "AddBackward0", tuple, self.activation
        )

    def gelu(self, number: int) -> None:
        size = 4 * self.activation
        dims = (self.tokens3(4 * self.shape.width),)

        def backward() -> tuple[tuple[str, tuple[Kernel, ...]], ...]:
            return (("aten::gelu_backward", (elementwise("GeluBackwardCUDAKernelImpl", 3 * size),)),)

        with self.m.module("GELU", number, "torch/nn/modules/activation.py(734): forward"):
            self.simple(
                ("aten::gelu",),
                dims,
                elementwise("GeluCUDAKernelImpl", 2 * size),
                "GeluBackward0",
                backward,
                size,
            )

    def block(self, number: int) -> None:
        """One layer of the transformer."""
        width = self.shape.width
        with self.m.module("Block", number, "model.py(61): forward"):
            self.layer_norm(2 * number)
            with self.m.module("Attention", number, "model.py(28): forward"):
                self.linear(4 * number, width, 3 * width)
                self.attention()
                self.linear(4 * number + 1, width, width)
            self.add()
            self.layer_norm(2 * number + 1)
            with self.m.module("MLP", number, "model.py(47): forward"):
                self.linear(4 * number + 2, width, 4 * width)
                self.gelu(number)
                self.linear(4 * number + 3, 4 * width, width)
            self.add()

    def extra(self) -> None:
        """What else the model computes before its head: nothing."""

    def loss(self) -> None:
        tokens, size = (self.shape.tokens, CLASSES), self.shape.tokens * CLASSES * self.element

        def softmax() -> tuple[tuple[str, tuple[Kernel, ...]], ...]:
            kernel = bandwidth_kernel(SOFTMAX_BACKWARD.format("LogSoftMax"), 3 * size, 1024)
            return (("aten::_log_softmax_backward_data", (kernel,)),)

        def nll() -> tuple[tuple[str, tuple[Kernel, ...]], ...]:
            return (("aten::nll_loss_backward", (Kernel(NLL.format("backward"), 22 * US, 1, 1024),)),)

        with self.m.module("CrossEntropyLoss", 0, "torch/nn/modules/loss.py(1310): forward"):
            kernel = bandwidth_kernel(SOFTMAX.format("LogSoftMax"), 2 * size, 1024)
            names = ("aten::cross_entropy_loss", "aten::log_softmax", "aten::_log_softmax")
            self.simple(names, (tokens, tokens[:1]), kernel, "LogSoftmaxBackward0", softmax, size)
            kernel = Kernel(NLL.format("forward"), 24 * US, 1, 1024)
            self.simple(("aten::nll_loss_nd", "aten::nll_loss"), (tokens, tokens[:1]), kernel, "NllLossBackward0", nll)

    def forward(self) -> None:
        self.body()
        self.loss()

    def body(self) -> None:
        """The model without its loss."""
        with self.m.module("VisionTransformer", 0, "model.py(93): forward"):
            self.linear(4 * self.shape.layers, self.shape.features, self.shape.width, first=True)
            for number in range(self.shape.layers):
                self.block(number)
            self.extra()
            self.layer_norm(2 * self.shape.layers)
            self.linear(4 * self.shape.layers + 1, self.shape.width, CLASSES)

    # -- backward ----------------------------------------------------------------------------------------

    def backward(self) -> None:
        """``loss.backward()``: main waits while autograd's thread runs the tape backwards."""
        m = self.m
        with m.frame("torch/_tensor.py(625): backward"), m.frame("torch/autograd/__init__.py(354): backward"):
            with m.frame("<built-in method run_backward of torch._C._EngineBase object at 0x7f3b754cea40>"):
                with m.on(m.autograd):
                    self.run_tape()
                    self.after_backward()

    def run_tape(self) -> None:
        m, prefix = self.m, "autograd::engine::evaluate_function: "
        outer = m.place
        for node in reversed(self.tape):
            m.place = node.place  # what runs backward belongs to the place of its forward
            with m.at(node.name):
                with m.op(prefix + node.name, before=900, after=600, backward=(node.tie[0], 0)):
                    with m.op(node.name, before=900, after=500, backward=node.tie):
                        node.run()
                for block in node.frees:
                    m.release(block)
                for dims in node.parameters:
                    self.accumulate(dims)
        m.place = outer
        self.tape.clear()

    def accumulate(self, dims: Dims) -> None:
        """The gradient of a parameter is there."""
        m = self.m
        with m.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", before=700, after=400):
            with m.op("torch::autograd::AccumulateGrad", dims, before=900, after=500):
                self.gradients.append(m.allocate(product_of(dims) * 2))
                self.updated.append(dims)
                self.reduce(product_of(dims))

    def reduce(self, elements: int) -> None:
        """A gradient of so many numbers is there: a hook for DDP."""

    def after_backward(self) -> None:
        """The last gradient is there."""
