"""Memory map: the segments of a device at one moment."""

from __future__ import annotations

from msgspec import Struct


class MapGroup(Struct, frozen=True):
    """The segments of one stream and pool. A block fits only into free memory of its own group."""

    stream: str
    pool: str
    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    free_bytes: int


class MemoryMap(Struct, frozen=True, tag_field="kind", tag="memory_map"):
    """Segments (``row_*``, sorted by address) and their used parts (``piece_*``); the rest is free.

    If there are too many blocks, adjacent blocks of one kind smaller than ``cell_bytes`` are merged.
    """

    event: int
    groups: list[MapGroup]
    row_address: list[str]
    """Hexadecimal, because JSON numbers are not precise enough."""
    row_bytes: list[int]
    row_group: list[int]
    row_is_large: list[bool]
    row_is_expandable: list[bool]
    row_used_bytes: list[int]
    row_first: list[int]
    """Index of the first piece of each segment; the last element is the number of pieces."""
    piece_offset: list[int]
    """Bytes from the start of the segment."""
    piece_span: list[int]
    """Bytes from its first byte to its last, with gaps between merged blocks."""
    piece_bytes: list[int]
    piece_blocks: list[int]
    """Number of blocks in the piece."""
    piece_block: list[int]
    """Block number on the device; for merged blocks, that of the largest."""
    piece_is_pending: list[bool]
    piece_line: list[int]
    """Index in ``lines``; -1 = no recorded stack."""
    piece_unused: list[int]
    """Bytes added by rounding up the size; -1 = unknown."""
    piece_begin: list[int]
    """Event that allocated it; -1 = before the history."""
    piece_in_way: list[bool]
    """Whether it is among the adjacent blocks that are cheapest to free for the failed request.

    False unless memory ran out.
    """
    lines: list[str]
    cell_bytes: int
    """0 = nothing is merged."""
