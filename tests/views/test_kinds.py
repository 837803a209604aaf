"""Kinds of process groups and devices of Distributed: what is alike is one row."""

from __future__ import annotations

from tb_plugin.views.distributed.job_data import Row
from tb_plugin.views.distributed.pictures.group_types import device_kinds, group_kinds


def group(at: int, ranks: list[int], description: str) -> Row:
    return {
        "group": str(at), "group_description": description, "group_size": len(ranks), "group_ranks": str(ranks),
        "dimension": "", "group_shape": "", "backend": "nccl",
    }  # fmt: skip


def test_groups_of_a_kind_are_one_row_with_the_first_and_the_last() -> None:
    groups = [group(at, list(range(4 * at, 4 * at + 4)), "tp") for at in range(8)] + [
        group(9, [*range(0, 32, 4)], "dp")
    ]
    one, two = group_kinds(groups)
    assert (one["group_description"], one["same_groups"], one["first_ranks"], one["last_ranks"]) == (
        "tp",
        8,
        "0-3",
        "28-31",
    )
    assert (two["same_groups"], two["group_size"], two["first_ranks"], two["last_ranks"]) == (1, 8, "0-28 by 4", None)
    # Another size is another kind.
    assert len(group_kinds([group(0, [0, 1], "tp"), group(1, [2], "tp")])) == 2


def test_devices_that_are_alike_are_one_row() -> None:
    devices: list[Row] = [
        {"device_name": name, "memory_bytes": 1, "capability": "9.0", "link_peak": None, "node": f"n{at // 2}"}
        for at, name in enumerate("AAAAAB")
    ]
    one, two = device_kinds(devices)
    assert (one["device_name"], one["same_devices"], one["node_count"]) == ("A", 5, 3)
    assert (two["same_devices"], two["node_count"]) == (1, 1)
