"""Bytes sent between ranks in point-to-point messages and all-to-alls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.analysis.job_tables.links import MOST_DRAWN, rank_map
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group_sorted, sum_by
from tb_plugin.payloads import Series, Sort
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS

# maximum number of pairs of ranks in the table, largest first
MOST_PAIRS = 1 << 16


class _Messages(msgspec.Struct, frozen=True, eq=False):
    """Messages between ranks. ``row`` is the call that reports the message. -1 = unknown."""

    row: Int64
    source: Int64
    target: Int64
    size: Int64


def traffic_frame(calls: pa.Table, members: pa.Table, ranks: Sequence[int | None]) -> Frame | None:
    """Returns the bytes sent from rank to rank, or None if no message has a known size.

    ``calls`` has the matched calls of all workers, ``members`` has the ranks of each ``group_code``, and ``ranks``
    has the rank of each worker. Both ends report a message. For each pair of ranks, the end with more messages counts,
    because a trace may be missing or may lack calls. If both have equally many, the sender counts.
    """
    loaded = np.array([-1 if rank is None else rank for rank in ranks], np.int64)
    own = loaded[numbers_of(calls, "worker")]
    sent = [_transfers(calls, own, "send"), *_splits(calls, members, own, "sent_splits")]
    received = [_transfers(calls, own, "recv"), *_splits(calls, members, own, "received_splits")]
    row, source, target, size = (
        np.concatenate([getattr(one, key) for one in (*sent, *received)]) for key in _Messages.__struct_fields__
    )
    is_sent = np.arange(len(row)) < sum(len(one.row) for one in sent)
    # Data that stays on a rank is no traffic.
    keep = (source >= 0) & (target >= 0) & (source != target) & (size >= 0)
    if not keep.any():
        return None
    row, source, target, size, is_sent = (column[keep] for column in (row, source, target, size, is_sent))
    group_of, names = texts_of(calls, "group")
    pairs = group_sorted(group_of[row], source, target)
    first, sends = pairs.first, pairs.sum(is_sent.astype(np.int64))
    by_sender = 2 * sends >= pairs.count()
    messages = np.where(by_sender, sends, pairs.count() - sends)
    total = pairs.sum(np.where(is_sent == by_sender[pairs.of], size, 0))
    order = np.lexsort((target[first], source[first], -total))
    title = "Traffic" if len(order) <= MOST_PAIRS else f"Traffic, the {MOST_PAIRS:,} largest of {len(order):,} pairs"
    order = order[:MOST_PAIRS]
    at = first[order]
    data = {
        "source_rank": pa.array(source[at]),
        "destination_rank": pa.array(target[at]),
        "group": pa.array([names[each] for each in group_of[row[at]].tolist()], pa.string()),
        "traffic_bytes": pa.array(total[order]),
        "messages": pa.array(messages[order]),
    }
    keys = ("source_rank", "destination_rank", "group")
    return Frame("traffic", title, METRICS.columns(*data), pa.table(data), keys, "group", Sort("traffic_bytes", True))


def traffic_map(frame: Frame, nodes: Mapping[int, str] = MappingProxyType({})) -> Series:
    """Returns a matrix of sent bytes. Rows are senders, and columns are receivers.

    More than ``MOST_DRAWN`` ranks are grouped by node, or into blocks of neighbouring ranks if nodes are unknown.
    ``nodes`` maps ranks to nodes.
    """
    source, target, size = (frame.data[key].to_numpy() for key in ("source_rank", "destination_rank", "traffic_bytes"))
    ranks = np.unique(np.concatenate((source, target)))
    what, titles, row_of = _rows(ranks, nodes)
    cells = np.zeros((len(titles), len(titles)), np.int64)
    np.add.at(cells, tuple(row_of[np.searchsorted(ranks, each)] for each in (source, target)), size)
    subtitle = f"from {what} (row) to {what} (column), as reported by the calls"
    if len(ranks) > len(titles):
        subtitle += f": sums of {len(ranks):,} ranks"
    rows = {title: [value or None for value in row] for title, row in zip(titles, cells.tolist(), strict=True)}
    x = METRICS.metric("destination_rank", "To")
    return rank_map(METRICS["traffic_bytes"], "map_traffic", frame.title, subtitle, rows, titles, x)


def _rows(ranks: Int64, nodes: Mapping[int, str]) -> tuple[str, list[str], Int64]:
    """Returns the kind of the matrix rows (rank, node or block), the row titles, and the row of each rank."""
    if len(ranks) <= MOST_DRAWN:
        return "rank", [str(rank) for rank in ranks.tolist()], np.arange(len(ranks))
    named = [nodes.get(rank) for rank in ranks.tolist()]
    places = {name: at for at, name in enumerate(dict.fromkeys(name for name in named if name))}
    if None not in named and 1 < len(places) <= MOST_DRAWN:
        return "node", [*places], np.array([places[name] for name in named if name], np.int64)
    # The number of ranks per node or group is mostly a power of two.
    width = 1
    while int(ranks[-1]) // width - int(ranks[0]) // width >= MOST_DRAWN:
        width *= 2
    blocks, row_of = np.unique(ranks // width, return_inverse=True)
    titles = [f"{block * width}-{min((block + 1) * width - 1, int(ranks[-1]))}" for block in blocks.tolist()]
    return f"block of {width} ranks", titles, row_of


def _transfers(calls: pa.Table, own: Int64, collective: str) -> _Messages:
    """Returns the sends or receives. The matched call of the other rank provides a missing rank or size."""
    of_call, names = texts_of(calls, "collective")
    rows = np.flatnonzero(of_call == (names.index(collective) if collective in names else -1))
    if not len(rows):
        return _Messages(rows, rows, rows, rows)
    match, size = numbers_of(calls, "match"), numbers_of(calls, "comm_bytes")
    # The sum of the two rows of a match, minus one row, is the other row.
    matched = np.flatnonzero(match >= 0)
    pairs = int(match.max(initial=-1)) + 1
    both, count = sum_by(match[matched], matched, pairs), np.bincount(match[matched], minlength=pairs)
    is_pair = np.append(count, 0)[match[rows]] == 2
    other = np.where(is_pair, np.append(both, 0)[match[rows]] - rows, -1)
    peer, other_size = np.append(own, -1)[other], np.append(size, -1)[other]
    ends = [numbers_of(calls, key)[rows] for key in ("source_rank", "destination_rank")]
    mine = own[rows]
    defaults = (mine, peer) if collective == "send" else (peer, mine)
    source, target = (np.where(end >= 0, end, default) for end, default in zip(ends, defaults, strict=True))
    return _Messages(rows, source, target, np.where(size[rows] >= 0, size[rows], other_size))


def _splits(calls: pa.Table, members: pa.Table, own: Int64, key: str) -> Iterator[_Messages]:
    """Yields the messages of all-to-alls that report splits.

    Calls with an unknown dtype, rank or group are skipped.
    """
    if key not in calls.column_names:
        return
    lists, ranks = calls[key].combine_chunks(), members["ranks"].combine_chunks()
    count, places, group = _lengths(lists), _lengths(ranks), numbers_of(calls, "group_code")
    unit = _units(calls)
    rows = np.flatnonzero((count > 0) & (count == places[group]) & (own >= 0) & (unit > 0))
    if not len(rows):
        return
    begins = np.cumsum(places) - places
    row = np.repeat(rows, count[rows])
    place = np.arange(len(row)) - np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])
    other = ranks.flatten().to_numpy()[begins[group[row]] + place]
    size = lists.take(pa.array(rows)).flatten().to_numpy().astype(np.int64) * unit[row]
    # An empty split is no message.
    size = np.where(size > 0, size, -1)
    source, target = (own[row], other) if key == "sent_splits" else (other, own[row])
    yield _Messages(row, source, target, size)


def _units(calls: pa.Table) -> Int64:
    """Returns the bytes per unit of the splits of each call (0 for unknown dtypes).

    A unit is an element or a row of elements. Splits are in rows if the bytes of the call are a multiple of the sum
    of the splits. Rows have equal sizes on all ranks of a collective.
    """
    dtype, names = texts_of(calls, "dtype")
    width = np.array([element_bytes(name or "") or 0 for name in names], np.int64)[dtype]
    lists = calls["sent_splits"].combine_chunks()
    row = np.repeat(np.arange(len(lists)), _lengths(lists))
    splits = pc.fill_null(lists.flatten(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    total, size, match = sum_by(row, splits, len(lists)), numbers_of(calls, "comm_bytes"), numbers_of(calls, "match")
    unit = np.where((total > 0) & (size > 0), size // np.maximum(total, 1), 0)
    unit[unit * total != size] = 0
    most = np.zeros(int(match.max(initial=-1)) + 2, np.int64)
    np.maximum.at(most, match, unit)
    most[-1] = 0  # for unmatched calls
    return np.where(width > 0, np.maximum(np.maximum(unit, most[match]), width), 0)


def _lengths(lists: pa.Array) -> Int64:
    found: Int64 = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
