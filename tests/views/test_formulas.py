"""FLOPs and bytes of operators, by hand: lookups, losses, pools, packed attention, optimizers, servers."""

from __future__ import annotations

import json

import pytest

from tb_plugin.analysis.work.formulas import work_of
from tests.builders import kernel, part, trace

F32, F16, BF16, FP8, I8, I32, I64, BOOL = (
    "float", "c10::Half", "c10::BFloat16", "c10::Float8_e4m3fn", "signed char", "int", "long int", "bool",
)  # fmt: skip


def texts(shapes, types, values=None):
    return json.dumps(shapes), json.dumps(types), json.dumps(values) if values else ""


def values(count, **of):
    """Values of ``count`` inputs: at2="[0]" is the third."""
    return [str(of.get(f"at{i}", "")) for i in range(count)]


PACKED = [[20, 4, 8], [20, 2, 8], [20, 2, 8], [3], [3]]
"""Two sequences of 10 tokens, 4 heads of width 8; two heads share one key."""


@pytest.mark.parametrize(
    ("name", "shapes", "types", "concrete", "flops", "moved"),
    [
        ("_int_mm", [[3, 4], [4, 5]], [I8, I8], None, 120, 12 + 20 + 4 * 15),
        # out_dtype 6 = float; one scale per tensor
        ("_scaled_mm", [[3, 4], [4, 5], [], []], [FP8, FP8, F32, F32], values(8, at6="6"), 120, 12 + 20 + 4 * 15 + 8),
        ("_grouped_mm", [[6, 4], [2, 4, 5], [2]], [BF16, BF16, I32], None, 2 * 6 * 4 * 5, 2 * (24 + 40 + 30)),
        ("_grouped_mm", [[3, 8], [8, 5], [2]], [BF16, BF16, I32], None, 2 * 3 * 8 * 5, 2 * (24 + 40 + 2 * 15)),
        ("_grouped_mm", [[2, 3, 4], [4, 10], [2]], [BF16, BF16, I32], None, 2 * 3 * 4 * 10, 2 * (24 + 40 + 30)),
        ("_grouped_mm", [[2, 3, 4], [2, 4, 5]], [BF16, BF16], None, 2 * 2 * 3 * 4 * 5, 2 * (24 + 40 + 30)),
        ("_weight_int8pack_mm", [[3, 4], [5, 4], [5]], [BF16, I8, BF16], None, 120, 2 * 12 + 20 + 2 * 15),
        ("_weight_int4pack_mm", [[3, 64], [2, 4, 32, 4], [], [2, 16, 2]], [BF16, I32, "Scalar", BF16], None,
         2 * 3 * 64 * 16, 2 * 192 + 4 * 1024 + 2 * 64 + 2 * 48),
        ("addmv", [[3], [3, 4], [4]], [F32] * 3, None, 24 + 3, 4 * (3 + 12 + 4 + 3)),
        ("cudnn_convolution_add_relu",  # bias and another tensor are added
         [[1, 2, 8, 8], [8, 2, 3, 3], [1, 8, 8, 8], [], [8]], [F16] * 3 + ["", F16],
         values(9, at5="[1, 1]", at6="[1, 1]", at7="[1, 1]"), 512 * 36 + 2 * 512, 2 * (128 + 144 + 512 + 8 + 512)),
        ("cudnn_convolution_transpose", [[1, 6, 4, 4], [6, 2, 3, 3]], [F32] * 2,
         values(10, at2="[1, 1]", at3="[1, 1]", at4="[2, 2]", at5="[1, 1]", at6="1"),
         2 * 96 * 18, 4 * (96 + 108 + 128)),
        # the packed lengths are known because each is as long as the longest
        ("_flash_attention_forward", PACKED, [F16] * 3 + [I32] * 2, values(11, at5="10", at6="10", at8="False"),
         2 * 2 * 4 * 100 * 16, 2 * (2 * 640 + 2 * 320)),
        ("_flash_attention_forward", [*PACKED[:3], [2], [2]], [F16] * 3 + [I32] * 2,
         values(11, at5="20", at6="20", at8="True"), 2 * 4 * 210 * 16, 2 * (2 * 640 + 2 * 320)),
        ("_efficient_attention_forward", [[2, 10, 4, 8]] * 3, [F16] * 3, values(14, at9="1"),
         2 * 8 * 55 * 16, 2 * 4 * 640),
        ("_cudnn_rnn", [[5, 2, 3], [[16, 3], [16, 4], [16], [16]]], [F32, [F32] * 4], values(16, at7="4", at13="False"),
         2 * 10 * (48 + 64), 4 * (30 + 48 + 64 + 32 + 40)),
        ("embedding_dense_backward", [[2, 3, 8], [2, 3]], [F32, I64], values(5, at2="10"), 48, 4 * 48 + 8 * 6 + 4 * 80),
        ("_embedding_bag", [[10, 3], [5], [2]], [F32, I64, I64], values(9, at7="False"), 15, 4 * 21 + 8 * 7),
        ("index_select", [[4, 6], [], [5]], [F16, "Scalar", I64], values(3, at1="-2"), 0, 2 * 2 * 30 + 8 * 5),
        ("gather", [[4, 6], [], [4, 2]], [F32, "Scalar", I64], None, 0, 8 * (2 * 4 + 8)),
        ("scatter_", [[4, 6], [], [4, 2], []], [F32, "Scalar", I64, "Scalar"], None, 0, 8 * (4 + 8)),
        ("scatter_add_", [[4, 6], [], [4, 2], [4, 2]], [F32, "Scalar", I64, F32], None, 8, 8 * (3 * 4 + 8)),
        ("index_add_", [[4, 6], [], [2], [2, 6]], [F32, "Scalar", I64, F32], None, 12, 3 * 48 + 16),
        ("sort", [[4, 6]], [F16], None, 0, 24 * (2 + 2 + 8)),
        ("topk", [[4, 6]], [F32], values(5, at1="2", at2="-1"), 0, 4 * 24 + 8 * 12),
        ("max", [[4, 6]], [F32], values(3, at1="1"), 24, 4 * 24 + 4 * 12),
        ("max", [[4, 6], [6]], [F32, F32], None, 24, 4 * (24 + 6 + 24)),
        ("argmax", [[4, 6]], [F32], values(3, at1="0"), 24, 4 * 24 + 8 * 6),
        ("all", [[4, 6]], [BOOL], [""], 24, 24 + 1),
        ("var", [[4, 6]], [F32], values(2, at1="True"), 96, 4 * 25),
        ("linalg_vector_norm", [[4, 6]], [F32], values(5, at2="[0]"), 48, 4 * 30),
        ("cumsum", [[4, 6]], [I32], None, 24, 24 * (4 + 8)),
        ("max_pool2d_with_indices", [[1, 2, 8, 8]], [F32],
         values(6, at1="[3, 3]", at2="[2, 2]", at3="[1, 1]", at4="[1, 1]", at5="False"), 32 * 9, 4 * 128 + 32 * 12),
        ("avg_pool2d", [[1, 2, 5, 5]], [F32], values(7, at1="[2]", at2="[]", at3="[0]", at4="True"),
         18 * 4, 4 * (50 + 18)),
        ("max_pool2d_with_indices_backward", [[1, 2, 4, 4], [1, 2, 8, 8], [], [], [], [], [], [1, 2, 4, 4]],
         [F32, F32, "", "", "", "", "", I64], None, 32, 32 * 12 + 4 * 128),
        ("upsample_nearest2d", [[1, 2, 4, 4]], [F32], values(4, at1="[8, 8]"), 0, 4 * (32 + 128)),
        ("mse_loss", [[4, 6], [4, 6]], [F32, F32], values(3, at2="1"), 72, 4 * 49),
        ("nll_loss_forward", [[4, 6], [4]], [F32, I64], None, 4, 4 * 5 + 8 * 4),
        ("glu", [[4, 6]], [F32], None, 24, 4 * 36),
        ("_fused_sgd_", [[[6]], [[6]], []], [[F32], [F32], "TensorList"], None, 24, 3 * 24),
        ("_fused_adam_", [[[6]]] * 5, [[F32]] * 5, None, 72, 9 * 24),  # amsgrad
        ("_foreach_mul", [[[6], [4]], []], [[F32, F32], "Scalar"], None, 10, 2 * 40),
        ("_foreach_zero_", [[[6], [4]]], [[F32, F32]], None, 0, 40),
    ],
)  # fmt: skip
def test_by_hand(name, shapes, types, concrete, flops, moved):
    found = work_of(f"aten::{name}", *texts(shapes, types, concrete))
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("name", "shapes", "types", "concrete", "flops", "moved"),
    [
        # TraceLens: 0.94388224 GFLOP and 28.623046875 MiB
        ("vllm::rocm_unquantized_gemm", [[32, 2880], [5120, 2880], [5120]], [BF16] * 3, None,
         943_882_240, 28.623046875 * 2**20),
        ("flash_attn::_flash_attn_forward", [[2, 10, 4, 8]] * 3, [F16] * 3,
         values(11, at5="True", at6="-1", at7="-1"), 2 * 8 * 55 * 16, 2 * 4 * 640),
        ("flash_attn::_flash_attn_varlen_forward", PACKED, [F16] * 3 + [I32] * 2,
         values(15, at5="10", at6="10", at9="False", at10="-1", at11="-1"), 2 * 8 * 100 * 16, 2 * (2 * 640 + 2 * 320)),
        ("_C::rms_norm", [[4, 6], [4, 6], [6]], [F16] * 3, None, 4 * 24, 2 * (48 + 6)),
        ("_C::fused_add_rms_norm", [[4, 6], [4, 6], [6]], [F16] * 3, None, 5 * 24, 2 * (4 * 24 + 6)),
        ("aiter::add_rmsnorm", [[4, 6]] * 4 + [[6]], [F16] * 5, None, 5 * 24, 2 * (4 * 24 + 6)),
        ("_C::silu_and_mul", [[4, 6], [4, 12]], [F16] * 2, None, 2 * 24, 2 * 72),
        ("_C::rotary_embedding", [[3], [3, 8], [3, 4], [], [100, 4]], [I64, F16, F16, "Scalar", F16], None,
         3 * 36, 2 * 2 * 36 + 3 * 8 + 2 * 12),
        ("_C_cache_ops::reshape_and_cache_flash", [[3, 2, 4], [3, 2, 4], [9, 16, 2, 4], [9, 16, 2, 4], [3]],
         [F16, F16, FP8, FP8, I64], None, 0, 2 * 48 + 48 + 24),
        ("fbgemm::FloatToFP8RowwiseQuantized", [[10, 256]], [F32], None, 2 * 2560, 4 * 2560 + 10 * 264),
        ("fbgemm::FP8RowwiseQuantizedToFloat", [[10, 264]], ["unsigned char"], None, 2 * 2560, 4 * 2560 + 10 * 264),
    ],
)  # fmt: skip
def test_operators_of_other_packages(name, shapes, types, concrete, flops, moved):
    found = work_of(name, *texts(shapes, types, concrete))
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("name", "shapes", "types", "concrete"),
    [
        # lengths differ, and their starts are not recorded
        ("aten::_flash_attention_forward", PACKED, [F16] * 3 + [I32] * 2, values(11, at5="12", at6="12", at8="False")),
        ("flash_attn::_flash_attn_forward", [[2, 10, 4, 8]] * 3, [F16] * 3, values(11, at5="True", at6="128", at7="0")),
        ("aten::_grouped_mm", [[6, 4], [2, 3, 5], [2]], [BF16, BF16, I32], None),
        ("aten::_grouped_mm", [[3, 8], [8, 5]], [BF16, BF16], None),
        ("aten::embedding_dense_backward", [[2, 3, 8], [2, 3]], [F32, I64], None),
        ("aten::topk", [[4, 6]], [F32], None),
        ("aten::sum", [[4, 6]], [F32], values(2, at1="7")),  # the type of the output
        ("aten::max_pool2d_with_indices", [[1, 2, 8, 8]], [F32], values(6, at1="[9, 9]", at5="False")),
        ("aten::mse_loss", [[4, 6], [4]], [F32, F32], values(3, at2="1")),
        ("triton_poi_fused_add_0", [[4, 6], [4, 6]], [F32, F32], None),
        ("vllm::unified_attention_with_output", [[32, 64, 64], [32, 8, 64], [32, 8, 64]], [BF16] * 3, None),
    ],
)  # fmt: skip
def test_unknown_work_is_not_guessed(name, shapes, types, concrete):
    assert work_of(name, *texts(shapes, types, concrete)) is None


CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<at::native::(anonymous namespace)::"
APPLY = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, "


@pytest.mark.parametrize(
    ("name", "shapes", "kernel_name", "moved"),
    [
        ("aten::cat", [[[2, 3], [4, 3]], []], f"{CAT}OpaqueType<2u>, unsigned int, 1, 128, 1>", 2 * 2 * 18),
        ("aten::_foreach_add_", [[[6], [4]], [[6], [4]]], f"{APPLY}BinaryOpListAlphaFunctor<float, 2, 2, 0>>", 3 * 40),
        ("aten::_foreach_add_", [[[6], [4]], [[6], [4]]], f"{APPLY}CopyFunctor<int, long, 2, 1, 1>>", None),
        ("aten::cat", [[[2, 3], [4, 3]], []], "my_cat", None),
    ],
)
def test_kernel_names_contain_the_types_of_lists(name, shapes, kernel_name, moved):
    """PyTorch records ``TensorList`` without element types."""
    builder = trace().op(name, 0, 9, shapes=shapes, **{"Input type": ["TensorList"] * len(shapes)})
    builder.launches(kernel(kernel_name, 5, 20))
    found = part(builder.device(0).table(), "roofline")
    assert [row["moved_bytes"] for row in found.frames["roofline"].data.to_pylist()] == (
        [] if moved is None else [moved]
    )
