"""Kinds of groups and devices, for jobs with many groups or devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.pictures.topology import listed_ranks, ranks_short
from tb_plugin.views.distributed.rank.profile import frame, table

# more rows are too many to read
MAX_LISTED = 24
_GROUP_KEYS = ("group_description", "group_size", "dimension", "group_shape", "backend")
_DEVICE_KEYS = ("device_name", "memory_bytes", "capability", "link_peak")
_GROUPS = {
    "group_description": pa.string(), "same_groups": pa.int64(), "group_size": pa.int64(), "dimension": pa.string(),
    "group_shape": pa.string(), "backend": pa.string(), "first_ranks": pa.string(), "last_ranks": pa.string(),
}  # fmt: skip
_DEVICES = {
    "device_name": pa.string(), "same_devices": pa.int64(), "node_count": pa.int64(), "memory_bytes": pa.int64(),
    "capability": pa.string(), "link_peak": pa.int64(),
}  # fmt: skip


def kind_frames(data: JobData) -> Mapping[str, Frame]:
    """Returns a table of group kinds and a table of device kinds, if there are too many single groups or devices."""
    found = {}
    if len(data.process_groups) > MAX_LISTED:
        rows = table(_GROUPS, group_kinds(data.process_groups))
        found["group_kinds"] = frame("group_kinds", "Kinds of groups", rows, _GROUP_KEYS, "group_description")
    if len(data.devices) > MAX_LISTED:
        rows = table(_DEVICES, device_kinds(data.devices))
        found["device_kinds"] = frame("device_kinds", "Kinds of devices", rows, _DEVICE_KEYS, "device_name")
    return found


def group_kinds(groups: Sequence[Row]) -> list[Row]:
    """Returns one row per distinct (description, size, parallelism, pattern, backend), sorted by first occurrence."""
    return [
        {
            **kind,
            "same_groups": len(alike),
            "first_ranks": _ranks(alike[0]),
            "last_ranks": _ranks(alike[-1]) if len(alike) > 1 else None,
        }
        for kind, alike in _alike(groups, _GROUP_KEYS)
    ]


def device_kinds(devices: Sequence[Row]) -> list[Row]:
    """Returns one row per distinct (name, memory, compute capability, link bandwidth), sorted by first occurrence."""
    return [
        {**kind, "same_devices": len(alike), "node_count": len({row["node"] for row in alike if row["node"]}) or None}
        for kind, alike in _alike(devices, _DEVICE_KEYS)
    ]


def _alike(rows: Sequence[Row], keys: Sequence[str]) -> list[tuple[Row, list[Row]]]:
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [(dict(zip(keys, values, strict=True)), alike) for values, alike in found.items()]


def _ranks(group: Row) -> str:
    ranks = listed_ranks(group["group_ranks"], group["group_size"])
    return ranks_short(ranks) if ranks else str(group["group_ranks"] or "")
