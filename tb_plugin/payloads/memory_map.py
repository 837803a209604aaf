"""Memory map: the segments of a device at one time."""

from __future__ import annotations

from msgspec import Struct


class MapGroup(Struct, frozen=True):
    """The segments of one stream and pool. A block fits only into free memory of its own stream and pool."""

    stream: str
    pool: str
    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    free_bytes: int


class MemoryMap(Struct, frozen=True, tag_field="kind", tag="memory_map"):
    """Segments (``row_*``, in order of address) and their used parts (``piece_*``). All other memory in a segment
    is free.

    If there are too many blocks, adjacent blocks are merged if they have the same kind and are smaller than
    ``cell_bytes``.
    """

    event: int
    groups: list[MapGroup]
    row_address: list[str]
    """Address of each segment as hexadecimal text, because JSON numbers are not precise enough."""
    row_bytes: list[int]
    row_group: list[int]
    row_is_large: list[bool]
    row_is_expandable: list[bool]
    row_used_bytes: list[int]
    row_first: list[int]
    """Index of the first piece of each segment. The last element is the number of pieces."""
    piece_offset: list[int]
    piece_span: list[int]
    """Bytes from start to end of the piece, including gaps between merged blocks."""
    piece_bytes: list[int]
    piece_blocks: list[int]
    piece_block: list[int]
    """Block number on the device. For merged blocks, the number of the largest block."""
    piece_is_pending: list[bool]
    piece_line: list[int]
    piece_unused: list[int]
    """Bytes added when the requested size was rounded up; -1 = unknown."""
    piece_begin: list[int]
    """Event that allocated the block; -1 = allocated before the history."""
    piece_in_way: list[bool]
    """True for the adjacent blocks that are cheapest to free for the failed request, if memory ran out."""
    lines: list[str]
    cell_bytes: int
    """Size limit for merging; 0 = no blocks are merged."""
