"""Regions of the program that a recorder wrote beside replayed work as a list in JSON."""

from __future__ import annotations

import json
from typing import Any

from tb_plugin.model.trace.extra_columns import BACKWARD_PHASE, REGION, REGION_PHASE

Region = tuple[str, bool]
"""Its name, and whether it belongs to the backward pass."""


def listed_regions(text: str) -> list[Region]:
    """Returns the regions that a text lists, outer ones first; none of a text that is no such list."""
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
