"""Floating-point operations and bytes of an operator call.

Computed from recorded shapes, types and values.

A multiplication and an addition are two operations. Each tensor counts once in the bytes: the least traffic between
the device and its memory. An operator without a formula, or whose formula needs a value that was not recorded, has
no work (None). Nothing is guessed: kernels of compilers (Triton) have no formulas, because a trace does not record
their operations.
"""

from __future__ import annotations

import math

from tb_plugin.analysis.work import matrix_formulas as matrix
from tb_plugin.analysis.work import memory_formulas as memory
from tb_plugin.analysis.work.inputs import Formula, Inputs, Work
from tb_plugin.analysis.work.matrix_formulas import Attention, attention


def work_of(name: str, shapes: str, types: str, values: str) -> Work | None:
    """Returns the work of a call. The arguments are recorded texts (JSON); "" = not recorded."""
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    try:
        found = formula(Inputs(shapes, types, values))
        return found if found is not None and math.isfinite(found.flops + found.bytes) else None
    except (OverflowError, RecursionError):  # absurd shapes, or thousands of brackets
        return None


def has_formula(name: str) -> bool:
    return name in _FORMULAS


_UNARY = (
    "relu sigmoid tanh exp exp2 log log2 log10 log1p expm1 sqrt rsqrt neg abs silu gelu reciprocal cos sin tan acos asin "
    "atan cosh sinh erf erfc erfinv clamp clamp_min clamp_max hardtanh hardsigmoid hardswish leaky_relu elu square sign "
    "sgn floor ceil round trunc frac mish softplus nan_to_num logical_not bitwise_not logit"
)
_BINARY = (
    "add sub mul div pow maximum minimum fmax fmin remainder fmod floor_divide atan2 rsub bitwise_and bitwise_or "
    "bitwise_xor copysign hypot xlogy logaddexp _prelu_kernel"
)
_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor isnan isfinite isinf signbit"
_GRADIENTS = (
    "threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward hardtanh_backward "
    "leaky_relu_backward softplus_backward hardswish_backward hardsigmoid_backward mish_backward logit_backward"
)
_RANDOM = "uniform_ normal_ random_ exponential_ bernoulli_"


def _matrix_formulas() -> dict[str, Formula]:
    return {
        "mm": matrix.product(0),
        "bmm": matrix.product(0),
        "addmm": matrix.product(1, bias=0),
        "_addmm_activation": matrix.product(1, bias=0),
        "baddbmm": matrix.product(1, bias=0),
        "mv": matrix.matrix_vector(),
        "addmv": matrix.matrix_vector(1, bias=0),
        "dot": matrix.dot,
        "vdot": matrix.dot,
        "_int_mm": matrix.product(0, out_bytes=4),
        "_scaled_mm": matrix.scaled_product((2, 3), bias=4, out_type=6),
        "_grouped_mm": matrix.grouped_product(),
        "_scaled_grouped_mm": matrix.grouped_product((2, 3), out_bytes=2),
        "_weight_int8pack_mm": matrix.linear(),
        "_weight_int4pack_mm": matrix.packed_int4,
        "cudnn_convolution": matrix.convolution(2, 3, 4),
        "cudnn_convolution_relu": matrix.convolution(4, 3, 5, bias=2),
        "cudnn_convolution_add_relu": matrix.convolution(6, 5, 7, bias=4, added=2),
        "miopen_convolution": matrix.convolution(3, 4, 5, bias=2),
        "miopen_convolution_relu": matrix.convolution(4, 3, 5, bias=2),
        "miopen_depthwise_convolution": matrix.convolution(3, 4, 5, bias=2),
        "mkldnn_convolution": matrix.convolution(3, 4, 5, bias=2),
        "_conv_depthwise2d": matrix.convolution(5, 4, 6, bias=3),
        "conv_depthwise3d": matrix.convolution(5, 4, 6, bias=3),
        "cudnn_convolution_transpose": matrix.transposed_convolution(2, 3, 4, 5, 6),
        "miopen_convolution_transpose": matrix.transposed_convolution(3, 4, 5, 6, 7, bias=2),
        "_convolution": matrix.transposed_operator,
        "convolution_backward": matrix.convolution_backward,
        "_cudnn_rnn": matrix.recurrent,
        "_flash_attention_forward": attention(Attention(0, 8, heads=2, lengths=3, window=11)),
        "_flash_attention_backward": attention(Attention(1, 11, heads=2, lengths=6, window=15), is_backward=True),
        "_efficient_attention_forward": attention(Attention(0, 9, heads=2, lengths=4)),
        "_efficient_attention_backward": attention(Attention(1, 14, heads=2, lengths=6), is_backward=True),
        "_cudnn_attention_forward": attention(Attention(0, 10, heads=1, lengths=4)),
        "_scaled_dot_product_flash_attention": attention(Attention(0, 4, heads=1)),
        "_scaled_dot_product_flash_attention_for_cpu": attention(Attention(0, 4, heads=1)),
        "_scaled_dot_product_efficient_attention": attention(Attention(0, 6, heads=1)),
        "_scaled_dot_product_cudnn_attention": attention(Attention(0, 6, heads=1)),
        "_scaled_dot_product_fused_attention_overrideable": attention(Attention(0, 5, heads=1)),
        "_scaled_dot_product_flash_attention_backward": attention(Attention(1, 11, heads=1), is_backward=True),
        "_scaled_dot_product_flash_attention_for_cpu_backward": attention(Attention(1, 7, heads=1), is_backward=True),
        "_scaled_dot_product_efficient_attention_backward": attention(Attention(1, 11, heads=1), is_backward=True),
        "_scaled_dot_product_cudnn_attention_backward": attention(Attention(1, 14, heads=1), is_backward=True),
    }


def _memory_formulas() -> dict[str, Formula]:
    found: dict[str, Formula] = {
        "native_layer_norm": memory.norm((2, 3)),
        "_fused_rms_norm": memory.norm((2,), flops=4),
        "native_group_norm": memory.norm((1, 2)),
        "native_batch_norm": memory.norm((1, 2)),
        "cudnn_batch_norm": memory.norm((1, 2)),
        "miopen_batch_norm": memory.norm((1, 2)),
        "native_layer_norm_backward": memory.two_inputs(9),
        "_fused_rms_norm_backward": memory.two_inputs(9),
        "native_group_norm_backward": memory.two_inputs(9),
        "native_batch_norm_backward": memory.two_inputs(9),
        "cudnn_batch_norm_backward": memory.two_inputs(9),
        "miopen_batch_norm_backward": memory.two_inputs(9),
        "_softmax": memory.softmax,
        "_log_softmax": memory.softmax,
        "_softmax_backward_data": memory.two_inputs(4),
        "_log_softmax_backward_data": memory.two_inputs(4),
        "native_dropout": memory.dropout,
        "_fused_dropout": memory.dropout,
        "native_dropout_backward": memory.moved((0, 1), (0,), flops=2),
        "elu_backward": memory.moved((0, 5), (0,), flops=3),
        "glu": memory.half_of_input(2),
        "glu_backward": memory.moved((0, 1), (1,), flops=3, of=1),
        "addcmul": memory.elementwise(3, 3),
        "addcdiv": memory.elementwise(3, 3),
        "where": memory.elementwise(3, 0),
        "lerp": memory.elementwise(2, 3),
        "masked_fill": memory.elementwise(2, 0),
        "copy_": memory.copy,
        "fill_": memory.fill,
        "zero_": memory.fill,
        "cat": memory.cat,
        "flip": memory.moved((0,), (0,)),
        "roll": memory.moved((0,), (0,)),
        "tril": memory.moved((0,), (0,)),
        "triu": memory.moved((0,), (0,)),
        "sum": memory.reduction(),
        "mean": memory.reduction(),
        "amax": memory.reduction(),
        "amin": memory.reduction(),
        "prod": memory.reduction(),
        "all": memory.reduction(out_bytes=1, is_axis=True),
        "any": memory.reduction(out_bytes=1, is_axis=True),
        "argmax": memory.reduction(out_bytes=8, is_axis=True),
        "argmin": memory.reduction(out_bytes=8, is_axis=True),
        "max": memory.extreme,
        "min": memory.extreme,
        "logsumexp": memory.reduction(flops=3),
        "var": memory.reduction(flops=4),
        "std": memory.reduction(flops=4),
        "var_mean": memory.reduction(flops=4, outputs=2),
        "std_mean": memory.reduction(flops=4, outputs=2),
        "norm": memory.reduction(2, flops=2),
        "linalg_vector_norm": memory.reduction(2, flops=2),
        "cumsum": memory.cumulative,
        "cumprod": memory.cumulative,
        "embedding": memory.embedding,
        "embedding_dense_backward": memory.embedding_backward,
        "_embedding_bag": memory.embedding_bag,
        "_embedding_bag_forward_only": memory.embedding_bag,
        "index_select": memory.index_select,
        "index_add_": memory.index_add,
        "gather": memory.gather,
        "scatter_": memory.scatter(),
        "scatter_add_": memory.scatter(is_sum=True),
        "sort": memory.sort,
        "argsort": memory.sort,
        "topk": memory.top_k,
        "max_pool2d_with_indices": memory.pooling(has_indices=True),
        "avg_pool2d": memory.pooling(has_indices=False),
        "max_pool2d_with_indices_backward": memory.moved((0, 7), (1,), flops=1),
        "avg_pool2d_backward": memory.moved((0,), (1,), flops=1, of=1),
        "_adaptive_avg_pool2d": memory.resized(1),
        "_adaptive_avg_pool2d_backward": memory.moved((0,), (1,), flops=1, of=1),
        "upsample_nearest2d": memory.resized(0),
        "upsample_bilinear2d": memory.resized(7),
        "mse_loss": memory.loss,
        "smooth_l1_loss": memory.loss,
        "mse_loss_backward": memory.moved((0, 1, 2), (1,), flops=3, of=1),
        "smooth_l1_loss_backward": memory.moved((0, 1, 2), (1,), flops=3, of=1),
        "nll_loss_forward": memory.class_loss,
        "nll_loss2d_forward": memory.class_loss,
        "nll_loss_backward": memory.moved((0, 2), (1,), of=1),
        "nll_loss2d_backward": memory.moved((0, 2), (1,), of=1),
        "_fused_adam_": memory.foreach((0, 1, 2, 3), (0, 2, 3, 4), 12, optional=(4,)),
        "_fused_adamw_": memory.foreach((0, 1, 2, 3), (0, 2, 3, 4), 12, optional=(4,)),
        "_fused_sgd_": memory.foreach((0, 1), (0, 2), 4, optional=(2,)),
        "_fused_adagrad_": memory.foreach((0, 1, 2), (0, 2), 7),
        "_foreach_copy_": memory.foreach((0, 1), (), 0),
        "_foreach_zero_": memory.foreach_fill,
        "_foreach_norm": memory.foreach((0,), (), 2),
        "_amp_foreach_non_finite_check_and_unscale_": memory.foreach((0,), (0,), 2),
    }
    found |= {name: memory.elementwise(1) for name in _UNARY.split()}
    found |= {name: memory.elementwise(2) for name in _BINARY.split()}
    found |= {name: memory.elementwise(2, out_bytes=1) for name in _COMPARE.split()}
    found |= {name: memory.two_inputs(3) for name in _GRADIENTS.split()}
    found |= dict.fromkeys(_RANDOM.split(), memory.fill)
    in_place = {*_UNARY.split(), *_BINARY.split(), "addcmul", "addcdiv", "lerp", "masked_fill", "cumsum", "cumprod"}
    found |= {f"{name}_": found[name] for name in in_place}
    for is_new, end in ((False, "_"), (True, "")):
        written = () if is_new else (0,)
        for name in ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]:
            found[f"_foreach_{name}{end}"] = memory.foreach((0,), written, 1, other=1, is_new=is_new)
        for name in ["sqrt", "neg", "abs", "exp", "reciprocal", "sign"]:
            found[f"_foreach_{name}{end}"] = memory.foreach((0,), written, 1, is_new=is_new)
        for name in ["addcmul", "addcdiv"]:
            found[f"_foreach_{name}{end}"] = memory.foreach((0, 1, 2), written, 3, is_new=is_new)
        found[f"_foreach_lerp{end}"] = memory.foreach((0, 1), written, 3, other=2, is_new=is_new)
    return found


def _custom_formulas() -> dict[str, Formula]:
    """Returns the formulas of operators of other packages, by their recorded names."""
    flash = Attention(0, 5, heads=2, window=6)
    packed = Attention(0, 9, heads=2, lengths=3, window=10)
    found: dict[str, Formula] = {
        "flash_attn::_flash_attn_forward": attention(flash),
        "flash_attn::_flash_attn_backward": attention(Attention(1, 11, heads=2, window=12), is_backward=True),
        "flash_attn::_flash_attn_varlen_forward": attention(packed),
        "flash_attn::_flash_attn_varlen_backward": attention(
            Attention(1, 15, heads=2, lengths=9, window=16), is_backward=True
        ),
        "aiter::_flash_attn_forward": attention(flash),
        "aiter::mha_fwd": attention(flash),
        "vllm::rocm_unquantized_gemm": matrix.linear(bias=2),
        "_C::cutlass_scaled_mm": matrix.product(1, out_bytes=2),
        "sgl_kernel::fp8_scaled_mm": matrix.product(0, out_bytes=2),
        "sgl_kernel::int8_scaled_mm": matrix.product(0, out_bytes=2),
        "aiter::rms_norm": memory.norm((1,), flops=4),
        "vllm::rocm_aiter_rms_norm": memory.norm((1,), flops=4),
        "_C::rms_norm": memory.norm((2,), image_at=1, flops=4),
        "sgl_kernel::rmsnorm": memory.norm((2,), image_at=1, flops=4),
        "aiter::rmsnorm2d_fwd_with_add_ck": memory.moved((1, 2, 4), (0, 3), flops=5),
        "aiter::add_rmsnorm": memory.moved((1, 2, 4), (0, 3), flops=5),
        "vllm::rocm_aiter_rmsnorm2d_fwd_with_add": memory.moved((0, 1, 2), (0, 1), flops=5),
        "_C::fused_add_rms_norm": memory.moved((0, 1, 2), (0, 1), flops=5),
        "sgl_kernel::fused_add_rmsnorm": memory.moved((0, 1, 2), (0, 1), flops=5),
        "_C_cache_ops::reshape_and_cache_flash": memory.cache_update,
        "sglang::store_cache": memory.cache_update,
        "fbgemm::FloatToFP8RowwiseQuantized": memory.quantized_rows(is_back=False),
        "fbgemm::FP8RowwiseQuantizedToFloat": memory.quantized_rows(is_back=True),
        "fbgemm::FloatToHFP8Quantized": memory.elementwise(1, 2, out_bytes=1),
        "fbgemm::HFP8QuantizedToFloat": memory.elementwise(1, 2, out_bytes=4),
    }
    for package in ("_C", "sgl_kernel"):
        found[f"{package}::rotary_embedding"] = memory.rotary
        for activation in ("silu", "gelu", "gelu_tanh"):
            found[f"{package}::{activation}_and_mul"] = memory.moved((1,), (0,), flops=2)
    return found


_FORMULAS = {f"aten::{name}": each for name, each in (_matrix_formulas() | _memory_formulas()).items()}
_FORMULAS |= _custom_formulas()
