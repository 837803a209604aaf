"""A memory flow: tensors as rectangles of addresses and time."""

from __future__ import annotations

from msgspec import Struct


class MemoryFlowMap(Struct, frozen=True, tag_field="kind", tag="memory_flow"):
    """A MemoryFlowMap lists the tensors of a part of memory and time, those that are made first first.

    Addresses are told as places on an axis that leaves large gaps out: regions lie one after the other on it, a strip
    between two.
    """

    name: str
    title: str
    start_ns: int
    """The time that is shown, on the clock of the recording."""
    end_ns: int
    low_bytes: int
    """The places that are shown."""
    high_bytes: int
    first_ns: int
    """When the first tensor was made, and the last time that any states: all that can be shown."""
    last_ns: int
    extent_bytes: int
    """The length of the axis."""
    region_address: list[str]
    """Hexadecimal: an address may be larger than what JSON numbers hold exactly everywhere."""
    region_bytes: list[int]
    region_offset: list[int]
    """Where each region begins on the axis."""
    row: list[int]
    """By tensor: its number."""
    made_ns: list[int]
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
    """What made tensors, that whose tensors took most memory for most time first."""
    layouts: list[str]
    hidden: int
    """Tensors of this part that are not listed, the smallest ones: where they lie is told by cells."""
    cell_columns: int
    """Cells in the time that is shown."""
    cell_rows: int
    """Cells in the places that are shown."""
    cell_column: list[int]
    """By run of cells, one above the other, in which tensors lie that are not listed."""
    cell_first: list[int]
    cell_end: list[int]
    """The row behind the last one of the run."""
