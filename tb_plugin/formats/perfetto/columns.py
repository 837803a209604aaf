"""PyTorch packets as columns, for traces that are read whole.

This fast path reads host ranges whose begin and end events are in separate sequences, if each annotation is a name
and a value. Rarer packets (collectives, waits, device work, counters) are converted to JSON, as in torch.py. If the
trace contains anything else, the reader starts again without this path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from tb_plugin.formats._chrome.columns import Values
from tb_plugin.formats._chrome.events import NOT_DECODED
from tb_plugin.formats.base import ReadState
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.interned import text_json
from tb_plugin.formats.perfetto.packets import Packets
from tb_plugin.formats.perfetto.schema import BEGIN, END
from tb_plugin.formats.perfetto.torch import TorchText
from tb_plugin.formats.perfetto.wire import PADDING, Fields, Malformed, content_start, fields
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.model.trace.table import RawTrace

# categories of host ranges
_HOST_CATEGORIES = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"})
_TIMESTAMP, _TRACK_EVENT = 8, 11
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _LAUNCHED = 3, 4, 9, 10, 11, 3000
_KEY, _INTEGER = 10, 4  # name and integer of an annotation
_COLLECTIVE = b"Collective name"
_NUMBERING = frozenset({b"Ev Idx", b"Record function id"})
_MAX_NAME_BYTES = 256
_WORD_BYTES = 8
# masks for the first n bytes of a word
_MASKS = np.array([2 ** (8 * kept) - 1 for kept in range(_WORD_BYTES + 1)], np.uint64)
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Reading(Protocol):
    """A trace that is being read, to which the caller adds PyTorch events."""

    log: IssueLog

    def take_text(self, text: bytes) -> None: ...

    def text_ids(self, texts: Sequence[str]) -> Int32: ...

    def take_columns(self, start_ns: Int64, ids: Sequence[Int32], args: Mapping[str, tuple[Int64, Values]]) -> int:
        """Adds ranges without durations. Returns the index of the first row."""
        ...

    def set_durations(self, first: int, dur_ns: Int64) -> None: ...

    def state(self, fraction: float) -> ReadState: ...

    def finish(self, document: Any, stream: Any) -> RawTrace: ...


class TorchColumns:
    """A trace that is being read. Methods raise Malformed if it does not have PyTorch's layout."""

    def __init__(self, base_ns: int, reading: Reading, log: IssueLog) -> None:
        self._base = base_ns
        self._reading = reading
        self._text = TorchText(base_ns, log)
        self._begins: list[tuple[Int64, Int64]] = []  # times and tracks of all begins
        # times and tracks of all ends; runs alternate, so the k-th end matches the k-th begin
        self._ends: list[tuple[Int64, Int64]] = []
        self._begun = self._ended = 0
        self._is_ending = False
        # first row of ranges added as columns, and the indices of their begins
        self._rows: list[tuple[int, Int64]] = []
        self._text_begins: list[tuple[int, str]] = []  # indices of other begins, and their events as JSON

    def take(self, text: bytes, ends: list[int], packets: Packets, offset: int) -> None:
        """Adds undecoded packets. ``ends`` contains the end offset of each packet in ``text``."""
        data = np.frombuffer(text + PADDING, np.uint8)
        end = np.array(ends, np.int64)
        begin = content_start(data, np.append(0, end[:-1]))
        top = fields(data, begin, end)
        events, times = top.of(_TRACK_EVENT), np.zeros(len(begin), np.int64)
        stated = top.of(_TIMESTAMP)
        times[stated.message] = stated.value
        is_event = np.zeros(len(begin), np.bool_)
        is_event[events.message] = True
        if len(events.message) != is_event.sum() or (events.begin < 0).any():
            raise Malformed
        place = np.full(len(begin), -1, np.int64)
        place[events.message] = np.arange(len(events.message))
        cuts = [0, *(np.flatnonzero(np.diff(is_event)) + 1).tolist(), len(begin)]
        for first, last in pairwise(cuts):
            if is_event[first]:
                these = place[first:last]
                self._events(text, data, events.begin[these], events.end[these], times[first:last])
            else:
                start = int(end[first - 1]) if first else 0
                self._others(packets.decoded(text[start : int(end[last - 1])], offset + start))

    def finish(self) -> None:
        """Sets the durations of all ranges, and adds the events that require all packets."""
        if self._begun != self._ended:
            raise Malformed
        (start, on), (end, ended_on) = (_concatenated(each) for each in (self._begins, self._ends))
        durations = end - start
        if (durations < 0).any() or (on != ended_on).any():
            raise Malformed
        for first, which in self._rows:
            self._reading.set_durations(first, durations[which])
        texts = [f'{{"ph":"X","dur":{durations[which]}e-3,{text}}}' for which, text in self._text_begins]
        self._hand_over([*texts, *self._text.finish()])

    def _hand_over(self, texts: list[str]) -> None:
        if texts:
            try:
                self._reading.take_text(f"[{','.join(texts)}]".encode())
            except NOT_DECODED:
                raise Malformed from None

    def _others(self, batch: list[Any]) -> None:
        self._hand_over([text for text in self._text.events(batch) if text])

    def _events(self, text: bytes, data: UInt8, begin: Int64, end: Int64, times: Int64) -> None:
        found = fields(data, begin, end)
        kind, track, name, category = (
            _column(found, number, len(begin)) for number in (_TYPE, _TRACK, _NAME, _CATEGORY)
        )
        is_begin = kind == BEGIN
        if not (is_begin | (kind == END)).all() or (found.of(_CATEGORY).begin >= 0).any() or (times <= 0).any():
            raise Malformed
        self._count_runs(is_begin)
        self._ends.append((times[~is_begin], track[~is_begin]))
        annotations = found.of(_ANNOTATION)
        if (annotations.begin < 0).any() or (~is_begin[annotations.message]).any():
            raise Malformed
        ordinal = self._begun - int(is_begin.sum()) + np.cumsum(is_begin) - 1  # index of each begin in the trace
        self._begins.append((times[is_begin], track[is_begin]))
        if not is_begin.any():
            return
        args = self._args(text, data, annotations)
        is_plain = is_begin & _mapped(category, self._is_plain).astype(np.bool_)
        if _COLLECTIVE in args:
            is_plain[args[_COLLECTIVE][0]] = False
        for place in np.flatnonzero(is_begin & ~is_plain).tolist():
            description, raw = self._text.name_and_annotations(text[int(begin[place]) : int(end[place])])
            if description.kind != BEGIN:
                raise Malformed
            self._text_begins.append((int(ordinal[place]), self._text.body(int(times[place]), description, raw)))
        self._note_launches(text, found.of(_LAUNCHED), args)
        row = np.cumsum(is_plain) - 1
        kept = {}
        for key, (places, values) in args.items():
            is_own = is_plain[places]
            if not is_own.all():
                places = places[is_own]
                values = (
                    values[is_own]
                    if isinstance(values, np.ndarray)
                    else [v for v, m in zip(values, is_own, strict=True) if m]
                )
            if len(places) and key not in _NUMBERING:
                kept[key.decode("utf-8", "replace")] = (row[places], values)
        if not is_plain.any():
            return
        ids = [
            _mapped(name[is_plain], self._name),
            _mapped(category[is_plain], self._category),
            _mapped(track[is_plain], lambda uuid: self._id(self._place(uuid)[0])),
            _mapped(track[is_plain], lambda uuid: self._id(self._place(uuid)[1])),
        ]
        first = self._reading.take_columns(times[is_plain] - self._base, [each.astype(np.int32) for each in ids], kept)
        self._rows.append((first, ordinal[is_plain]))

    def _count_runs(self, is_begin: Bool) -> None:
        """Counts begin and end events. Raises Malformed if a range starts inside the previous sequence."""
        cuts = [0, *(np.flatnonzero(np.diff(is_begin)) + 1).tolist(), len(is_begin)]
        for first, last in pairwise(cuts):
            if is_begin[first]:
                if self._is_ending and self._ended != self._begun:
                    raise Malformed
                self._begun += last - first
            else:
                self._ended += last - first
            self._is_ending = not is_begin[first]

    def _args(self, text: bytes, data: UInt8, annotations: Fields) -> dict[bytes, tuple[Int64, Values]]:
        if not len(annotations.message):
            return {}
        found = fields(data, annotations.begin, annotations.end)
        names, whole = found.of(_KEY), found.of(_INTEGER)
        count = len(annotations.message)
        if (
            len(names.message) != count
            or (np.bincount(names.message, minlength=count) != 1).any()
            or (names.begin < 0).any()
        ):
            raise Malformed
        begin, end = np.empty(count, np.int64), np.empty(count, np.int64)
        begin[names.message], end[names.message] = names.begin, names.end
        values, is_integer = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        values[whole.message], is_integer[whole.message] = whole.value, whole.begin < 0
        args: dict[bytes, tuple[Int64, Values]] = {}
        for which in _alike(data, begin, end):
            name = text[int(begin[which[0]]) : int(end[which[0]])]
            if name in args:
                raise Malformed
            stated: Values = values[which]
            if not is_integer[which].all() and name not in _NUMBERING:
                stated = self._texts(text, annotations.begin[which], annotations.end[which], name)
            args[name] = (annotations.message[which], stated)
        return args

    def _texts(self, text: bytes, begin: Int64, end: Int64, name: bytes) -> list[bytes]:
        known, head = self._text.annotations, f"{text_json(name.decode('utf-8', 'replace'))}:"
        members = [known[text[first:last]] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]
        distinct = {member: member[len(head) :].encode() for member in set(members)}
        if not all(member.startswith(head) for member in distinct):
            raise Malformed
        return [distinct[member] for member in members]

    def _note_launches(self, text: bytes, launched: Fields, args: Mapping[bytes, tuple[Int64, Values]]) -> None:
        if not len(launched.message) or b"correlation" not in args:
            return
        places, values = args[b"correlation"]
        if isinstance(values, list):
            raise Malformed
        known = dict(zip(places.tolist(), values.tolist(), strict=True))
        for place, begin, end in zip(
            launched.message.tolist(), launched.begin.tolist(), launched.end.tolist(), strict=True
        ):
            if place in known and begin >= 0:
                self._text.note_launched(text[begin:end], known[place])

    def _is_plain(self, category: int) -> int:
        return self._text.interned.categories.get(category, "") in _HOST_CATEGORIES

    def _name(self, name: int) -> int:
        return self._id(self._text.interned.names.get(name, f"(name {name})"))

    def _category(self, category: int) -> int:
        return self._id(self._text.interned.categories.get(category, ""))

    def _place(self, track: int) -> tuple[str, str]:
        pid, tid = self._text.place(track % 2**64)
        return pid.strip('"'), tid.strip('"')

    def _id(self, text: str) -> int:
        return int(self._reading.text_ids([text])[0])


def _concatenated(parts: list[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(time for time, _ in parts)]), np.concatenate([none, *(track for _, track in parts)])


def _column(found: Fields, number: int, count: int) -> Int64:
    """Returns the last value of one field in each message; 0 = missing."""
    chosen = found.of(number)
    column = np.zeros(count, np.int64)
    column[chosen.message] = chosen.value
    return column


def _mapped(values: Int64, make: Callable[[int], int]) -> Int64:
    distinct, which = np.unique(values, return_inverse=True)
    made: Int64 = np.array([make(value) for value in distinct.tolist()], np.int64)[which] if len(distinct) else values
    return made


def _alike(data: UInt8, begin: Int64, end: Int64) -> list[Int64]:
    """Returns the ascending indices of equal texts. Raises Malformed if a text is too long for a name."""
    length = end - begin
    if int(length.max()) > _MAX_NAME_BYTES:
        raise Malformed
    every = np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data, strides=(1,))
    words = [length.astype(np.uint64)]
    for offset in range(0, int(length.max()), _WORD_BYTES):
        words.append(every[np.minimum(begin + offset, end)] & _MASKS[np.clip(length - offset, 0, _WORD_BYTES)])
    mixed = np.zeros(len(begin), np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _MIXER
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if any((word != word[first][which]).any() for word in words):
        raise Malformed
    order = np.argsort(which.astype(np.uint16) if len(first) < 2**16 else which, kind="stable")
    return np.split(order, np.cumsum(np.bincount(which))[:-1])
