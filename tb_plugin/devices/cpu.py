"""Host categories, operators and communication."""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily
from tb_plugin.model.trace.schema import CallRole
from tb_plugin.model.trace.schema import EventKind as Kind

# Names before the slash are those of PyTorch <= 1.11 (lower-cased), after it those of 1.12 and later.
CATEGORIES = {
    "operator": Kind.OPERATOR,
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "python": Kind.PYTHON,
    "python_function": Kind.PYTHON,
    "runtime": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "memcpy": Kind.MEMCPY,
    "gpu_memcpy": Kind.MEMCPY,
    "memset": Kind.MEMSET,
    "gpu_memset": Kind.MEMSET,
    "overhead": Kind.OVERHEAD,
    "trace": Kind.WINDOW,
    # Out-of-tree devices report through these.
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.RUNTIME,
    "glow_runtime": Kind.RUNTIME,
}

COLLECTIVE_OPERATORS = (
    # ProcessGroup annotations are "<backend>:<collective>", e.g. gloo:all_reduce, nccl:_all_gather_base.
    r"^(?:gloo|mpi|ucc|fake|fr):\w",
    # The dispatcher's operators: c10d::allreduce_, and the functional ones of torch.distributed.
    r"^c10d::(?!_?(?:monitored_)?(?:get|set|wait)_)",
    r"^_?c10d_functional(?:_autograd)?::(?!wait_tensor)",
    r"^record_param_comms$",
    # Collectives with separate operators: PyTorch's symmetric memory, vLLM's custom all-reduce.
    r"^symm_mem::(?:one_shot|two_shot|multimem)_",
    r"^_C_custom_ar::(?:qr_)?all_reduce$",
)

# Kernels without a matrix unit on any vendor's device: PyTorch's own, Inductor's fused pointwise and reduction kernels,
# and common library names. Words are searched before template arguments and parameters. A name that also
# contains a word for matmul or attention is unknown.
_FUNCTION = r"(?:\(anonymous namespace\)|[^<(])*?"
_PRODUCT = (
    r"(?<!fb)gemm|matmul|einsum|(?<![a-z])(?:b?mm|mma|dot|moe|mlp|linear)(?![a-z])"
    r"|mfma|attention|attn|mha|mla|conv(?!ert)"
)
_PLAIN_WORDS = (
    r"elementwise|pointwise|vectorized|softmax|norm(?:_|\b|aliz|K|k)|(?:layer|batch|rms|group)_?norm|transpose|permute|rotary|rope"
    r"|gelu|silu|relu|sigmoid|tanh|dropout|act_and_mul|activation|reduce|reduction|argmax|cumsum|prefix_sum|scan|sort|topk|top_k"
    r"|histogram|embedding|gather|scatter|index|indices|position|clamp|bounds|copy|fill|memset|memcpy|concat|padding|pool(?:ing)?"
    r"|upsample|interpolate|quantize|dequant|convert|sampl(?:e|ing)|random|philox|distribution|nonzero|masked|multi_tensor"
    r"|optimizer|adam|sgd|(?:store|write|save)_\w*cache"
)
PLAIN_KERNELS = (
    r"\bat::native::|\bat_cuda_detail::|\bat::cuda::|_ZN2at6native",
    r"^triton_(?:poi|red|per|for|split_scan)_",
    rf"^(?!{_FUNCTION}(?i:{_PRODUCT})){_FUNCTION}(?i:{_PLAIN_WORDS})",
)

# Operators that may run on a matrix unit: the list of torch-tb-profiler (PyTorch 1.x names) ...
_ATEN_CLASSIC = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul mm mv linear addbmm baddbmm bmm
chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
cudnn_convolution_transpose_backward cudnn_convolution_backward_weight addmm_ cudnn_convolution_transpose_backward_weight
cudnn_convolution_transpose_backward_input cudnn_convolution_backward_input cudnn_convolution_backward
"""
# ... and later additions: fused and scaled matrix products, convolutions of other backends, attention.
_ATEN_MODERN = """
_addmm_activation _scaled_mm _scaled_mm_v2 _scaled_grouped_mm _grouped_mm _int_mm _weight_int4pack_mm _weight_int8pack_mm
_mixed_dtypes_linear _sparse_semi_structured_linear _sparse_semi_structured_mm _sparse_semi_structured_addmm _cslt_sparse_mm
baddbmm_ addmv_ addbmm_ linalg_vecdot linear_backward matmul_backward einsum bilinear _trilinear tensordot
convolution_backward convolution_overrideable convolution_backward_overrideable _slow_conv2d_forward _slow_conv2d_backward
slow_conv3d slow_conv3d_forward slow_conv_transpose2d slow_conv_transpose3d thnn_conv2d
conv_transpose2d.input cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution miopen_convolution_transpose
miopen_convolution_relu miopen_convolution_add_relu mkldnn_convolution _cudnn_rnn _cudnn_rnn_backward miopen_rnn
miopen_rnn_backward lstm gru _native_multi_head_attention _transformer_encoder_layer_fwd
scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention
_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_fused_attention_overrideable
_scaled_dot_product_fused_attention_overrideable_backward _flash_attention_forward _flash_attention_backward
_efficient_attention_forward _efficient_attention_backward _cudnn_attention_forward _cudnn_attention_backward
"""
_AUTOGRAD = """
CudnnConvolutionBackward BmmBackward0 CudnnConvolutionTransposeBackward MmBackward AddmvBackward MvBackward AddmmBackward
AddbmmBackward MmBackward0 AddmmBackward0 AddmvBackward0 MvBackward0 AddbmmBackward0 BaddbmmBackward0 LinearBackward0
BmmBackward BaddbmmBackward ConvolutionBackward0 CudnnConvolutionBackward0 CudnnConvolutionTransposeBackward0
MiopenConvolutionBackward0 ScaledDotProductFlashAttentionBackward0 ScaledDotProductEfficientAttentionBackward0
ScaledDotProductCudnnAttentionBackward0 ScaledDotProductFlashAttentionForCpuBackward0 FlashAttentionBackward0
EfficientAttentionBackward0 CudnnRnnBackward0 PreluKernelBackward0
"""
MATRIX_OPERATORS = frozenset(
    {f"aten::{name}" for name in (_ATEN_CLASSIC + _ATEN_MODERN).split()} | set(_AUTOGRAD.split())
)

# Calls on device memory. Other vendors use CUDA's names with their own prefix (hip, musa ...): cudaMalloc, hipFree,
# cuMemMap.
CALLS = {
    CallRole.ALLOCATE: (r"^[a-z]+(?:Malloc|MemAlloc)(?:Async|FromPoolAsync|Managed|Pitch|3D)?(?:_v\d+)?$",),
    CallRole.FREE: (r"^[a-z]+(?:Free|MemFree)(?:Async)?(?:_v\d+)?$",),
    CallRole.MAP: (r"^[a-z]+Mem(?:Create|Map)(?:_v\d+)?$",),
    CallRole.UNMAP: (r"^[a-z]+Mem(?:Unmap|Release)(?:_v\d+)?$",),
    CallRole.GRAPH: (r"^[a-z]+GraphLaunch(?:_\w+)?$",),
    CallRole.PIN: (
        r"^[a-z]+(?:HostAlloc|MallocHost|FreeHost|MemHostAlloc|MemAllocHost|MemFreeHost)(?:_v\d+)?$",
        r"^[a-z]+(?:Mem)?Host(?:Un)?[rR]egister(?:_v\d+)?$",
    ),
    CallRole.SETUP: (
        r"^[a-z]+(?:Init|SetDevice|CtxCreate|DevicePrimaryCtxRetain|StreamCreate\w*)(?:_v\d+)?$",
        r"^[a-z]+(?:Module|Library)(?:Load\w*|GetFunction|GetKernel|Unload)$",
    ),
    CallRole.LAUNCH: (r"^[a-z]+(?:Ext|Drv|Hcc|Module)*Launch(?:Cooperative)?Kernel(?:ExC?)?(?:_\w+)?$",),
    CallRole.COPY: (r"^[a-z]+Memcpy\w*$",),
    CallRole.SET: (r"^[a-z]+Memset\w*$",),
    CallRole.CAPTURE: (r"^[a-z]+StreamBegin(?:Re)?[cC]apture(?:ToGraph)?(?:_\w+)?$",),
    CallRole.CAPTURED: (r"^[a-z]+StreamEndCapture(?:_\w+)?$",),
    CallRole.JOIN: (r"^[a-z]+StreamWaitEvent(?:_\w+)?$",),
}

CPU = DeviceFamily(
    id="cpu",
    categories=CATEGORIES,
    collective_operators=COLLECTIVE_OPERATORS,
    matrix_operators=MATRIX_OPERATORS,
    plain_kernels=PLAIN_KERNELS,
    calls=CALLS,
)
