"""Intel: Level Zero and SYCL categories, oneCCL, XMX."""

from __future__ import annotations

import re

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.model.trace.schema import CallRole
from tb_plugin.model.trace.schema import EventKind as Kind

_WITH_XMX = re.compile(r"Data Center GPU Max|\bArc\b.*\b[AB]\d{2,3}\w?\b|\bB\d{2}\b|Ponte Vecchio|Flex")


def _has_xmx(properties: Properties) -> bool | None:
    return True if _WITH_XMX.search(str(properties.get("name", ""))) else None


XPU = DeviceFamily(
    id="xpu",
    categories={
        "xpu_runtime": Kind.RUNTIME,
        "xpu_driver": Kind.RUNTIME,
        "xpu_sync": Kind.SYNC,
        # Kineto's category for collectives that a device plugin reports as device work.
        "collective_comm": Kind.KERNEL,
    },
    collective_kernels=(
        r"(?:^|[^\w])oneccl_\w+",
        r"ccl_(?:allreduce|allgather|reduce_scatter|alltoall|broadcast|send|recv)\w*",
    ),
    collective_operators=(r"^(?:xccl|ccl|oneccl|oneccl_bindings_for_pytorch)\s*(?::|::)\s*\w",),
    matrix_kernels=(
        r"dpas",  # the systolic array's instruction
        r"XeHPC?_\w*DPAS|MMA_?Atom.*XE_",  # CUTLASS for SYCL
    ),
    # oneDNN's generated matmuls: 16 and 8 bit use systolic instructions, float32 may or may not.
    matrix_kernels_by_type=(r"gemm_kernel\w*_xe|xe\w*_gemm|^gemm_kernel$",),
    device_names=r"intel|\barc\b|data center gpu",
    property_keys=frozenset({"maxComputeUnits", "maxWorkGroupSize"}),
    metadata_keys=("level_zero", "xpu"),
    calls={
        CallRole.ALLOCATE: (r"^zeMemAlloc(?:Device|Shared)$", r"^urUSM(?:Device|Shared)Alloc$"),
        CallRole.FREE: (r"^zeMemFree$", r"^urUSMFree$"),
    },
    has_matrix_unit=_has_xmx,
    precisions=lambda properties: ("fp16", "bf16") if _has_xmx(properties) else (),
    matrix_unit="XMX",
    multiprocessor="Xe core",
)
