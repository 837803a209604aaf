"""Flow arrows between events, from flow events and ``bind_id``.

Phase ``s`` starts an arrow, ``t`` continues it, and ``f`` ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tb_plugin.formats._chrome.columns import Column, int32s
from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.formats._chrome.interning import Ids, Interner, as_text
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import ArrowEnds

_RANK = {"s": 0, "t": 1, "f": 2}
BEGIN, STEP, END = range(3)


class Keys(Ids):
    """Maps arrow keys (category, id, scope, process) to integers. The ids 7, "7" and "0x7" are equal."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        super().__init__(self._number)

    def take_piece(self) -> list[tuple[str, ...]]:
        """Returns and removes the keys, in the order of their numbers."""
        keys, self._numbers = list(self._numbers), {}
        self.clear()
        return keys

    def merge(self, keys: Sequence[tuple[str, ...]]) -> Int32:
        """Adds the keys of a piece. Returns their numbers."""
        return int32s([self._numbers.setdefault(key, len(self._numbers)) for key in keys])

    def _number(self, key: tuple[Any, ...]) -> int:
        texts = ["" if part is None else str(part) if type(part) is int else id_text(part) for part in key]
        return self._numbers.setdefault(tuple(texts), len(self._numbers))


def id_text(value: Any) -> str:
    """Returns the decimal text of an id, also for hexadecimal ids."""
    text = as_text(value)
    if text[:2] in ("0x", "0X"):
        try:
            return str(int(text, 16))
        except ValueError:
            return text
    return text


def scoped_key(event: ChromeEvent) -> tuple[Any, Any, Any, Any]:
    """Returns the key of an operation or arrow: category, id, scope, and the process if the id is local to it."""
    if event.id is None and isinstance(event.id2, dict):
        local = event.id2.get("local")
        if local is not None:
            return (event.cat, _hashable(local), _hashable(event.scope), ("local", _hashable(event.pid)))
        return (event.cat, _hashable(event.id2.get("global")), _hashable(event.scope), None)
    return (event.cat, _hashable(event.id), _hashable(event.scope), None)


def _hashable(value: Any) -> Any:
    return as_text(value) if isinstance(value, list | dict) else value


ArrowsPiece = tuple[list[tuple[str, ...]], dict[str, Any]]


class Arrows:
    """Collects the starts and ends of flow arrows, in any order."""

    def __init__(self, interner: Interner, in_pairs: frozenset[str] = frozenset()) -> None:
        """``in_pairs``: names of arrows that may share an id; the n-th start is then matched to the n-th end."""
        self._interner = interner
        self._paired_names = in_pairs
        self._keys = Keys()
        self._columns = {
            "time": Column(np.int64),
            "rank": Column(np.uint8),
            "next": Column(np.bool_),
            **{name: Column(np.int32) for name in ("key", "name", "pid", "tid", "row")},
        }

    def add(self, events: Sequence[ChromeEvent], time_ns: Int64) -> None:
        if not events:
            return
        keys, names = self._interner.keys, self._interner.names
        self._append(
            key=self._keys.of([scoped_key(event) for event in events]),
            rank=np.array([_RANK[event.ph] for event in events], np.uint8),
            time=time_ns,
            name=names.of([event.name for event in events]),
            pid=keys.of([event.pid for event in events]),
            tid=keys.of([event.tid for event in events]),
            next=np.array([event.ph == "f" and event.bp != "e" for event in events], np.bool_),
            row=np.full(len(events), MISSING, np.int32),
        )

    def add_bound(self, ids: Sequence[Any], outward: Sequence[bool], rows: Int64, columns: dict[str, Any]) -> None:
        """Appends ranges with a ``bind_id``. ``ids``: id, and whether an arrow ends there. ``outward``: one starts there."""
        incoming = np.array([into for _, into in ids], np.bool_)
        out = np.array(outward, np.bool_)
        self._append(
            key=self._keys.of([("bind_id", _hashable(bind_id), None, None) for bind_id, _ in ids]),
            rank=np.where(out, np.where(incoming, STEP, BEGIN), END).astype(np.uint8),
            next=np.zeros(len(ids), np.bool_),
            row=rows.astype(np.int32),
            **columns,
        )

    def take_piece(self) -> ArrowsPiece:
        return self._keys.take_piece(), {name: column.take() for name, column in self._columns.items()}

    def merge(self, piece: ArrowsPiece, first_row: int, ids: Int32) -> None:
        numbers, columns = self._keys.merge(piece[0]), piece[1]
        for name, column in columns.items():
            if name == "key":
                column = numbers[column]
            elif name == "row":
                column = np.where(column == MISSING, column, column + np.int32(first_row))
            elif name in ("name", "pid", "tid"):
                column = ids[column]
            self._columns[name].add(column)

    def take(self, place: Int32 | None = None) -> tuple[ArrowEnds, int]:
        """Returns the arrows, and the number of flow events that belong to no arrow.

        ``place`` maps event indices to row indices. The events of each key are sorted by time. Each ``s`` starts a
        new arrow; a ``t`` or ``f`` continues it. Events before the first ``s`` also continue it, because the clocks
        of host and device differ slightly.
        """
        columns = {name: column.take() for name, column in self._columns.items()}
        key, rank, time = self._pair_keys(columns), columns["rank"], columns["time"]
        count = len(key)
        order = np.lexsort((np.arange(count), rank, time, key))
        is_first = np.concatenate(([True], key[order][1:] != key[order][:-1])) if count else np.empty(0, np.bool_)
        run = np.cumsum(is_first) - 1
        begins = np.cumsum(rank[order] == BEGIN)
        start = (begins - (rank[order] == BEGIN))[is_first][run] if count else begins
        chain = np.maximum(begins - start, 1)
        order = order[np.lexsort((np.arange(count), rank[order] != BEGIN, chain, run))]
        # This second sort only moves the first start of each key before the ends that precede it in time.
        source = np.where(rank[order] == END, MISSING, np.arange(count))
        source = np.concatenate(([MISSING], np.maximum.accumulate(source)[:-1])) if count else source
        head = np.flatnonzero((rank[order] != BEGIN) & (source != MISSING))
        head = head[(run[head] == run[source[head]])]
        tail = source[head]
        matched = np.zeros(count, np.bool_)
        matched[head] = matched[tail] = True
        head, tail = order[head], order[tail]
        by_file = np.lexsort((tail, head))
        head, tail = head[by_file], tail[by_file]
        row = columns["row"] if place is None else np.append(place, MISSING)[columns["row"]].astype(np.int32)
        ends = ArrowEnds(
            name=columns["name"][tail],
            start_time_ns=time[tail],
            start_pid=columns["pid"][tail],
            start_tid=columns["tid"][tail],
            end_time_ns=time[head],
            end_pid=columns["pid"][head],
            end_tid=columns["tid"][head],
            to_next=columns["next"][head],
            start_row=row[tail],
            end_row=row[head],
        )
        return ends, int(count - matched.sum())

    def _pair_keys(self, columns: dict[str, Any]) -> Int32:
        """Returns the key of each flow event. For names in ``in_pairs``, each pair of start and end gets a new key."""
        key: Int32 = columns["key"]
        names = [self._interner.text(name) for name in sorted(self._paired_names)]
        paired = np.flatnonzero(np.isin(columns["name"], names))
        if not len(paired):
            return key
        side = key[paired].astype(np.int64) * len(_RANK) + columns["rank"][paired]
        order = np.argsort(side, kind="stable")
        begins = np.concatenate(([True], side[order][1:] != side[order][:-1]))
        nth = np.empty(len(paired), np.int64)
        nth[order] = np.arange(len(paired)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
        again = np.flatnonzero(nth > 0)
        if not len(again):
            return key
        of, _ = number_groups(key[paired[again]] * np.int64(nth.max() + 1) + nth[again])
        key = key.copy()
        key[paired[again]] = int(key.max()) + 1 + of
        return key

    def _append(self, **columns: Any) -> None:
        for name, column in columns.items():
            self._columns[name].add(column)
