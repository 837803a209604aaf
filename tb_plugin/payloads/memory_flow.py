"""A memory flow: tensors as rectangles of addresses and time."""

from __future__ import annotations

from msgspec import Struct


class MemoryFlowMap(Struct, frozen=True, tag_field="kind", tag="memory_flow"):
    """A MemoryFlowMap lists the tensors of a part of memory and time, by time of creation.

    Addresses are positions on an axis without large gaps: regions follow each other, separated by a strip.
    """

    name: str
    title: str
    start_ns: int
    """The displayed time range, on the clock of the recording."""
    end_ns: int
    low_bytes: int
    """The displayed positions."""
    high_bytes: int
    first_ns: int
    """Creation of the first tensor and the last time of any tensor: all that can be shown."""
    last_ns: int
    extent_bytes: int
    """The length of the axis."""
    region_address: list[str]
    """Hexadecimal, because addresses may exceed exact JSON numbers."""
    region_bytes: list[int]
    region_offset: list[int]
    """Where each region begins on the axis."""
    row: list[int]
    """By tensor: its number."""
    created_ns: list[int]
    released_ns: list[int]
    """The end of the recording for one that was not released."""
    is_released: list[bool]
    offset: list[int]
    size_bytes: list[int]
    tensor: list[int]
    """By tensor: place in ``tensors``."""
    operator: list[int]
    """By tensor: place in ``operators``."""
    layout: list[int]
    """By tensor: place in ``layouts``."""
    tensors: list[str]
    operators: list[str]
    """Creating operators, largest product of memory and time first."""
    layouts: list[str]
    hidden: int
    """Number of unlisted tensors of this part, the smallest ones; cells show their positions."""
    cell_columns: int
    """Cells along the displayed time."""
    cell_rows: int
    """Cells along the displayed positions."""
    cell_column: list[int]
    """By vertical run of cells with unlisted tensors."""
    cell_first: list[int]
    cell_end: list[int]
    """The row after the last one of the run."""
