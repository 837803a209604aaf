"""Trees: tables with parents, also drawn as flame graphs."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Scalar
from tb_plugin.payloads.table import Column


class Tree(Struct, frozen=True, tag_field="kind", tag="tree"):
    """Nodes in pre-order. ``parent[i]`` is an index (-1 = root); ``rows[i]`` has one value per column key."""

    name: str
    title: str
    columns: list[Column]
    parent: list[int]
    rows: list[dict[str, Scalar]]
    label_column: str
    value_columns: list[str]
    """Columns that can determine the width in a flame graph, preferred first."""
    total_nodes: int
    """Number of nodes of the whole tree, which may exceed ``len(rows)``."""
