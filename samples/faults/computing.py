"""Faults of what the device computes: kernels that are slow, needless, too many or one after another."""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .faulty import Faulty, fault
from .hardware import BF16, COMPUTE, FLOAT, GAP, GIB, SIDE, SMS, Dims, Kernel
from .kernels import (
    ADD,
    BANDWIDTH,
    BF16_FLOPS,
    FP32_FLOPS,
    GEMM,
    GEMM_FORWARD,
    HEAD,
    SEQUENCE,
    SOFTMAX,
    SOFTMAX_BACKWARD,
    TF32_FLOPS,
    bandwidth_kernel,
    elementwise,
    product_of,
)
from .model import Shape

CAST = "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#10}"
SGEMM = ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x128_tn")
TF32_GEMM = (
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_warpsize2x2x1_tensor16x8x8_execute_kernel"
    "__5x_cublas"
)
ALIGN1 = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x2_{}_align1"
SIMT = "cutlass_80_simt_sgemm_bf16_128x64_8x5_{}_align1"
CUTLASS = "void cutlass::Kernel2<{0}>({0}::Params)"
DROPOUT = (
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 4, bool>"
    "(at::cuda::detail::TensorInfo<c10::BFloat16 const, unsigned int>, unsigned int, float, at::PhiloxCudaState)"
)
SCAN = (
    "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*, float const*, unsigned int, "
    "unsigned int, unsigned int, float, std::plus<float>)"
)
POINTWISE = (
    ("aten::mul", "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"),
    ("aten::add", ADD),
    ("aten::tanh", "tanh_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}"),
    ("aten::sub", "CUDAFunctorOnSelf_add<float>"),
    ("aten::pow", "pow_tensor_scalar_kernel_impl<float, float>"),
    ("aten::sigmoid", "sigmoid_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}"),
)
ADAM = (
    ("aten::mul_", "AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >", 8),
    ("aten::lerp_", "lerp_scalar_kernel(at::TensorIteratorBase&, c10::Scalar const&)::{lambda()#2}", 12),
    ("aten::mul_", "AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >", 8),
    ("aten::addcmul_", "addcmul_cuda_scalar_cpu_tensor2_kernel::{lambda()#2}", 16),
    ("aten::sqrt", "sqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}", 8),
    ("aten::div", "BUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >", 8),
    ("aten::add_", "CUDAFunctorOnSelf_add<float>", 8),
    ("aten::addcdiv_", "addcdiv_cuda_kernel(at::TensorIteratorBase&, c10::Scalar const&)::{lambda()#2}", 16),
)
"""Operators of Adam written as a loop over parameters; bytes that each moves for a number."""


@fault("redundant_casts")
class RedundantCasts(Faulty):
    """The same float32 weight is cast to bfloat16 again and again in each step. Mended, once."""

    also = ("unfused_kernels",)
    line = "model.py(52): shared_projection"

    def block(self, number: int) -> None:
        m, dims = self.m, (8 * self.shape.width, self.shape.width)
        kernel = elementwise(CAST, product_of(dims) * 6)
        extra = max(1, round(self.part("redundant_casts") / (kernel.ns + GAP) / self.shape.layers))
        casts = (1 if number == 0 else 0) + (0 if self.mended else extra)
        for index in range(casts):
            first = len(m.device_rows)
            with m.frame(RedundantCasts.line), m.op("aten::to", dims, (), (), dtype=FLOAT, before=900, after=300):
                with m.op("aten::_to_copy", dims, dtype=FLOAT, before=900, after=300):
                    with m.op("aten::copy_", dims, dims, dtype=FLOAT, before=1_500, after=700):
                        m.launch(kernel)
            if number or index:  # one is needed
                self.planted["line"] = RedundantCasts.line
                self.count_work(m.device_rows[first:])
        super().block(number)


@fault("redundant_copies")
class RedundantCopies(Faulty):
    """The layout of a tensor is changed by a copy, again and again. Mended, nothing copies it."""

    also = ("unfused_kernels",)
    line = "model.py(55): merge_heads"

    def attention(self) -> None:
        super().attention()
        m, dims = self.m, self.heads()
        kernel = elementwise(CAST, 2 * self.activation)
        copies = max(1, round(self.part("redundant_copies") / (kernel.ns + GAP) / self.shape.layers))
        for _ in range(0 if self.mended else copies):
            first = len(m.device_rows)
            with m.frame(RedundantCopies.line), m.op("aten::contiguous", dims, ()), m.op("aten::clone", dims, ()):
                with m.op("aten::copy_", dims, dims, ()):
                    m.launch(kernel)
            self.planted["line"] = RedundantCopies.line
            self.count_work(m.device_rows[first:])


@fault("unfused_attention")
class UnfusedAttention(Faulty):
    """Attention as matmul, division, softmax and matmul. Mended, scaled_dot_product_attention with flash kernels."""

    line = "model.py(33): attention"

    def begin(self) -> None:
        super().begin()
        if not self.mended:
            self.m.reserved += 4 * GIB  # scores and probabilities are kept for the backward pass

    def attention(self) -> None:
        if self.mended:
            super().attention()
            return
        first, nodes = len(self.m.device_rows), len(self.tape)
        queries = self.heads()
        scores = (*queries[:2], SEQUENCE, SEQUENCE)
        size = product_of(scores) * 2
        with self.m.frame(UnfusedAttention.line):
            self._matmul(queries, (*queries[:2], HEAD, SEQUENCE), size)
            self.simple(
                ("aten::div",), (scores, ()), elementwise("BUnaryFunctor<c10::BFloat16>", 2 * size), "DivBackward0",
                lambda: (("aten::div", (elementwise("BUnaryFunctor<c10::BFloat16>", 2 * size),)),), size,
            )  # fmt: skip
            backward = bandwidth_kernel(SOFTMAX_BACKWARD.format("SoftMax"), 3 * size, 1024)
            self.simple(
                ("aten::softmax", "aten::_softmax"), (scores, ()),
                bandwidth_kernel(SOFTMAX.format("SoftMax"), 2 * size, 1024), "SoftmaxBackward0",
                lambda: (("aten::_softmax_backward_data", (backward,)),), size,
            )  # fmt: skip
            if self.drawn("unfused_attention: dropout", 0, 1) < 0.5:
                masked = bandwidth_kernel(DROPOUT, 2.5 * size)
                self.simple(
                    ("aten::dropout", "aten::native_dropout"), (scores, (), ()), masked, "NativeDropoutBackward0",
                    lambda: (("aten::native_dropout_backward", (elementwise("masked_scale_kernel", 2.5 * size),)),), size,
                )  # fmt: skip
            self._matmul(scores, queries, size)
        for node in self.tape[nodes:]:
            node.run = self.counted(node.run)
        self.planted["line"] = UnfusedAttention.line
        self.count("layers")
        self.count_work(self.m.device_rows[first:])

    def _matmul(self, left: Dims, right: Dims, size: int) -> None:
        """A batched product that reads or writes all scores."""
        m = self.m
        tie = m.next_sequence()
        flops = 2 * product_of(left) * right[-1]
        kernel = Kernel(GEMM, 3_000 + flops / BF16_FLOPS * 2 + size / BANDWIDTH, product_of(left[:2]) * 4, 384)
        flat = [(shape[0] * shape[1], *shape[2:]) for shape in (left, right)]
        with m.op("aten::matmul", left, right, forward=(tie[0], 0)), m.op("aten::bmm", *flat, forward=tie):
            m.launch(kernel, call="cudaLaunchKernelExC")

        def run() -> None:
            for _ in range(2):
                with m.op("aten::bmm", *flat):
                    m.launch(kernel, call="cudaLaunchKernelExC")

        self.record("BmmBackward0", tie, run, product_of(left[:-1]) * right[-1] * 2)


class _Products(Faulty):
    """Some products of matrices take kernels that are slower than others would be."""

    def _count(self, kernel: Kernel, ratio: float) -> Kernel:
        self.count("products")
        self.planted["ratio_percent"] = round(100 * ratio)
        return kernel


@fault("matrix_units")
class MatrixUnits(_Products):
    """All is float32, so that products run outside of Tensor Cores. Mended, products are bfloat16, as autocast has them."""

    also = ("tf32_off",)

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]  # handed on as it came
        self.dtype = FLOAT
        self.product_dtype = BF16 if self.mended else FLOAT

    @staticmethod
    def fit(shape: Shape, draw: Callable[[str], float], device_ns: int) -> Shape:
        return replace(shape, tokens=max(2_048, round(shape.tokens / 6 / 2_048) * 2_048))

    def gemm(self, rows: int, inner: int, columns: int, forward: bool, dtype: str) -> Kernel:
        kernel = super().gemm(rows, inner, columns, forward, dtype)
        if self.mended:
            return kernel
        ns = 2_500 + 2 * rows * inner * columns / FP32_FLOPS
        return self._count(replace(kernel, name=SGEMM[forward], ns=ns, threads=256), BF16_FLOPS / FP32_FLOPS)


@fault("tf32_off")
class Tf32Off(_Products):
    """A projection stays in float32, and TF32 is off: it runs outside of Tensor Cores. Mended, kernels of TF32."""

    also = ("matrix_units",)

    def extra(self) -> None:
        super().extra()
        slowdown = 1 - FP32_FLOPS / TF32_FLOPS
        per_column = 6 * self.shape.tokens * self.shape.width / FP32_FLOPS * slowdown
        columns = max(64, round(self.part("tf32_off") / per_column / 64) * 64)
        with self.m.frame("model.py(97): project"):
            self.linear(4 * self.shape.layers + 2, self.shape.width, columns, dtype=FLOAT)

    def gemm(self, rows: int, inner: int, columns: int, forward: bool, dtype: str) -> Kernel:
        kernel = super().gemm(rows, inner, columns, forward, dtype)
        if dtype != FLOAT:
            return kernel
        flops = 2 * rows * inner * columns
        if self.mended:
            return replace(kernel, name=TF32_GEMM, ns=2_500 + flops / TF32_FLOPS)
        slow = replace(kernel, name=SGEMM[forward], ns=2_500 + flops / FP32_FLOPS, threads=256)
        return self._count(slow, TF32_FLOPS / FP32_FLOPS)


@fault("matrix_alignment")
class MatrixAlignment(_Products):
    """A projection to an odd number of columns takes kernels for any alignment. Mended, padded to a multiple of 8."""

    def slowdown(self) -> float:
        """How many times as long the kernels for any alignment take."""
        return 3.2 if self.drawn("matrix_alignment: kind", 0, 1) < 0.5 else 9.0

    def extra(self) -> None:
        super().extra()
        ratio = self.slowdown()
        per_column = 6 * self.shape.tokens * self.shape.width / BF16_FLOPS * (ratio - 1)
        padded = max(64, round(self.part("matrix_alignment") / per_column / 8) * 8)
        with self.m.frame("model.py(98): classify"):
            self.linear(4 * self.shape.layers + 2, self.shape.width, padded if self.mended else padded - 3)

    def gemm(self, rows: int, inner: int, columns: int, forward: bool, dtype: str) -> Kernel:
        kernel = super().gemm(rows, inner, columns, forward, dtype)
        if not (rows % 8 or inner % 8 or columns % 8):
            return kernel
        ratio = self.slowdown()
        name = (ALIGN1 if ratio < 5 else SIMT).format("tn" if forward else "nn")
        ns = 2_500 + 2 * rows * inner * columns / BF16_FLOPS * ratio
        return self._count(replace(kernel, name=CUTLASS.format(name), ns=ns, threads=128), ratio)


@fault("slow_matrix_products")
class SlowMatrixProducts(Faulty):
    """Products with 144 tiles need two rounds of all SMs. The mended program has products with 132 tiles: one round."""

    side, depth = 128, 8_192
    calls = 11

    def extra(self) -> None:
        super().extra()
        m = self.m
        wave = 2 * self.side**2 * self.depth * SMS / BF16_FLOPS
        groups = max(1, round(self.part("slow_matrix_products") / ((self.calls - 1) * wave)))
        high, wide, calls = (11, 12, self.calls + 1) if self.mended else (12, 12, self.calls)
        tiles = high * wide
        kernel = Kernel(GEMM_FORWARD, 2_500 + -(-tiles // SMS) * wave, tiles, 384)
        left, right = (self.side * high, self.depth), (self.depth, self.side * wide)
        with m.frame("model.py(99): mix"):
            for _ in range(groups * calls):
                first = len(m.device_rows)
                with m.op("aten::mm", left, right):
                    m.launch(kernel, call="cudaLaunchKernelExC")
                if not self.mended:
                    self.count_work(m.device_rows[first:])


@fault("unfused_optimizer")
class UnfusedOptimizer(Faulty):
    """AdamW as a loop over parameters: eight small kernels for each. Mended, a few for all."""

    also = ("unfused_kernels", "launch_bound")

    def update(self, dims: Dims) -> None:
        if self.mended:
            super().update(dims)
            return
        m, first = self.m, len(self.m.device_rows)
        for shape in self.updated:
            for name, functor, moved in ADAM:
                with m.op(name, shape, shape, (), dtype=FLOAT, before=2_000, after=900):
                    m.launch(elementwise(functor, product_of(shape) * moved))
        self.count_work(m.device_rows[first:])


@fault("unfused_kernels")
class UnfusedKernels(Faulty):
    """Chains of small pointwise kernels between the products. Mended, one fused kernel for each chain."""

    line = "model.py(84): gate"
    length = 7

    def add(self) -> None:
        super().add()
        m, first = self.m, len(self.m.device_rows)
        # On a part of the activation, so that the kernels are short.
        ns = min(30_000, max(3_500, self.part("unfused_kernels") / (2 * self.shape.layers) / (self.length - 1)))
        columns = max(8, round((ns - 2_000) * BANDWIDTH / (self.shape.tokens * 4) / 8) * 8)
        dims = self.tokens3(columns)
        size = 2 * product_of(dims) * 2
        with m.frame(UnfusedKernels.line):
            if self.mended:
                name = "triton_poi_fused_add_mul_pow_sigmoid_sub_tanh_0"
                with m.op(name, dims, dims, before=3_000):
                    m.launch(bandwidth_kernel(name, size, 128), call="cuLaunchKernel")
                return
            for index in range(self.length):
                name, functor = POINTWISE[index % len(POINTWISE)]
                with m.op(name, dims, ()):
                    m.launch(elementwise(functor, size))
        self.planted["line"] = UnfusedKernels.line
        self.count("chains")
        self.count_work(m.device_rows[first:])


@fault("one_stream")
class OneStream(Faulty):
    """Two branches that need nothing of each other, each for a few blocks, run on one stream. Mended, on two."""

    def extra(self) -> None:
        super().extra()
        m, count = self.m, 8
        kernel = Kernel(SCAN, self.part("one_stream") / count, 40)
        dims = (40, 8_192)
        if self.mended:
            m.wait(SIDE, COMPUTE)
        for branch in range(2):
            stream = SIDE if self.mended and branch else COMPUTE
            first = len(m.device_rows)
            with m.module("Branch", branch, "model.py(104): forward"):
                for _ in range(count):
                    with m.op("aten::cumsum", dims, (), dtype=FLOAT):
                        m.launch(kernel, stream)
            if branch and not self.mended:
                self.count_work(m.device_rows[first:])
        if self.mended:
            m.wait(COMPUTE, SIDE)
