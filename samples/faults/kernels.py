"""The kernels of the invented training: their names, and how long they take on the invented device."""

from __future__ import annotations

from .hardware import Dims, Kernel

BF16_FLOPS, TF32_FLOPS, FP32_FLOPS = 620e3, 310e3, 52e3
"""What matrix products reach on the invented device, in operations a nanosecond."""
BANDWIDTH = 2_400.0
"""Bytes a nanosecond of kernels that are bound by memory."""
FLASH_FLOPS = 380e3
SEQUENCE, HEAD = 256, 64
CLASSES = 1_024
WORLD = 8

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{0}, std::array<char*, 3ul> >(int, at::native::{0}, std::array<char*, 3ul>)"  # noqa: E501 (one name)
ADD = "CUDAFunctor_add<c10::BFloat16>"
GEMM = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN"
GEMM_FORWARD = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_bias_execute_segment_k_off_kernel"
    "__5x_cublas"
)
LAYER_NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, "
    "c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
)
LAYER_NORM_BACKWARD = (
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, false>"
    "(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, int)"
)
LAYER_NORM_WEIGHTS = (
    "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 32u, 32u, 256u, "
    "true, true, false>(long, long, c10::BFloat16 const*)"
)
REDUCE = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, "
    "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> >, unsigned int, c10::BFloat16, 4, 4> >"
    "(at::native::ReduceOp<c10::BFloat16>)"
)
FLASH = (
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >"
    "(Flash_fwd_params)"
)
FLASH_BACKWARD = (
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, "
    "cutlass::bfloat16_t> >(Flash_bwd_params)"
)
FLASH_DOT = "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128, 128, 8> >(Flash_bwd_params)"
FLASH_CONVERT = "void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8> >(Flash_bwd_params, int)"
SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, float, "
    "at::native::(anonymous namespace)::{}ForwardEpilogue>(float*, c10::BFloat16 const*, int)"
)
SOFTMAX_BACKWARD = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, float, "
    "at::native::(anonymous namespace)::{}BackwardEpilogue>(float*, c10::BFloat16 const*, c10::BFloat16 const*, int)"
)
NLL = (
    "void at::native::(anonymous namespace)::nll_loss_{}_reduce_cuda_kernel_2d<float, float, long>(float*, float*, float "
    "const*, long const*, float const*, bool, long, long, long, long)"
)
ADAMW = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false> >(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def product_of(shape: Dims) -> int:
    """Returns how many numbers a tensor holds."""
    count = 1
    for size in shape:
        count *= size
    return count


def bandwidth_kernel(name: str, size: float, threads: int = 256) -> Kernel:
    """Returns a kernel that reads and writes so many bytes in all."""
    return Kernel(name, 2_000 + size / BANDWIDTH, max(1, round(size / 8_192)), threads)


def elementwise(functor: str, size: float) -> Kernel:
    """Returns a pointwise kernel that reads and writes so many bytes in all."""
    return bandwidth_kernel(ELEMENTWISE.format(functor), size)
