"""AMD: HIP (reported under CUDA's categories), RCCL, MFMA."""

from __future__ import annotations

import re

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.model.trace.schema import CallRole
from tb_plugin.model.trace.schema import EventKind as Kind

# RCCL uses NCCL's kernel names (ncclDevKernel_Generic), which the CUDA family knows.
COLLECTIVE_KERNELS = (
    r"(?:^|[^\w])_?rccl\w*Kernel",
    r"(?:^|[^\w])mscclKernel",  # RCCL's programmable collectives
    r"aiter\w*(?:::)?(?:all_reduce|allreduce|all_gather|reduce_scatter)",  # AITER's own collectives
    r"quickreduce::\w*(?:[Aa]ll_?[Rr]educe)",
    r"(?:^|[^\w])_?rocshmem_\w+",
)

MATRIX_KERNELS = (
    # Tensile writes the matrix instruction's size into the name: MI16x16x1 (newer), MI16x16x16x1 (older). A Cijk_
    # kernel without it, or with MI all zero, runs on the vector units.
    r"Cijk_\w*_MI[1-9]\d*x\d+x\d+",
    r"[Mm]fma|MFMA",
    r"xdlops|_xdl_|Xdl[A-Z_]",  # matrix instructions in composable_kernel; _dl_ means none
    r"igemm_(?:fwd|bwd|wrw)_gtcx\d?",  # MIOpen's assembly convolutions: gtcx uses xdlops, gtc does not
    r"FmhaFwd|FmhaBwd|fmha_(?:fwd|bwd)_(?:d\d|hd\d)",  # attention by composable_kernel
    r"aiter::(?:fmha_|mla_|pa_|f4gemm|flatmm|bf16gemm|fmoe)",  # AITER's assembly kernels
    r"^attn_fwd$|^attn_bwd|^bwd_kernel_d[kq]",  # the Triton attention PyTorch ships for ROCm (AOTriton)
)

PLAIN_KERNELS = (
    r"^Cijk_",  # Tensile without a matrix instruction
    r"igemm_(?:fwd|bwd|wrw)_gtc_",  # MIOpen without the x
    r"SubTensorOp|batched_transpose_|MIOpenBatchNorm|miopenSp3Asm|naive_conv|paged_attention_ll4mi_reduce|rocprim::",
)

# MFMA exists since gfx908 (MI100). Radeon names do not show it: WMMA exists since RDNA 3, but an MI250 without identity
# tables is also called "AMD Radeon Graphics".
_WITH_MFMA = re.compile(r"\bMI\s?-?(?:1[0-9]{2}|2[0-9]{2}|3[0-9]{2}|4[0-9]{2})[A-Z]?\b|gfx(?:908|90a|94\w|95\w)")
_WITHOUT_MFMA = re.compile(r"\bMI\s?-?(?:6|8|25|50|60)\b|Vega|gfx(?:803|900|906)")


def _has_mfma(properties: Properties) -> bool | None:
    name = f"{properties.get('name', '')} {properties.get('gcnArchName', '')}"
    if _WITH_MFMA.search(name):
        return True
    if _WITHOUT_MFMA.search(name):
        return False
    # 9.0 may be Vega (without) or MI100/MI200 (with); 9.4 and 9.5 are MI300 and later only.
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    return True if major == 9 and minor in (4, 5) else None


_WITH_FP8 = re.compile(r"\bMI\s?-?3[0-9]{2}[A-Z]?\b|gfx9(?:4|5)\w")


def _precisions(properties: Properties) -> tuple[str, ...]:
    # Only MI300 has TF32, and PyTorch does not offer it there by default.
    if not _has_mfma(properties):
        return ()
    name = f"{properties.get('name', '')} {properties.get('gcnArchName', '')}"
    return ("fp16", "bf16", "fp8") if _WITH_FP8.search(name) else ("fp16", "bf16")


ROCM = DeviceFamily(
    id="rocm",
    categories={"hip_runtime": Kind.RUNTIME, "hip_driver": Kind.RUNTIME},
    collective_kernels=COLLECTIVE_KERNELS,
    collective_operators=(r"^rccl:\w",),
    matrix_kernels=MATRIX_KERNELS,
    # SK1 and higher: blocks of stream-K kernels share tiles evenly.
    matrix_tile=r"^(?!.*_SK[1-9]).*_MT(\d{1,4})x(\d{1,4})x",
    plain_kernels=PLAIN_KERNELS,
    device_names=r"\bamd\b|radeon|instinct|gfx\d",
    property_keys=frozenset({"maxSharedMemoryPerMultiProcessor", "gcnArchName"}),
    metadata_keys=("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler"),
    calls={CallRole.ALLOCATE: (r"^hipExtMallocWithFlags$",)},
    collective_backend=lambda properties: "nccl",  # RCCL uses NCCL's name
    has_matrix_unit=_has_mfma,
    precisions=_precisions,
    rows_by_node=True,
    matrix_unit="Matrix Cores",
    multiprocessor="CU",
)
