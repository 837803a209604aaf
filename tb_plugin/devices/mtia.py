"""Meta's MTIA.

The events come from a plugin outside Kineto. All device work has the same category.
"""

from __future__ import annotations

from tb_plugin.devices.base import DeviceFamily
from tb_plugin.model.trace.schema import EventKind as Kind

ON_DEVICE = "mtia_ccp_events"

MTIA = DeviceFamily(
    id="mtia",
    word="Device",
    categories={"mtia_runtime": Kind.RUNTIME, ON_DEVICE: Kind.KERNEL},
    kinds_by_name={
        ON_DEVICE: (
            (r"^event_(?:wait|record)\b", Kind.SYNC),
            (r"^dma_request\b", Kind.MEMCPY),
        )
    },
    lanes_by_stream=frozenset({ON_DEVICE}),
    collective_operators=(r"^(?:hccl|mccl):\w",),
    device_names=r"mtia|artemis",
    property_keys=frozenset({"maxGridHeight", "maxGridWidth"}),
    metadata_keys=("mtia",),
)
