"""Memory flow: tensors as rectangles over addresses and time."""

from __future__ import annotations

from msgspec import Struct


class MemoryFlowMap(Struct, frozen=True, tag_field="kind", tag="memory_flow"):
    """Tensors in a range of addresses and time, in order of creation.

    The address axis has no large gaps: each memory region starts shortly after the end of the previous region.
    """

    name: str
    title: str
    start_ns: int
    """Start of the displayed time range, on the clock of the recording."""
    end_ns: int
    low_bytes: int
    high_bytes: int
    first_ns: int
    last_ns: int
    extent_bytes: int
    region_address: list[str]
    """Address of each region as hexadecimal text, because JSON numbers are not precise enough."""
    region_bytes: list[int]
    region_offset: list[int]
    row: list[int]
    created_ns: list[int]
    released_ns: list[int]
    """One per tensor: release time, or the end of the recording if the tensor was not released."""
    is_released: list[bool]
    offset: list[int]
    size_bytes: list[int]
    tensor: list[int]
    operator: list[int]
    layout: list[int]
    tensors: list[str]
    operators: list[str]
    """Operators that created tensors, in descending order of memory multiplied by time."""
    layouts: list[str]
    hidden: int
    """Number of small tensors that are not listed. The cells show where these tensors are."""
    cell_columns: int
    cell_rows: int
    cell_column: list[int]
    """Column of each vertical run of cells that contain tensors not listed."""
    cell_first: list[int]
    cell_end: list[int]
    """Row after the last row of each run."""
