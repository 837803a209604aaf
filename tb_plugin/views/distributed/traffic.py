"""Bytes sent between ranks in point-to-point messages and all-to-alls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.analysis.job_tables.links import MOST_DRAWN
from tb_plugin.lib.groupby import codes, occurrence, sum_by
from tb_plugin.payloads import Line, Metric, Series, Sort
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# maximum number of pairs of ranks in the table, largest first
MOST_PAIRS = 1 << 16


def traffic_frame(calls: pa.Table, members: pa.Table, ranks: Sequence[int | None]) -> Frame | None:
    """Returns the bytes sent from rank to rank, or None if no message has a known size.

    ``calls`` has the matched calls of all workers, ``members`` has the ranks of each ``group_code``, and ``ranks``
    has the rank of each worker. If both ends of a message are loaded, the message counts once, with the sender's
    size. Messages of unknown size or with an unknown end are omitted.
    """
    known_ranks = _ranks(calls, ranks)
    own = known_ranks[numbers_of(calls, "worker")]
    found = [_Messages.none(), *_transfers(calls, own, known_ranks), *_splits(calls, members, own, known_ranks)]
    every = _Messages(*(np.concatenate([getattr(one, each) for one in found]) for each in _Messages.__struct_fields__))
    if not len(every.size):
        return None
    group = texts_of(calls, "group")
    group_of = group[0][every.row]
    code = codes(group_of, every.source, every.target)
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    size, messages, differing = (np.zeros(len(first), np.int64) for _ in range(3))
    np.add.at(size, place, every.size)
    np.add.at(messages, place, 1)
    np.add.at(differing, place, every.differs)
    order = np.lexsort((every.target[first], every.source[first], -size))
    title = "Traffic" if len(order) <= MOST_PAIRS else f"Traffic, the {MOST_PAIRS:,} largest of {len(order):,} pairs"
    order = order[:MOST_PAIRS]
    data = {
        "source_rank": pa.array(every.source[first][order]),
        "destination_rank": pa.array(every.target[first][order]),
        "group": pa.array([group[1][each] for each in group_of[first][order].tolist()], pa.string()),
        "traffic_bytes": pa.array(size[order]),
        "messages": pa.array(messages[order]),
        "differing_messages": pa.array(differing[order]),
    }
    keys = ("source_rank", "destination_rank", "group")
    hidden = () if differing.any() else ("differing_messages",)
    columns = METRICS.columns(*data, hidden=hidden)
    return Frame("traffic", title, columns, pa.table(data), keys, "group", Sort("traffic_bytes", True))


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
    metric, x = METRICS["traffic_bytes"], METRICS.metric("destination_rank", "To")
    lines = [
        Line(
            Metric(f"rank_{title}", title, metric.unit, metric.definition, metric.window),
            "communication",
            [value or None for value in row],
        )
        for title, row in zip(titles, cells.tolist(), strict=True)
    ]
    return Series("map_traffic", frame.title, subtitle, x, [*titles], lines, "lines")


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


class _Messages(msgspec.Struct, frozen=True, eq=False):
    """Messages between ranks: one row per message.

    ``row`` is the call that reports the message. ``differs`` marks messages whose ends report different sizes.
    """

    row: Int64
    source: Int64
    target: Int64
    size: Int64
    differs: Bool

    @staticmethod
    def none() -> _Messages:
        empty = np.empty(0, np.int64)
        return _Messages(empty, empty, empty, empty, np.empty(0, np.bool_))

    def take(self, keep: Bool) -> _Messages:
        return _Messages(self.row[keep], self.source[keep], self.target[keep], self.size[keep], self.differs[keep])


def _ranks(calls: pa.Table, ranks: Sequence[int | None]) -> Int64:
    """Returns the rank of each worker (-1 = unknown).

    A rank that is not reported comes from the sends and receives of the worker.
    """
    known_ranks = np.array([-1 if rank is None else rank for rank in ranks], np.int64)
    worker, (collective, names) = numbers_of(calls, "worker"), texts_of(calls, "collective")
    for word, key in (("send", "source_rank"), ("recv", "destination_rank")):
        if word in names:
            end = numbers_of(calls, key)
            rows = np.flatnonzero((collective == names.index(word)) & (end >= 0) & (known_ranks[worker] < 0))
            known_ranks[worker[rows]] = end[rows]
    return known_ranks


def _transfers(calls: pa.Table, own: Int64, known_ranks: Int64) -> list[_Messages]:
    """Returns point-to-point messages. A receive counts only if its sender is not loaded or lacks the call.

    Between two ranks, unmatched sends or unmatched receives count, whichever are more. So no message counts twice.
    """
    collective, names = texts_of(calls, "collective")
    is_send, is_receive = (collective == (names.index(word) if word in names else -1) for word in ("send", "recv"))
    rows = np.flatnonzero(is_send | is_receive)
    if not len(rows):
        return []
    match, size = numbers_of(calls, "match")[rows], numbers_of(calls, "comm_bytes")[rows]
    sends = is_send[rows]
    source, target = numbers_of(calls, "source_rank")[rows], numbers_of(calls, "destination_rank")[rows]
    other, has_other, received = _other_end(match, sends, codes(source + 1, target + 1), (source >= 0) & (target >= 0))
    # If a call is matched, its peer is known, even if the call does not report it.
    mine, theirs = own[rows], np.where(has_other, own[rows][other], -1)
    source = np.where(source >= 0, source, np.where(sends, mine, theirs))
    target = np.where(target >= 0, target, np.where(sends, theirs, mine))
    whole = np.where(size >= 0, size, np.where(has_other, size[other], -1))
    differs = has_other & (size >= 0) & (size[other] >= 0) & (size != size[other])
    counts = np.where(received, ~sends, sends | (~has_other & ~np.isin(source, known_ranks)))
    keep = counts & (source >= 0) & (target >= 0) & (whole >= 0)
    return [_Messages(rows[keep], source[keep], target[keep], whole[keep], differs[keep])]


def _other_end(match: Int64, sends: Bool, ends: Int64, known: Bool) -> tuple[Int64, Bool, Bool]:
    """Returns the index of the matching call of each send and receive, and whether a matching call exists.

    If two ranks have equally many unmatched sends and receives, these are paired in order. ``ends`` is a code for
    both ranks, valid where ``known`` is set. The third result marks unmatched calls between two ranks that have
    more receives than sends.
    """
    left = (match < 0) & known
    code = match + 1
    many = [np.bincount(ends[left & side], minlength=int(ends.max()) + 1) for side in (sends, ~sends)]
    paired = np.flatnonzero(left & (many[0] == many[1])[ends])
    nth = np.empty(len(paired), np.int64)
    for side in (sends[paired], ~sends[paired]):
        nth[side] = occurrence(ends[paired][side])
    code[paired] = int(code.max()) + 1 + codes(ends[paired], nth)
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    pair = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] > 0))
    other, has_other = np.zeros(len(match), np.int64), np.zeros(len(match), np.bool_)
    for one, two in ((order[pair], order[pair + 1]), (order[pair + 1], order[pair])):
        other[one], has_other[one] = two, True
    return other, has_other, left & (many[0] < many[1])[ends]


def _splits(calls: pa.Table, members: pa.Table, own: Int64, known_ranks: Int64) -> list[_Messages]:
    """Returns messages of all-to-alls that report splits. A received split counts only if its sender reports none."""
    unit = _units(calls)
    sent, received_parts = (
        _split_messages(calls, key, members, own, unit) for key in ("sent_splits", "received_splits")
    )
    if not len(sent.row) and not len(received_parts.row):
        return []
    match = numbers_of(calls, "match")
    rows, source, target = (
        np.concatenate([getattr(one, k) for one in (sent, received_parts)]) for k in ("row", "source", "target")
    )
    unmatched = match[rows] < 0
    label = np.where(unmatched, match.max(initial=0) + 1 + rows, match[rows])
    key = codes(label, source, target)
    mine, theirs = key[: len(sent.row)], key[len(sent.row) :]
    _, first, second = np.intersect1d(mine, theirs, return_indices=True)
    sent.differs[first] = sent.size[first] != received_parts.size[second]
    is_sent, is_single = np.arange(len(rows)) < len(sent.row), np.ones(len(rows), np.bool_)
    is_single[first] = is_single[len(sent.row) + second] = False
    received = _more_received(
        codes(numbers_of(calls, "group_code")[rows], source, target), is_sent & is_single, ~is_sent & unmatched
    )
    keep = np.where(
        is_sent, ~(is_single & received), is_single & (~unmatched | received | ~np.isin(source, known_ranks))
    )
    # Data that stays on a rank is no traffic.
    keep &= source != target
    return [one.take(kept & (one.size > 0)) for one, kept in ((sent, keep[is_sent]), (received_parts, keep[~is_sent]))]


def _more_received(ends: Int64, sent: Bool, received: Bool) -> Bool:
    """Marks messages between two ranks with more unmatched receives than sends.

    Only the receives count in this case.
    """
    sent_count, received_count = (np.bincount(ends[rows], minlength=int(ends.max()) + 1) for rows in (sent, received))
    found: Bool = (sent_count < received_count)[ends]
    return found


def _units(calls: pa.Table) -> Int64:
    """Returns the bytes per unit of the splits of each call (0 for unknown dtypes).

    A unit is an element or a row of elements. Splits are in rows if the bytes of the call are a multiple of the sum
    of the splits. Rows have equal sizes on all ranks of a collective.
    """
    dtype, names = texts_of(calls, "dtype")
    width = np.array([element_bytes(name or "") or 0 for name in names], np.int64)[dtype]
    if "sent_splits" not in calls.column_names:
        return width
    lists = calls["sent_splits"].combine_chunks()
    count = _lengths(lists)
    row = np.repeat(np.arange(len(count)), count)
    stated = sum_by(row, pc.fill_null(lists.flatten(), 0).to_numpy(zero_copy_only=False).astype(np.int64), len(count))
    size, match = numbers_of(calls, "comm_bytes"), numbers_of(calls, "match")
    unit = np.where((stated > 0) & (size > 0), size // np.maximum(stated, 1), 0)
    unit[unit * stated != size] = 0
    most = np.zeros(int(match.max(initial=-1)) + 2, np.int64)  # the last entry is for unmatched calls
    np.maximum.at(most, match, unit)
    most[-1] = 0
    return np.where(width > 0, np.maximum(np.maximum(unit, most[match]), width), 0)


def _lengths(lists: pa.Array) -> Int64:
    found: Int64 = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _split_messages(calls: pa.Table, key: str, members: pa.Table, own: Int64, unit: Int64) -> _Messages:
    """Returns the messages that the splits in column ``key`` describe.

    Calls with an unknown dtype, rank or group are skipped.
    """
    if key not in calls.column_names:
        return _Messages.none()
    lists = calls[key].combine_chunks()
    count = _lengths(lists)
    ranks = members["ranks"].combine_chunks()
    places = _lengths(ranks)
    group = numbers_of(calls, "group_code")
    fits = (count > 0) & (count == places[group]) & (own >= 0) & (unit > 0)
    rows = np.flatnonzero(fits)
    if not len(rows):
        return _Messages.none()
    begins = np.cumsum(places) - places
    row = np.repeat(rows, count[rows])
    place = np.arange(len(row)) - np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])
    other = ranks.flatten().to_numpy()[begins[group[row]] + place]
    size = lists.take(pa.array(rows)).flatten().to_numpy().astype(np.int64) * unit[row]
    source, target = (own[row], other) if key == "sent_splits" else (other, own[row])
    return _Messages(row, source, target, size, np.zeros(len(row), np.bool_)).take(size >= 0)
