"""Memory flow: tensors as rectangles of addresses and time."""

from __future__ import annotations

from msgspec import Struct


class MemoryFlowMap(Struct, frozen=True, tag_field="kind", tag="memory_flow"):
    """Tensors in a range of memory and time, sorted by time of creation.

    Addresses are mapped to an axis without large gaps: memory regions follow each other, separated by a strip.
    """

    name: str
    title: str
    start_ns: int
    """Start of the displayed time range, on the clock of the recording."""
    end_ns: int
    low_bytes: int
    """Start of the displayed range of the address axis."""
    high_bytes: int
    first_ns: int
    """Creation time of the first tensor."""
    last_ns: int
    extent_bytes: int
    """Length of the address axis."""
    region_address: list[str]
    """Hexadecimal, because JSON numbers are not precise enough."""
    region_bytes: list[int]
    region_offset: list[int]
    """Start of each region on the address axis."""
    row: list[int]
    """One per tensor: its number."""
    created_ns: list[int]
    released_ns: list[int]
    """For a tensor that was not released, the end of the recording."""
    is_released: list[bool]
    offset: list[int]
    size_bytes: list[int]
    tensor: list[int]
    """One per tensor: index in ``tensors``."""
    operator: list[int]
    """One per tensor: index in ``operators``."""
    layout: list[int]
    """One per tensor: index in ``layouts``."""
    tensors: list[str]
    operators: list[str]
    """Operators that created tensors, largest product of memory and time first."""
    layouts: list[str]
    hidden: int
    """Number of small tensors that are not listed. Cells show where they are."""
    cell_columns: int
    """Number of cells along the time axis."""
    cell_rows: int
    """Number of cells along the address axis."""
    cell_column: list[int]
    """Column of each vertical run of cells that contain unlisted tensors."""
    cell_first: list[int]
    cell_end: list[int]
    """The row after the last row of each run."""
