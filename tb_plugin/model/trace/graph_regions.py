"""Program regions of replayed device work, recorded as JSON lists."""

from __future__ import annotations

import json
from typing import Any

from tb_plugin.model.trace.extra_columns import BACKWARD_PHASE, REGION, REGION_PHASE

# Name, and whether the region is part of the backward pass.
Region = tuple[str, bool]


def listed_regions(text: str) -> list[Region]:
    """Returns the regions in a JSON list, outermost first. Empty if the text is not such a list."""
    try:
        listed: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return [
        (item[REGION], item.get(REGION_PHASE) == BACKWARD_PHASE)
        for item in items
        if isinstance(item.get(REGION), str) and item[REGION]
    ]
