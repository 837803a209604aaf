"""NVIDIA: CUPTI's categories, NCCL, Tensor Cores."""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.model.trace.schema import EventKind as Kind

COLLECTIVE_KERNELS = (
    # ncclKernel_AllReduce_RING_LL_..., ncclDevKernel_SendRecv(...), ncclSymkDevKernel_AllGather_LLMC (symmetric
    # memory), ncclAllReduceRingLLKernel_sum_f32 (2.4), also inside a namespace or signature; not ncclFoo inside another
    # word.
    r"(?:^|[^\w])_?nccl(?:Symk?)?(?:Dev)?Kernel",
    r"(?:^|[^\w])nccl(?:AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)\w*",
    # Symmetric-memory kernels of PyTorch (one_shot_all_reduce_kernel, multimem_all_gather_kernel ...), NVSHMEM, MSCCL++, UCC.
    r"(?:one_shot|two_shot|multimem)_(?:all_reduce|all_gather|reduce_scatter)",
    r"(?:^|[^\w])_?nvshmemi?_\w+",
    r"(?:^|[^\w])_?mscclpp(?:_\w+|::)",
    r"(?:^|[^\w])_?ucc_(?:ec|tl|mc)_\w+",
    # Custom all-reduces of vLLM and SGLang, TensorRT-LLM, FlashInfer; DeepEP's token exchange between experts.
    r"cross_device_reduce_(?:1|2)stage",
    r"(?:one|two)ShotAllReduceKernel",
    r"allreduce_fusion_kernel",
    r"deep_ep::\w+::(?:cached_notify_)?(?:dispatch|combine)",
)

# From torch-tb-profiler (Volta and Turing). Case-sensitive: SubTensorOpWithScalar1d is not a tensorop.
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
    r"nvjet_",  # cuBLAS 12.x's generated Hopper and Blackwell matmuls: nvjet_tst_..., nvjet_sm100_...
    r"tcgen05", r"umma", r"UMMA",  # Blackwell's instruction and its CUTLASS name
    # TensorRT-LLM's generated matmuls: bmm_E4m3_E4m3E4m3_Fp32_t128x8x128_s3_et64x8_..._sm100a
    r"(?:^|\W)(?:bmm|gemm)_\w*(?:E4m3|E5m2|E2m1|Bfloat16|Fp16)\w*_(?:t|m)\d+x\d+x\d+\w*sm(?:90|1\d\d)",
    r"deep_gemm::", r"fp8_gemm_kernel",  # DeepGEMM supports only wgmma and tcgen05
)  # fmt: skip
_TRITON = (
    # Triton's dot uses matrix instructions for 16 and 8 bit, the only formats of these kernels.
    r"(?:^|\W)_?(?:p_)?matmul_ogs",  # expert matmuls: _matmul_ogs_NNT_bf16xbf16xmxfp4_64x256x128x1_swiglu
    r"^kernel_unified_attention",  # vLLM and SGLang: kernel_unified_attention_2d, _3d
    r"^triton_tem_fused_\w*(?:mm|convolution|attention)",  # Inductor's matmul and attention templates
    r"^_?(?:fused_moe_kernel|w8a8_(?:triton_)?block_(?:fp8|int8)_matmul|_?scaled_mm_kernel)",
    r"^(?:_?sage_?(?:attn)?_?fwd|_attn_fwd|_attn_bwd)",  # SageAttention, the tutorials' flash attention
)  # fmt: skip
_MANGLED = (
    # Symbols of cuDNN built on CUTLASS: implicit GEMM exists only for the tensor operator class.
    r"cutlass\w*cudnn\w*6Kernel\w*(?:ImplicitGemm|TensorOp)",
    r"_ZN\d*cutlass\w*(?:TensorOp|OpClassTensorOp|SM\d+_\d+x\d+x\d+)",
    r"m16n8k\d+",  # instruction shape in PyTorch's 4-bit matmuls
)  # fmt: skip
_ATTENTION = (
    # flash_fwd_kernel, flash_bwd_dq_dk_dv_loop_...; not its pre- and postprocessing
    r"flash_(?:fwd|bwd)(?!\w*dot_do_o|\w*convert|\w*combine)",
    r"FlashAttn(?:Fwd|Bwd)Sm\d+",  # FlashAttention 3
    r"fmha_cutlass[FB]_\w+_sm(?:70|75|80|90|100)",  # PyTorch's memory-efficient attention; the suffix names the path
    r"cudnn_generated_fort_native_sdpa", r"cudnn\w*_sdpa_sm\d+",  # cuDNN's attention
    r"BatchPrefillWith\w*Kernel", r"fmha_v2_flash_attention", r"fmhaSm\d+",  # FlashInfer, TensorRT-LLM
)  # fmt: skip


PLAIN_KERNELS = (
    # Single precision on CUDA cores: cuBLAS's and cuDNN's prefix letters, CUTLASS's operator class.
    r"(?:volta|maxwell|pascal|turing|ampere|hopper|kepler|gk\d+|sm\d+)_(?:[sdcz]gemm|scudnn|dcudnn|gcgemm)",
    r"^(?:\w*_)?[sdcz]gemm(?:_|\b)|(?:im|ex)plicit_convolve_[sd]gemm|simt_[sdcz]",
    r"cudnn\w*_scudnn",
    r"(?:dgrad|wgrad_alg\d)_engine|cudnn::(?:\w+::)*(?:dgrad2d|wgrad2d|winograd|bn_|ops::|pooling|kern_precompute)",
    r"epilogue::impl::globalKernel|computeOffsetsKernel",
    r"winograd_nonfused|winograd\w*tile|gemv\w*|gemmk1|dot_kernel|splitK\w*[rR]educe|nchwToNhwc|nhwcToNchw|im2col|col2im",
    r"fft\dd_|conv_depthwise|cub::|thrust::|CatArrayBatchedCopy|flash_\w*(?:dot_do_o|convert|combine)",
)


def _has_tensor_cores(properties: Properties) -> bool | None:
    # Volta (7.0) introduced Tensor Cores. The GTX 16 series (7.5) has none.
    major = properties.get("computeMajor")
    if not isinstance(major, int) or isinstance(major, bool):
        return None
    return major >= 7 and "GTX 16" not in str(properties.get("name", ""))


# minimum compute capability of the Tensor Cores for a format
_MIN_CAPABILITY = {"fp16": (7, 0), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}


def _precisions(properties: Properties) -> tuple[str, ...]:
    if not _has_tensor_cores(properties):
        return ()
    minor = properties.get("computeMinor")
    has = (properties["computeMajor"], minor if isinstance(minor, int) else 0)
    return tuple(name for name, since in _MIN_CAPABILITY.items() if has >= since)


def _nccl(properties: Properties) -> str:
    # NCCL needs compute capability 3.5.
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    known = isinstance(major, int) and isinstance(minor, int)
    return "nccl" if known and (major, minor) >= (3, 5) else ""


_COUNTER_UNITS = (
    # CUPTI's metrics: unit__what.rollup[.submetric]
    (r"^\w+__\w+\..*(?:pct_of_peak\w*|\.pct)$", "%"),
    (r"^\w+__(?:\w*_)?bytes(?:_\w+)?\.\w+\.per_second$", "B/s"),
    (r"^\w+__(?:\w*_)?bytes(?:_\w+)?\.(?:sum|avg|min|max)$", "B"),
    (r"^\w+__cycles_elapsed\.\w+\.per_second$", "Hz"),
    (r"^gpu__time_duration\w*\.(?:sum|avg|min|max)$", "ns"),
)


CUDA = DeviceFamily(
    id="cuda",
    categories={
        "cuda_runtime": Kind.RUNTIME,
        "cuda_driver": Kind.RUNTIME,
        "cuda_sync": Kind.SYNC,
        "cuda_event": Kind.SYNC,
        "graph_event_node": Kind.SYNC,
        "graph_host_node": Kind.SYNC,
    },
    collective_kernels=COLLECTIVE_KERNELS,
    collective_operators=(r"^nccl:\w",),
    matrix_kernels=_VOLTA_TURING + _AMPERE + _HOPPER_BLACKWELL + _TRITON + _MANGLED + _ATTENTION,
    # Blocks of stream-K kernels share tiles evenly.
    matrix_tile=r"(?i)^(?!.*stream_?k).*?(?:tilesize|_)(\d{2,3})x(\d{2,3})(?:x\d+)?_",
    matrix_load=r"_align(\d{1,3})\b",
    plain_kernels=PLAIN_KERNELS,
    # Intel also uses numbers such as B580.
    device_names=r"^(?!.*\b(?:intel|amd)\b).*(?:nvidia|tesla|geforce|quadro|\brtx\b|titan|jetson|\b[vahb]\d{2,3}\b)",
    property_keys=frozenset({"sharedMemPerBlockOptin", "regsPerMultiprocessor"}),
    metadata_keys=("cuda_runtime_version", "cuda_driver_version", "cupti_version"),
    counter_units=_COUNTER_UNITS,
    collective_backend=_nccl,
    has_matrix_unit=_has_tensor_cores,
    precisions=_precisions,
    matrix_unit="Tensor Cores",
    multiprocessor="SM",
    has_capability=True,
)
