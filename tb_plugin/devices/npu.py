"""Huawei Ascend and Habana as they appear in Kineto traces. Ascend's own folders have a reader of their own."""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily
from tb_plugin.trace.schema import EventKind as Kind

NPU = DeviceFamily(
    id="npu",
    word="NPU",
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
    collective_backend=lambda properties: "hccl",  # what both makers call their library
)
