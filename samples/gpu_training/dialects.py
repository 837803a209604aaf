"""What differs between the files of two vendors."""

from __future__ import annotations

from dataclasses import dataclass

from events import H100, H100_LIMITS, Json


@dataclass(frozen=True)
class Dialect:
    """What differs between the files of two vendors: names and a few keys, not the structure."""

    stream_ids: tuple[int, ...]
    calls: dict[str, tuple[str, str, int]]  # our word -> category, name, cbid or cid
    kernels: dict[str, str]
    copies: dict[str, str]
    versions: Json
    call_id_key: str


def _elementwise(functor: str) -> str:
    return (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, std::array<char*, 3ul> >"
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
    if arch == "cuda":
        return {"id": number, **H100, **H100_LIMITS}
    return {
        "id": number, "name": "Synthetic MI300X (not a recording)", "totalGlobalMem": 206_141_652_992,
        "computeMajor": 9, "computeMinor": 4, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65_536, "warpSize": 64, "sharedMemPerBlock": 65_536, "numSms": 304,
        "maxSharedMemoryPerMultiProcessor": 65_536,
    }  # fmt: skip
