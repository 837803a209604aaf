"""The rules about classes of kernels: ours, a person's own, and what is told about lines that are no rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tb_plugin.devices.kernel_classes import (
    MOST_RULES,
    VARIABLE,
    built_in_rules,
    matching_rules,
    own_rules,
    parse_rules,
    regex_problem,
)
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.schema import KernelClass
from tb_plugin.service.workers.user_rules import class_rules


def classes(names: list[str], of_operator: bool = False) -> list[str]:
    rules = [rule for rule in built_in_rules() if rule.of_operator == of_operator]
    found = matching_rules(names, rules).tolist()
    return ["" if place < 0 else rules[place].kernel_class.name.lower() for place in found]


KERNELS = {
    "Cijk_Ailk_Bljk_BBS_BH_MT32x32x64_MI16x16x16x1_SN": "gemm",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(P)": "gemm",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN": "gemm",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas": "gemm",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(T)": "gemm",
    "void splitKreduce_kernel<float, float>(cublasSplitKParams<float>)": "gemm",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_execute_kernel_cudnn": "convolution",
    "cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1": "convolution",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32": "convolution",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl": "convolution",
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(P)": "convolution",
    "flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64> >(Flash_bwd_params, int)": "attention",
    "void pytorch_flash::flash_fwd_kernel<T>(Flash_fwd_params)": "attention",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(P)": "attention",
    "attn_fwd": "attention",
    "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16>(P)": "attention",
    "void (anonymous namespace)::store_kvcache<2048l>(StoreKVCacheParams)": "attention",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>(P)": "normalisation",
    "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1": "convolution",
    "batched_transpose_16x64_pack_1x4_ediv_1x2_half": "copy",
    "transpose_CNHW2NCHW_V2_2D_WG_off64": "copy",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": "normalisation",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256E": "normalisation",
    "void (anonymous namespace)::softmax_warp_forward<float>(float*)": "normalisation",
    "triton_red_fused_add_mean_mul_pow_rsqrt_0": "normalisation",
    "triton_red_fused_linalg_vector_norm_0": "reduction",
    "triton_poi_fused_convolution_native_layer_norm_relu_3": "elementwise",
    "triton_tem_fused_addmm_4": "gemm",
    "triton_for_fused_1": "optimizer",
    "void rotary_embedding_kernel<c10::BFloat16, true>(long const*)": "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)": "elementwise",
    "SubTensorOpWithScalar1d": "elementwise",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(R)": "reduction",
    "void cub::DeviceRadixSortOnesweepKernel<P>(int*)": "reduction",
    "void at::native::sbtopk::gatherTopK<float, unsigned int, 1, false>(T)": "reduction",
    "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)": "reduction",
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>(T)": "embedding",
    "void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)": "embedding",
    "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1<c10::Half>(T)": "embedding",
    "fused_moe_kernel": "moe",
    "_finalize_matmul_scatter_bf16": "moe",
    "_combined_routing_compute": "moe",
    "_combined_routing_memset": "moe",
    "_sum_bitmatrix_rows": "moe",
    "void tensorrt_llm::kernels::finalizeMoeRoutingKernel<half, half>(half const*)": "moe",
    "bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s5_et128x8_m128x8x64_c1x1x1_rM_TN_transOut_schPd2x1x2x3_bN_dynB_sm100f": "moe",
    "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128_s5_et128x8_m128x8x16_c1x1x1_rM_TN_sm100f": "gemm",
    "void flashinfer::quantize_with_block_size<half>(T)": "elementwise",
    "void vllm::cvt_fp16_to_fp4_quantize_with_block_size<attention::Layout>(T)": "elementwise",
    "sage_quant_kernel": "elementwise",
    "void at::native::upsample_nearest2d_out_frame<float>(float const*)": "elementwise",
    "_sage_attn_fwd": "attention",
    "_p_matmul_ogs_NNT_bf16xbf16xmxfp4_64x256x128x1_swiglu": "moe",
    "void moe_align_block_size_kernel<int>(int*)": "moe",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<M, FusedAdamMathFunctor<float, 4> >(M)": "optimizer",
    "void multi_tensor_apply_kernel<M, at::native::(anonymous namespace)::CopyFunctor<int, long, 2, 1, 1>, C>(M)": "copy",
    "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(I)::{lambda()#1}>(int)": "copy",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)": "copy",
    "batched_transpose_32x16_half": "copy",
    "aclnnMm_MatMulV3Common_MatMulV3": "gemm",
    "aclnnMatmul_TransData_TransData": "copy",
    "trans_TransData_10": "copy",
    "aclnnMm_MatMulCommon_MemSet": "copy",
    "NonZero_MemSet": "copy",
    "atomic_memset-1_68_1413001_1_0": "copy",
    "aclnnInplaceCopy_CastAiCore_Cast": "copy",
    "Conv2DBackpropFilter6": "convolution",
    "trans_Cast_5": "copy",
    "aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad": "attention",
    "aclnnEmbeddingDenseBackward_SortAiCore_Sort": "reduction",
    "aclnnEmbeddingDenseBackward_EmbeddingDenseGradV2_EmbeddingDenseGradV2": "embedding",
    "aclnnApplyAdamWV2_ApplyAdamWV2_ApplyAdamWV2": "optimizer",
    "aclnnForeachAddListV2_ForeachAddListV2_ForeachAddList": "optimizer",
    "aclnnBatchNorm_BNTrainingReduceV2_BNTrainingReduce": "normalisation",
    "LayerNormGradV3": "normalisation",
    "RmsNormGrad": "normalisation",
    "NonZero": "reduction",
    "aclnnLinalgVectorNorm_LpNormV2_LpNormV2": "reduction",
    "ReduceSum7": "reduction",
    "StatelessDropOutGenMask/DSASTATELESSGENBITMASK": "elementwise",
    "aclnnThresholdBackward_ReluGrad_ReluGrad": "elementwise",
    "RotaryPositionEmbeddingGrad": "elementwise",
    "MoeInitRoutingV2": "moe",
    "MatrixMul": "gemm",
    "ConvolutionBackwardFilterV2": "convolution",
    "BatchNormBackward": "normalisation",
    "PoolingBackwardV1": "reduction",
    "IndexingSetOneHot": "embedding",
    "SWITCH_GT0": "elementwise",
    "TypeCvtV2": "copy",
    "void megdnn::cuda::elemwise_intl::cuda_kern<megdnn::cuda::ElemArithKern<sub, 2, float, void> >(P)": "elementwise",
    "void megdnn::cuda::elemwise_intl::cuda_kern<megdnn::cuda::ElemArithKern<broadcast, 2, float, void> >(P)": "copy",
    "resolve_future_token_ids_kernel": "",
    "graph_k0": "",
}  # fmt: skip
OPERATORS = {
    "aten::mm": "gemm",
    "MmBackward0": "gemm",
    "fbgemm::permute_2D_sparse_data": "",
    "aten::convolution_backward": "convolution",
    "vllm::unified_attention_with_output": "attention",
    "aten::native_layer_norm_backward": "normalisation",
    "aten::index_select": "embedding",
    "aten::_foreach_add_": "optimizer",
    "aten::sum": "reduction",
    "aten::_to_copy": "copy",
    "aten::add_": "elementwise",
    "GeluBackward0": "elementwise",
    "my::thing": "",
}


def test_names_of_kernels_and_operators() -> None:
    assert dict(zip(KERNELS, classes(list(KERNELS)), strict=True)) == KERNELS
    assert dict(zip(OPERATORS, classes(list(OPERATORS), of_operator=True), strict=True)) == OPERATORS


def test_another_engine_agrees_on_ours() -> None:
    for rule in built_in_rules():
        assert regex_problem(rule.regex) == "", rule.text
        for name in [*KERNELS, *OPERATORS]:
            assert (matching_rules([name], [rule])[0] == 0) == bool(re.search(rule.regex, name)), (rule.text, name)


def test_the_first_rule_wins_and_an_own_one_goes_before() -> None:
    (first, second), problems = own_rules(RuleFile("# mine\n\nMoE = ^a\n gemm=a.*b\n"))
    assert problems == ()
    assert (first.kernel_class, second.kernel_class) == (KernelClass.MOE, KernelClass.GEMM)
    assert second.text == f"{VARIABLE}, line 4: gemm = a.*b"
    assert matching_rules(["ab", "cab", "c"], [first, second]).tolist() == [0, 1, -1]
    assert matching_rules(["attn_fwd"], [*own_rules(RuleFile("other = attn"))[0], *built_in_rules()]).tolist() == [0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gemm", "not of the form class = regex"),
        ("gemm =", "not of the form class = regex"),
        ("gem = x", "unknown class: gem; known are other, gemm,"),
        ("gemm = (", "missing )"),
        ("gemm = a(?!b)", "invalid perl operator"),
        ("gemm = (?:a{1000}){1000}", "invalid repetition size"),
        ("gemm = x*", "matches every name"),
        ("gemm = " + "a" * 3000, "longer than 2,000 characters"),
    ],
)
def test_a_line_that_is_no_rule_is_told_with_its_number(line: str, told: str) -> None:
    rules, (problem,) = parse_rules(f"copy = ok\n{line}\n", True)
    assert [rule.regex for rule in rules] == ["ok"]
    assert problem.startswith("line 2: ")
    assert told in problem


def test_no_more_rules_than_are_looked_at_in_time() -> None:
    rules, problems = parse_rules("gemm = x\n" * (MOST_RULES + 5), True)
    assert (len(rules), problems) == (MOST_RULES, (f"line {MOST_RULES + 1} and later lines: more than 1,000 rules",))


def test_rules_that_are_too_much_at_once_still_match() -> None:
    rules, problems = parse_rules("".join(f"gemm = x{{900}}{i}$\n" for i in range(600)), True)
    assert problems == ()
    assert matching_rules(["x" * 900 + "7", "x"], rules).tolist() == [7, -1]


def test_the_file_is_read_by_the_process_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert class_rules() == RuleFile()
    path = tmp_path / "classes.txt"
    path.write_text("gemm = mine")
    monkeypatch.setenv(VARIABLE, str(path))
    assert class_rules() == RuleFile("gemm = mine")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing"))
    assert own_rules(class_rules()) == ((), (f"{tmp_path / 'missing'} cannot be read: No such file or directory",))
    large = tmp_path / "large"
    large.write_text("#" * 300_000)
    monkeypatch.setenv(VARIABLE, str(large))
    assert class_rules().problem == f"{large} is larger than 256 KiB"


def test_what_was_said_of_a_name_is_said_again_by_the_same_rules_only() -> None:
    one, other = (own_rules(RuleFile(text))[0] for text in ("gemm = a\ncopy = b", "copy = b\ngemm = a"))
    assert matching_rules(["ab", "b", "c"], one).tolist() == [0, 1, -1]
    assert matching_rules(["ab", "b", "c"], other).tolist() == [0, 0, -1]
    many = [f"{'abc'[i % 3]}{i}" for i in range(5_000)]
    for names in (many, many[:1500], many[1000:2900], ["b" * 600, "b" * 600, *many[:9]]):
        told = [0 if "a" in name else 1 if "b" in name else -1 for name in names]
        assert matching_rules(names, one).tolist() == matching_rules(names, one).tolist() == told
