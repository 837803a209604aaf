"""Map of segments and blocks after a memory event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.snapshot.labels import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.moment import Moment
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import MapGroup, MemoryMap

# Pieces per answer: about 2 MB of JSON.
MOST_PIECES = 30_000


def picture_of(moment: Moment, in_way: Bool) -> MemoryMap:
    device, rows = moment.levels, moment.rows
    snapshot = device.snapshot
    of, keys = _groups(moment)
    first, cell = _pieces(moment)
    end = np.append(first, len(moment.block))[1:]
    count = end - first
    largest = _largest(moment.size, first, count)
    block = moment.block[largest]
    row = moment.row[first] if len(first) else first
    known = device.block("requested")[block]
    single = (count == 1) & (known != MISSING)
    words = stack_words(snapshot)
    stack = device.block("stack")[block]
    lines, line = _distinct(texts_of(words.line, stack))
    return MemoryMap(
        event=moment.event,
        groups=_group_payloads(moment, of, keys),
        row_address=address_texts(rows.address).to_pylist(),
        row_bytes=rows.size.tolist(),
        row_group=of.tolist(),
        row_is_large=rows.is_large.tolist(),
        row_is_expandable=rows.is_expandable.tolist(),
        row_used_bytes=sum_by(moment.row, moment.size, len(rows)).tolist(),
        row_first=np.searchsorted(row, np.arange(len(rows) + 1)).tolist(),
        piece_offset=(moment.start[first] - rows.first[row]).tolist(),
        piece_span=((moment.start + moment.size)[end - 1] - moment.start[first]).tolist(),
        piece_bytes=_sums(moment.size, first).tolist(),
        piece_blocks=count.tolist(),
        piece_block=block.tolist(),
        piece_is_pending=moment.is_pending[first].tolist(),
        piece_line=line.tolist(),
        piece_unused=np.where(single, moment.size[largest] - known, MISSING).tolist(),
        piece_begin=device.block("begin")[block].tolist(),
        piece_in_way=in_way[largest].tolist(),
        lines=lines,
        cell_bytes=cell,
    )


def _groups(moment: Moment) -> tuple[Int64, list[tuple[int, int]]]:
    """Returns the group of each segment, and the pool and stream of each group, default first."""
    pairs = list(zip(moment.rows.pool.tolist(), moment.rows.stream.tolist(), strict=True))
    snapshot = moment.levels.snapshot

    def rank(pair: tuple[int, int]) -> tuple[object, ...]:
        pool, stream = pair
        return (
            snapshot.pools[pool] if pool != MISSING else (0, 0),
            snapshot.streams[stream] if stream != MISSING else 0,
        )

    keys = sorted(set(pairs), key=rank)
    number = {pair: i for i, pair in enumerate(keys)}
    return np.array([number[pair] for pair in pairs], np.int64), keys


def _group_payloads(moment: Moment, of: Int64, keys: list[tuple[int, int]]) -> list[MapGroup]:
    snapshot, numbers = moment.levels.snapshot, moment.numbers(of, len(keys))
    pool = pool_texts(snapshot, np.array([pair[0] for pair in keys], np.int64)).to_pylist()
    stream = stream_texts(snapshot, np.array([pair[1] for pair in keys], np.int64)).to_pylist()
    names = ("segment_bytes", "allocated_now_bytes", "pending_now_bytes", "free_now_bytes")
    sums = zip(*(numbers[name].tolist() for name in names), strict=True)
    return [MapGroup(a or "unknown", b or "unknown", *c) for a, b, c in zip(stream, pool, sums, strict=True)]


def _pieces(moment: Moment) -> tuple[Int64, int]:
    """Returns the first block of each piece, and the cell size. A piece is a block, or small adjacent blocks of a cell."""
    cell = 0
    first = np.arange(len(moment.block))
    while len(first) > MOST_PIECES:
        cell = cell * 2 if cell else 1024
        of = (moment.start - moment.rows.first[moment.row]) // cell
        small = moment.size < cell
        same = np.zeros(len(of), np.bool_)
        same[1:] = (
            (of[1:] == of[:-1])
            & (moment.row[1:] == moment.row[:-1])
            & (moment.is_pending[1:] == moment.is_pending[:-1])
            & small[1:]
            & small[:-1]
        )
        first = np.flatnonzero(~same)
        if cell > moment.reserved:
            break  # as many rows as pieces: nothing is left to merge
    return first, cell


def _largest(size: Int64, first: Int64, count: Int64) -> Int64:
    if len(first) == len(size):
        return first
    piece = np.repeat(np.arange(len(first)), count)
    order = np.lexsort((np.arange(len(size)), -size, piece))
    found: Int64 = order[np.diff(piece[order], prepend=-1) != 0]
    return found


def _sums(size: Int64, first: Int64) -> Int64:
    return np.add.reduceat(size, first) if len(first) else size


def _distinct(texts: pa.Array) -> tuple[list[str], Int64]:
    encoded = texts.dictionary_encode()
    places = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), places
