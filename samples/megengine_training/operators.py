"""The operators of the program: parameters, kernels, gradients."""

from __future__ import annotations

from events import Json

KERNELS = {
    "convolution": "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::"
    "WinogradDataParams<float, float>)",
    "gemm": "ampere_sgemm_128x64_nn",
    "elementwise": "void megdnn::cuda::elemwise_intl::cuda_kern<megdnn::cuda::ElemArithKern<{0}, 2, float, void> >"
    "(megdnn::cuda::elemwise_intl::OpCallerUniform<megdnn::cuda::ElemArithKern<{0}, 2, float, void>, 2>, unsigned int)",
    "norm": "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>(cudnnTensorStruct, float const*)",
    "norm_backward": "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float)",
    "reduce": "void megdnn::cuda::reduce_intern::kern_largeC<megdnn::cuda::reduce::SumOp<float, float, float>, 32, 4>"
    "(megdnn::cuda::reduce::SumOp<float, float, float>, unsigned int, unsigned int, unsigned int)",
    "pooling": "void cudnn::pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float>, 0, false>(cudnnTensorStruct)",
    "pooling_backward": "void cudnn::pooling_bw_kernel_max<float, float, cudnn::maxpooling_func<float>, 0>(cudnnTensor)",
    "indexing": "void megdnn::cuda::indexing_one_hot::kern<float, int>(float const*, int const*, float*, unsigned int)",
    "nccl": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
}
_SEARCHED = {"strategy": "HEURISTIC", "workspace_limit": "18446744073709551615"}
_NORM = {
    "avg_factor": "0.100000", "bias": "0.000000", "epsilon": "0.000010", "fwd_mode": "TRAINING",
    "param_dim": "DIM_1C11", "scale": "1.000000",
}  # fmt: skip
_CONVOLUTION = {
    "compute_mode": "DEFAULT", "dilate_h": "1", "dilate_w": "1", "format": "NCHW", "mode": "CROSS_CORRELATION",
    "pad_h": "1", "pad_w": "1", "sparse": "DENSE", **_SEARCHED, "stride_h": "1", "stride_w": "1",
}  # fmt: skip
_POOLING = {
    "format": "NCHW", "mode": "MAX", "pad_h": "0", "pad_w": "0", **_SEARCHED, "stride_h": "2", "stride_w": "2",
    "window_h": "2", "window_w": "2",
}  # fmt: skip
_PRODUCT = {
    "compute_mode": "DEFAULT", "dimA": "2", "dimB": "2", "format": "DEFAULT", **_SEARCHED, "transposeA": "0",
    "transposeB": "1",
}  # fmt: skip


def _reduce(mode: str) -> Json:
    return {"axis": "1", "data_type": "DEFAULT", "keepdim": "0", "mode": mode}


_DEFINED: dict[str, tuple[Json, tuple[tuple[str, int], ...]]] = {
    "Convolution": (_CONVOLUTION, (("convolution", 210_000), ("gemm", 340_000))),
    "ConvolutionBackwardDataV2": (_CONVOLUTION, (("gemm", 390_000),)),
    "ConvolutionBackwardFilterV2": (_CONVOLUTION, (("convolution", 170_000), ("gemm", 310_000))),
    "BatchNorm": (_NORM, (("norm", 95_000),)),
    "BatchNormBackward": (_NORM, (("norm_backward", 130_000),)),
    "Pooling": (_POOLING, (("pooling", 41_000),)),
    "PoolingBackwardV1": (_POOLING, (("pooling_backward", 52_000),)),
    "MatrixMul": (_PRODUCT, (("gemm", 88_000),)),
    "Reshape": ({"axis": "1", "shape": "{std::vector}"}, ()),
    "Reduce": (_reduce("SUM"), (("reduce", 19_000),)),
    "IndexingOneHot": ({"axis": "1", "ndim": "2"}, (("indexing", 6_100),)),
    "IndexingSetOneHot": ({"axis": "1", "ndim": "2"}, (("indexing", 7_300),)),
    "CollectiveComm": (
        {"backend": "nccl", "dtype": "Float32", "is_root": "0", "mode": "ALL_REDUCE_SUM"},
        (("nccl", 240_000),),
    ),
}
"""Parameters and kernels (with what each takes) of the operators; every other one is a mode of Elemwise."""
_ELEMENTWISE_NS = 23_000


def defined(name: str) -> tuple[Json, tuple[tuple[str, int], ...]]:
    """Returns the parameters of an operator and its kernels: name and nanoseconds."""
    params, kernels = _DEFINED.get(name, ({"mode": name}, (("elementwise", _ELEMENTWISE_NS),)))
    return params, tuple((KERNELS[kernel].replace("{0}", name.lower()), ns) for kernel, ns in kernels)


GRADIENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "Convolution": (("ConvolutionBackwardDataV2", "input"), ("ConvolutionBackwardFilterV2", "weight")),
    "BatchNorm": (("BatchNormBackward", "input weight"),),
    "RELU": (("SWITCH_GT0", "input"),),
    "Pooling": (("PoolingBackwardV1", "input"),),
    "Reshape": (("Reshape", "input"),),
    "MatrixMul": (("MatrixMul", "input"), ("MatrixMul", "weight")),
    "ADD": (("Reduce", "weight"),),  # the gradient of the other one is the gradient that came
    "SUB": (("NEGATE", "input"),),
    "EXP": (("MUL", "input"),),
    "LOG": (("TRUE_DIV", "input"),),
    "Reduce": (("Broadcast", "input"),),
    "IndexingOneHot": (("IndexingSetOneHot", "input"),),
}
"""What the gradient of an operator runs, and whose gradient each makes."""
MODES_OF_ELEMWISE = {"RELU", "ADD", "SUB", "EXP", "LOG"}
