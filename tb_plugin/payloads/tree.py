"""Trees: tables with parents, also drawn as flame graphs."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Scalar
from tb_plugin.payloads.table import Column


class Tree(Struct, frozen=True, tag_field="kind", tag="tree"):
    """A tree lists nodes in pre-order. ``parent[i]`` is a position (-1 = root); ``rows[i]`` has a value per column key."""

    name: str
    title: str
    columns: list[Column]
    parent: list[int]
    rows: list[dict[str, Scalar]]
    label_column: str
    value_columns: list[str]
    """Columns that may give the width of a flame graph, best first."""
    total_nodes: int
    """Nodes of the whole tree; more than ``len(rows)`` when the payload was cut."""
