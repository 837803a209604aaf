"""Huawei Ascend and Habana in Kineto traces.

A separate reader reads Ascend's profile folders.
"""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily
from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.schema import EventKind as Kind

CUBE_OR_VECTOR = "AI_CORE or AI_VECTOR_CORE"  # some files report AI_CORE for kernels on vector cores, too

FACTS = DeviceFacts(
    cores=(
        ("AI_CORE", "AI Core (cube)"),
        ("AI_VECTOR_CORE", "AI vector core"),
        ("MIX_AIC", "Mixed, cube first"),
        ("HCCL", "Communication"),
        ("COMMUNICATION", "Communication"),
        ("MIX_AIV", "Mixed, vector first"),
        ("AI_CPU", "AI CPU"),
        ("DSA_SQE", "DSA (random numbers)"),
        (CUBE_OR_VECTOR, "AI Core (cube or vector)"),
    ),
    fallback_cores=("AI_CPU",),
    conversions=("TransData", "Transpose", "TransposeD", "Cast"),
    # A mixed kernel computes on both kinds of cores at once.
    reading=(
        ("aic_mte2_ratio", ("aic_mac_ratio", "aiv_vec_ratio")),
        ("aiv_mte2_ratio", ("aic_mac_ratio", "aiv_vec_ratio")),
        ("mte2_ratio", ("mac_ratio", "vec_ratio")),
    ),
    frequency="AI Core Freq",
    normal_hertz=1800e6,
    idle_hertz=800e6,
    # The vendor gives this limit for SDMA, which combines these links.
    packets=tuple((link, 16_000_000) for link in ("HCCS", "PCIE", "SIO", "SDMA")),
    receiving=r"^hcom_receive",
)

NPU = DeviceFamily(
    id="npu",
    word="NPU",
    facts=FACTS,
    categories={"hpu_op": Kind.KERNEL, "npu_runtime": Kind.RUNTIME, "npu_driver": Kind.RUNTIME},
    collective_kernels=(
        r"^hcom_\w+",  # HCCL tasks: hcom_allReduce__123_0
        r"(?:^|[^\w])[Hh]ccl\w*",
    ),
    collective_operators=(r"^(?:hccl|lccl|hcom):\w", r"^Hccl\w+"),
    device_names=r"ascend|\bnpu\b|gaudi|habana",
    property_keys=frozenset({"npuName"}),
    metadata_keys=("ascend", "npu", "torch_npu"),
    matrix_unit="cube units",
    multiprocessor="AI Core",
    collective_backend=lambda properties: "hccl",  # the name of both vendors' libraries
)
