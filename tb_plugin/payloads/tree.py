"""Trees: tables whose rows have parents, also drawn as flame graphs."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Scalar
from tb_plugin.payloads.table import Column


class Tree(Struct, frozen=True, tag_field="kind", tag="tree"):
    """Nodes in pre-order.

    ``parent[i]`` is the index of the parent of node i (-1 = root). ``rows[i]`` has one value per column key.
    """

    name: str
    title: str
    columns: list[Column]
    parent: list[int]
    rows: list[dict[str, Scalar]]
    label_column: str
    value_columns: list[str]
    """Keys of the columns that may determine the width in a flame graph, in order of preference."""
    total_nodes: int
    """Number of nodes of the whole tree. It may be larger than ``len(rows)``."""
