"""A memory map: the segments of a device at one moment."""

from __future__ import annotations

from msgspec import Struct


class MapGroup(Struct, frozen=True):
    """A group has the segments of one stream and pool. Blocks fit only into free memory of their own group."""

    stream: str
    pool: str
    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    free_bytes: int


class MemoryMap(Struct, frozen=True, tag_field="kind", tag="memory_map"):
    """A memory map lists segments (``row_*``, by address) and their used pieces (``piece_*``); the rest is free.

    If there are too many blocks, neighbours of one kind smaller than ``cell_bytes`` are merged into one piece.
    """

    event: int
    groups: list[MapGroup]
    row_address: list[str]
    """Hexadecimal, because addresses may exceed exact JSON numbers."""
    row_bytes: list[int]
    row_group: list[int]
    row_is_large: list[bool]
    row_is_expandable: list[bool]
    row_used_bytes: list[int]
    row_first: list[int]
    """Number of the first piece of each row, with the total at the end."""
    piece_offset: list[int]
    """From the first byte of the row."""
    piece_span: list[int]
    """From its first byte to its last."""
    piece_bytes: list[int]
    piece_blocks: list[int]
    """Number of blocks in it."""
    piece_block: list[int]
    """Number of the block on its device; of merged blocks the largest."""
    piece_is_pending: list[bool]
    piece_line: list[int]
    """Position in ``lines``, -1 = no recorded stack."""
    piece_unused: list[int]
    """Bytes by which its size was rounded up; -1 = not known."""
    piece_begin: list[int]
    """Number of the event that allocated it, -1 = before the history."""
    piece_in_way: list[bool]
    """Whether it is in the cheapest run of blocks that blocked the failed request, if memory ran out."""
    lines: list[str]
    cell_bytes: int
    """0 = pieces are not merged."""
