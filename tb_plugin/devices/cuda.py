"""NVIDIA: CUPTI's categories, NCCL, Tensor Cores."""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.trace.schema import EventKind as Kind

COLLECTIVE_KERNELS = (
    # ncclKernel_AllReduce_RING_LL_..., ncclDevKernel_SendRecv(...), ncclSymkDevKernel_AllGather_LLMC (symmetric memory),
    # ncclAllReduceRingLLKernel_sum_f32 (2.4), which also appear wrapped in a namespace or signature; not ncclFoo inside
    # another word.
    r"(?:^|[^\w])_?nccl(?:Symk?)?(?:Dev)?Kernel",
    r"(?:^|[^\w])nccl(?:AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)\w*",
    # Symmetric-memory kernels of PyTorch (one_shot_all_reduce_kernel, multimem_all_gather_kernel ...), NVSHMEM, MSCCL++, UCC.
    r"(?:one_shot|two_shot|multimem)_(?:all_reduce|all_gather|reduce_scatter)",
    r"(?:^|[^\w])_?nvshmemi?_\w+",
    r"(?:^|[^\w])_?mscclpp(?:_\w+|::)",
    r"(?:^|[^\w])_?ucc_(?:ec|tl|mc)_\w+",
    # Custom all-reduces: vLLM and SGLang, TensorRT-LLM, FlashInfer; DeepEP's exchange of tokens between experts.
    r"cross_device_reduce_(?:1|2)stage",
    r"(?:one|two)ShotAllReduceKernel",
    r"allreduce_fusion_kernel",
    r"deep_ep::\w+::(?:cached_notify_)?(?:dispatch|combine)",
)

# The classic list (torch-tb-profiler, Volta and Turing). Case-sensitive: SubTensorOpWithScalar1d is no tensorop.
_VOLTA_TURING = (
    r"h884", r"s884", r"h1688", r"s1688", r"hmma", r"i8816", r"16816", r"dgrad_1x1_stride_2x2",
    r"first_layer_wgrad_kernel", r"conv1x1", r"conv2d_c1_k1", r"direct_group", r"xmma_implicit_gemm",
    r"xmma_sparse_conv", r"xmma_warp_specialized_implicit_gemm", r"xmma_gemm", r"xmma_sparse_gemm", r"c1688",
)  # fmt: skip
_AMPERE = (
    r"tensorop_",  # CUTLASS operator class: cutlass_80_tensorop_s1688gemm; its opposite is cutlass_80_simt_sgemm
    r"[shi]16816", r"[si]16832", r"s161616",  # mma.m16n8k16, .m16n8k32 and wmma m16n16k16 in CUTLASS and cuBLAS names
    r"i8832", r"b1688", r"d884",  # integer, binary and double precision instruction shapes
    r"tensor\d+x\d+x\d+",  # cuDNN: sm80_xmma_dgrad_implicit_gemm_..._tensor16x8x8_execute
    r"xmma_(?:fprop|dgrad|wgrad)",  # cuDNN convolutions built on the mma instructions
)  # fmt: skip
_HOPPER_BLACKWELL = (
    r"wgmma", r"gmma", r"GMMA",  # warp-group instructions, lower case in cuBLAS, upper case in CUTLASS 3 templates
    r"sm(?:90|100|103|120)_xmma",  # cuBLAS and cuDNN kernels of these architectures
    r"cutlass3x_sm\d+_tensorop",  # CUTLASS 3 operator class
    r"nvjet_",  # cuBLAS 12.x's generated Hopper and Blackwell products: nvjet_tst_..., nvjet_sm100_...
    r"tcgen05", r"umma", r"UMMA",  # Blackwell's instruction and its CUTLASS name
    r"deep_gemm::", r"fp8_gemm_kernel",  # DeepGEMM exists for wgmma and tcgen05 alone
)  # fmt: skip
_ATTENTION = (
    # flash_fwd_kernel, flash_bwd_dq_dk_dv_loop_...; not its pre- and postprocessing
    r"flash_(?:fwd|bwd)(?!\w*dot_do_o|\w*convert|\w*combine)",
    r"FlashAttn(?:Fwd|Bwd)Sm\d+",  # FlashAttention 3
    r"fmha_cutlass[FB]_\w+_sm(?:70|75|80|90|100)",  # PyTorch's memory-efficient attention; the suffix names the path
    r"cudnn_generated_fort_native_sdpa", r"cudnn\w*_sdpa_sm\d+",  # cuDNN's attention
    r"BatchPrefillWith\w*Kernel", r"fmha_v2_flash_attention", r"fmhaSm\d+",  # FlashInfer, TensorRT-LLM
)  # fmt: skip


def _has_tensor_cores(properties: Properties) -> bool | None:
    # Volta (7.0) introduced them. The GTX 16 series (7.5) has none; its names say so.
    major = properties.get("computeMajor")
    if not isinstance(major, int) or isinstance(major, bool):
        return None
    return major >= 7 and "GTX 16" not in str(properties.get("name", ""))


CUDA = DeviceFamily(
    id="cuda",
    categories={
        "cuda_runtime": Kind.RUNTIME,
        "cuda_driver": Kind.RUNTIME,
        "cuda_sync": Kind.SYNC,
        "cuda_event": Kind.SYNC,
    },
    collective_kernels=COLLECTIVE_KERNELS,
    collective_operators=(r"^nccl:\w",),
    matrix_kernels=_VOLTA_TURING + _AMPERE + _HOPPER_BLACKWELL + _ATTENTION,
    device_names=r"nvidia|tesla|geforce|quadro|\brtx\b|titan|jetson|\b[vahb]\d{2,3}\b",
    property_keys=frozenset({"sharedMemPerBlockOptin", "regsPerMultiprocessor"}),
    metadata_keys=("cuda_runtime_version", "cuda_driver_version", "cupti_version"),
    has_matrix_unit=_has_tensor_cores,
    has_capability=True,
)
