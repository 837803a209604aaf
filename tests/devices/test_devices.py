"""Vendor facts: names seen in real traces and on vendors' pages, and what they must not be taken for."""

# ruff: noqa: E501  raw events and kernel names stay on one line, and JSON is full of braces
from __future__ import annotations

from time import process_time

import pytest

from tb_plugin.devices import (
    DEVICES,
    describe,
    is_collective_kernel,
    is_collective_operator,
    is_matrix_eligible,
    kind_of,
    matrix_use,
    peaks,
)
from tb_plugin.model.trace.schema import EventKind, MatrixUse


@pytest.mark.parametrize(
    ("category", "kind"),
    [("Kernel", EventKind.KERNEL), ("cuda_driver", EventKind.RUNTIME), ("XPU_DRIVER", EventKind.RUNTIME), ("overhead", EventKind.OVERHEAD),
     ("mtia_runtime", EventKind.RUNTIME), ("hpu_op", EventKind.KERNEL), ("whatever", EventKind.UNKNOWN), ("", EventKind.UNKNOWN)],
)  # fmt: skip
def test_kinds(category, kind):
    assert kind_of(category) is kind


def test_no_two_families_disagree_about_a_category():
    seen: dict[str, EventKind] = {}
    for family in DEVICES:
        for category, kind in family.categories.items():
            assert category == category.lower()
            assert seen.setdefault(category, kind) is kind


@pytest.mark.parametrize("name", [
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclWorkElem)",
    "void multimem_all_reduce_kernel<c10::BFloat16>()",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)",
    "oneccl_allreduce_pcie", "hcom_allReduce__123_0_1", "HcclAllReduce",
    "ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs<4096ul>)", "ncclSymDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(x)",
    "rcclDevKernel_x", "mscclKernel_Sum_half_LL_false", "void mscclpp::allreduce7<int>()", "ucc_ec_cuda_reduce",
    "nvshmemi_alltoall_threadgroup", "rocshmem_put", "aiter::allreduce_fusion_kernel_1stage",
    "void tensorrt_llm::kernels::twoShotAllReduceKernel<half>()", "void deep_ep::intranode::dispatch<8, 768>(int4*)",
    "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport", "quickreduce::allreduce_prototype_twoshot",
])  # fmt: skip
def test_collective_kernels(name):
    assert is_collective_kernel(name)
    assert matrix_use(name) is MatrixUse.NO


@pytest.mark.parametrize(
    "name",
    [
        "gemm",
        "void at::native::reduce_kernel<128, 4>",
        "all_reduce_in_my_dreams",
        "aten::broadcast_tensors",
        "occlusion_kernel",
        "my_nvshmemless_kernel",
        "dispatch_kernel",
        "success_ec_reduce",
    ],
)
def test_other_kernels(name):
    assert not is_collective_kernel(name)


@pytest.mark.parametrize("name", ["nccl:all_reduce", "nccl:_all_gather_base", "gloo:barrier", "c10d::allreduce_", "record_param_comms", "mpi:send", "ucc:alltoall",
                                  "xccl:all_reduce", "hccl:all_gather", "_c10d_functional::all_reduce", "symm_mem::one_shot_all_reduce", "_C_custom_ar::all_reduce"])  # fmt: skip
def test_collective_operators(name):
    assert is_collective_operator(name)


@pytest.mark.parametrize(
    "name",
    ["aten::add", "nccl", "DistributedDataParallel.forward", "my nccl:all_reduce", "_c10d_functional::wait_tensor"],
)
def test_other_operators(name):
    assert not is_collective_operator(name)


@pytest.mark.parametrize("name", [
    "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_tn",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(x)",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(x)",
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64_stage4_warpsize2x2x1_g1_tensor16x8x8_execute_kernel__5x_cudnn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "nvjet_tst_128x64_64x8_1x2_h_bz_TNT", "nvjet_sm100_tst_mma_128x256x16_2_64x5_1x2_h_bz_TNT",
    "void cutlass::device_kernel<cutlass3x_sm90_tensorop_s64x128x16gemm_bf16>()",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
    "Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0", "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS", "attn_fwd",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_64x256x128x1_swiglu", "_p_matmul_ogs_TNT_fp8e5xfp8e5xmxfp4_128x256x128x1",
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512u2_s4_et128x8_m128x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_bN_dynBatch_sm100f",
    "kernel_unified_attention_2d", "kernel_unified_attention_3d", "sage_fwd", "triton_tem_fused_mm_3",
    "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22ImplicitGemmMultistageINS_4gemm9GemmShapeILi64E",
    "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<(at::native::KReductionType)0>>()",
])  # fmt: skip
def test_matrix_kernels(name):
    assert matrix_use(name) is MatrixUse.YES


@pytest.mark.parametrize("name", [
    "volta_sgemm_128x64_nn", "ampere_sgemm_32x128_tn", "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(x)",
    "SubTensorOpWithScalar1d", "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)", "batched_transpose_16x32_half",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1", "Memset (Device)",
    "cudnn_infer_volta_scudnn_128x64_3dconv_fprop_medium_nn_v1", "igemm_fwd_gtc_nchw_fp32",
    "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64>>(Flash_bwd_params)",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_",
    "triton_poi_fused__unsafe_view_mul_silu_2", "triton_red_fused_add_mean_mul_pow_rsqrt_0", "triton_per_fused_native_layer_norm_1",
    "void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int)", "void (anonymous namespace)::clamp_position_kernel<long>(long*)",
    "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)", "void epilogue::impl::globalKernel<float, float, float, true, true>(int)",
    "void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
])  # fmt: skip
def test_kernels_without_matrix_unit(name):
    assert matrix_use(name) is MatrixUse.NO


@pytest.mark.parametrize("name", [
    "", "my_kernel", "_fwd_kernel", "triton_", "fused_recurrent_gated_delta_rule_fwd_kernel", "void gemm<float>(float const*)", "rmsnorm_gemm_fused",
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>", "void my::fused_attention_softmax<4>()", "paged_attention_v1_kernel",
])  # fmt: skip
def test_kernels_whose_names_tell_nothing_about_a_matrix_unit(name):
    assert matrix_use(name) is MatrixUse.UNKNOWN


def test_a_hostile_name_takes_no_time():
    begun = process_time()
    for text in ("_ZN7cutlass", "Cijk_a_", "flash_fwd", "void (anonymous namespace)::", "cudnn::", "fb"):
        matrix_use(text * 100_000)
        is_collective_kernel(text * 100_000)
    assert process_time() - begun < 5


@pytest.mark.parametrize(
    "name",
    [
        "aten::mm",
        "aten::mm.out",
        "MmBackward0",
        "aten::convolution_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_flash_attention_forward",
    ],
)
def test_eligible_operators(name):
    assert is_matrix_eligible(name)


@pytest.mark.parametrize("name", ["aten::add", "mm", "aten::mmm", "autograd::engine::evaluate_function: MmBackward0"])
def test_operators_that_are_not_eligible(name):
    assert not is_matrix_eligible(name)


NV = {"computeMajor": 8, "computeMinor": 6}


@pytest.mark.parametrize(
    ("properties", "vendor", "matrix"),
    [
        ({"name": "Tesla V100-DGXS-32GB", "computeMajor": 7, "computeMinor": 0}, "cuda", True),
        ({"name": "Tesla P100", "computeMajor": 6, "computeMinor": 0}, "cuda", False),
        ({"name": "NVIDIA GeForce GTX 1660 Ti", "computeMajor": 7, "computeMinor": 5}, "cuda", False),
        ({"name": "NVIDIA A10G", **NV}, "cuda", True),
        ({"name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4}, "rocm", True),
        ({"name": "AMD Instinct MI250X/MI250", "computeMajor": 9, "computeMinor": 0}, "rocm", True),
        ({"name": "AMD Instinct MI50", "computeMajor": 9, "computeMinor": 0}, "rocm", False),
        ({"name": "AMD Radeon Graphics", "computeMajor": 9, "computeMinor": 0}, "rocm", None),
        ({"name": "Intel(R) Data Center GPU Max 1550", "maxComputeUnits": 512}, "xpu", True),
        ({"name": "Intel(R) Arc(TM) B580 Graphics"}, "xpu", True),
        ({"name": "mystery"}, "", None),
        ({}, "", None),
    ],
)
def test_devices(properties, vendor, matrix):
    device = describe("0", properties, frozenset())
    assert (device.vendor, device.has_matrix_unit) == (vendor, matrix)


def test_the_trace_keys_speak_when_a_device_does_not():
    assert describe("0", {}, frozenset({"hip_runtime_version"})).vendor == "rocm"
    assert describe("0", {}, frozenset({"cuda_runtime_version"})).vendor == "cuda"


def test_own_peaks_come_first(monkeypatch):
    monkeypatch.setenv(
        peaks.VARIABLE, r"\bX90\b: fp32=44 tf32=74 fp16=148 fp8=296 bandwidth=4000; H100: fp32=1 fp16=2 bandwidth=3"
    )
    found = peaks.peak_of("Future X90")
    assert found is not None
    assert (dict(found.flops)["fp16"], found.bandwidth) == (148e3, 4000)
    assert peaks.peak_of("NVIDIA H100 80GB HBM3").bandwidth == 3
    assert peaks.peak_of("NVIDIA H200").bandwidth == 4_800


@pytest.mark.parametrize(
    ("name", "fp16", "bandwidth"),
    [
        ("NVIDIA A800-SXM4-80GB", 312, 2_039),
        ("NVIDIA A10", 125, 600),
        ("NVIDIA RTX A6000", 154.8, 768),
        ("NVIDIA GeForce RTX 3090", 71, 936),
        ("NVIDIA GeForce RTX 4090", 165.2, 1_008),
        ("NVIDIA H800", 989, 3_350),
        ("NVIDIA H800 PCIe", 756, 2_000),
        ("NVIDIA H20", 148, 4_000),
        ("NVIDIA GH200 480GB", 989, 4_000),
        ("NVIDIA GH200 144G HBM3e", 989, 4_900),
        ("NVIDIA L20", 119.5, 864),
        ("AMD Instinct MI250X", 191.5, 1_638),
        ("AMD Instinct MI210", 181, 1_638),
        ("AMD Instinct MI325X", 1_307.4, 6_000),
        ("Intel(R) Data Center GPU Max 1550", 419, 1_638),
    ],
)
def test_peaks_by_the_name_of_a_device(name, fp16, bandwidth):
    found = peaks.peak_of(name)
    assert found is not None and (found.fp16, found.bandwidth) == (fp16, bandwidth)


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H20-3e"],
)
def test_boards_with_other_rates_have_no_peaks(name):
    assert peaks.peak_of(name) is None


@pytest.mark.parametrize(
    "text",
    ["H20", "H20: fp32=1", "H20: fp32=1 fp16=x bandwidth=2", "H20: speed=1", "(: fp32=1 fp16=1 bandwidth=2",
     ": fp32=1 fp16=1 bandwidth=2", "H20: fp32=inf fp16=1 bandwidth=2"],
)  # fmt: skip
def test_wrong_peaks_are_told_and_ignored(monkeypatch, text):
    monkeypatch.setenv(peaks.VARIABLE, text)
    assert peaks.own_peaks().peaks == ()
    assert peaks.own_peaks().problem
    assert peaks.peak_of("NVIDIA H100 80GB HBM3").bandwidth == 3_350
