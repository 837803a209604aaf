"""Meta's MTIA. Its event bodies come from a plugin outside Kineto, so only the categories are known."""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily
from tb_plugin.trace.schema import EventKind as Kind

MTIA = DeviceFamily(
    id="mtia",
    categories={"mtia_runtime": Kind.RUNTIME, "mtia_ccp_events": Kind.KERNEL},
    collective_operators=(r"^(?:hccl|mccl):\w",),
    device_names=r"mtia",
    metadata_keys=("mtia",),
)
