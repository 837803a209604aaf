"""Vectorised scan for similar events in a pickle.

The result equals that of the opcode machine; a property test compares the two. Unusual content is left to the
machine. An event is ``}`` [memo] ``(`` (key value)* ``u``. Keys are references to earlier texts. Values are
numbers, texts, references, pairs of numbers, or lists of references.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int64

Bytes = npt.NDArray[np.uint8]

MAX_KEYS = 24  # keys per event; longer events are left to the machine
MAX_FRAMES = 4096
_PAD = 32  # zeros after a piece, so that lookahead stays within the buffer
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_SALT = np.uint64(secrets.randbits(64))  # random, so that hash collisions cannot be constructed

# forms of a value; not an Enum, because its member lookup is too slow here
ABSENT, NUMBER, REFERENCE, TEXT, PAIR, LIST, NONE, OTHER = range(8)


class Values(msgspec.Struct):
    form: Bytes
    value: Int64  # number, memo index, hash of a list, or offset of a text
    extra: Int64  # second number, length of a text, or offset of a list
    memo: Int64  # memo index, relative to the event's first one if implicit; -1 if not memoized

    @classmethod
    def none(cls, count: int) -> Values:
        return cls(
            np.zeros(count, np.uint8),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
        )

    def at(self, rows: Any) -> Values:
        return Values(self.form[rows], self.value[rows], self.extra[rows], self.memo[rows])


class Scan(msgspec.Struct):
    """Events found in part of a pickle, sorted by start. Between them there may be bytes that were not read."""

    start: Int64
    end: Int64
    memo: Int64  # memo index of the event, as in ``Values.memo``
    memoized: Int64  # number of implicit memo indices used by each event
    is_explicit: Bool  # memo indices are written in the file
    fields: dict[int, Values] = msgspec.field(default_factory=dict)

    def run_from(self, at: int) -> tuple[int, int]:
        """Returns the range ``[first, last)`` of consecutive events that start at ``at``; may be empty."""
        first = int(np.searchsorted(self.start, at))
        if first == len(self.start) or self.start[first] != at:
            return first, first
        gaps = np.flatnonzero(self.start[first + 1 :] != self.end[first:-1])
        last = first + 1 + int(gaps[0]) if len(gaps) else len(self.start)
        return first, last


class _Piece:
    def __init__(self, buffer: bytes, begin: int, end: int) -> None:
        self.bytes = np.frombuffer(buffer[begin:end] + bytes(_PAD), np.uint8)
        self.size = end - begin
        self.longs: npt.NDArray[np.uint64] = np.ndarray(
            (len(self.bytes) - 7,), "<u8", self.bytes.tobytes(), strides=(1,)
        )

    def unsigned(self, at: Int64, size: int) -> Int64:
        mask = np.uint64((1 << (8 * size)) - 1)
        return (self.longs[at] & mask).astype(np.int64)


def scan(buffer: bytes, begin: int, end: int, keys: npt.NDArray[np.int8]) -> Scan:
    """Returns the complete events in ``buffer[begin:end]``. ``keys``: field of each memo index; -1 = none."""
    piece = _Piece(buffer, begin, end)
    reading = _Reading(piece, keys)
    found = reading.read()
    for name in ("start", "end"):
        setattr(found, name, getattr(found, name) + begin)
    for values in found.fields.values():
        places = values.form == TEXT
        values.value[places] += begin
        places = values.form == LIST
        values.extra[places] += begin
    return found


class _Reading:
    """A scan in progress. ``at`` is the current offset of each candidate event. ``good`` flags the valid candidates."""

    def __init__(self, piece: _Piece, keys: npt.NDArray[np.int8]) -> None:
        self.piece = piece
        self.keys = np.append(keys, np.int8(-1))
        text = piece.bytes
        dicts = np.flatnonzero(text[:-_PAD] == ord("}"))
        after = text[dicts + 1]
        length = _memo_length(after)
        self.start = dicts[text[dicts + 1 + length] == ord("(")]
        count = len(self.start)
        self.at = self.start + 1
        self.good = np.ones(count, np.bool_)
        self.memoized = np.zeros(count, np.int64)
        self.explicit = np.zeros(count, np.bool_)
        self.fields: dict[int, Values] = {}
        self.memo = np.full(count, -1, np.int64)
        self._memoize(np.arange(count), self.memo)
        self.at += 1  # the mark

    def read(self) -> Scan:
        active = np.arange(len(self.start))
        for _ in range(MAX_KEYS):
            active = self._one_key(active)
            if not len(active):
                break
        self.good[active] = False
        kept = np.flatnonzero(self.good & (self.at <= self.piece.size))
        # Candidates inside an event are discarded. They occur because texts and numbers may contain any bytes.
        start, stop = self.start[kept], self.at[kept]
        reach = np.maximum.accumulate(np.append(0, stop))[:-1]
        kept = kept[start >= reach]
        return Scan(
            self.start[kept],
            self.at[kept],
            self.memo[kept],
            self.memoized[kept],
            self.explicit[kept],
            {key: values.at(kept) for key, values in self.fields.items()},
        )

    def _drop(self, rows: Int64) -> None:
        self.good[rows] = False
        self.at[rows] = 0

    def _memoize(self, rows: Int64, memo: Int64) -> None:
        """Reads an optional memo opcode, and stores the memo index in ``memo``, which has one item per candidate."""
        op = self.piece.bytes[self.at[rows]]
        implicit = rows[op == 0x94]
        memo[implicit] = self.memoized[implicit]
        self.memoized[implicit] += 1
        self.at[implicit] += 1
        for code, size in ((ord("q"), 1), (ord("r"), 4)):
            stated = rows[op == code]
            if len(stated):
                memo[stated] = self.piece.unsigned(self.at[stated] + 1, size)
                self.explicit[stated] = True
                self.at[stated] += 1 + size

    def _one_key(self, active: Int64) -> Int64:
        """Reads the next key and value of the active candidates. Returns the candidates that have more keys."""
        text, piece = self.piece.bytes, self.piece
        op = text[self.at[active]]
        ends = op == ord("u")
        self.at[active[ends]] += 1
        short, long = op == ord("h"), op == ord("j")
        self._drop(active[~(ends | short | long)])
        active, short = active[short | long], short[short | long]
        if not len(active):
            return active
        at = self.at[active] + 1
        key = np.where(short, piece.unsigned(at, 1), piece.unsigned(at, 4))
        self.at[active] = at + np.where(short, 1, 4)
        name = self.keys[np.minimum(key, len(self.keys) - 1)]
        self._drop(active[name < 0])
        active, name = active[name >= 0], name[name >= 0]
        for one in np.unique(name).tolist():
            self._value(active[name == one], one)
        return active[self.good[active]]

    def _value(self, rows: Int64, name: int) -> None:
        values = self.fields.setdefault(name, Values.none(len(self.start)))
        op = self.piece.bytes[self.at[rows]]
        form = _FORM[op]
        for one in np.unique(form).tolist():
            chosen = rows[form == one]
            if one == ABSENT or (values.form[chosen] != ABSENT).any():  # repeated keys are left to the machine
                self._drop(chosen)
                continue
            values.form[chosen] = one
            _READ[one](self, chosen, values)

    def _number(self, rows: Int64) -> Int64:
        text, longs = self.piece.bytes, self.piece.longs
        at = self.at[rows]
        op = text[at]
        is_long = op == 0x8A
        size = np.where(is_long, text[at + 1], _SIZE[op]).astype(np.int64)
        first = at + 1 + is_long
        bad = (size == 0) & ~is_long | (size > 8)
        size = np.where(bad, 1, size)
        raw = longs[np.minimum(first, len(longs) - 1)]
        shift = (8 * (8 - size)).astype(np.uint64)
        safe = np.minimum(shift, np.uint64(63))
        signed = (raw << safe).view(np.int64) >> safe.view(np.int64)
        signed[size == 0] = 0
        unsigned = ~is_long & (op != ord("J"))
        value = np.where(unsigned, (raw & _MASK[size]).view(np.int64), signed)
        self.at[rows] = first + size
        self._drop(rows[bad])
        return np.asarray(value, np.int64)

    def _numbers(self, rows: Int64, values: Values) -> None:
        values.value[rows] = self._number(rows)
        text = self.piece.bytes
        pairs = rows[self.good[rows] & (_FORM[text[self.at[rows]]] == NUMBER)]
        if not len(pairs):
            return
        values.form[pairs] = PAIR
        values.extra[pairs] = self._number(pairs)
        pairs = pairs[self.good[pairs]]
        is_pair = text[self.at[pairs]] == 0x86
        self._drop(pairs[~is_pair])
        pairs = pairs[is_pair]
        self.at[pairs] += 1
        self._memoize(pairs, values.memo)

    def _reference(self, rows: Int64, values: Values) -> None:
        at = self.at[rows]
        short = self.piece.bytes[at] == ord("h")
        values.value[rows] = np.where(short, self.piece.unsigned(at + 1, 1), self.piece.unsigned(at + 1, 4))
        self.at[rows] = at + np.where(short, 2, 5)

    def _text(self, rows: Int64, values: Values) -> None:
        at = self.at[rows]
        short = self.piece.bytes[at] == 0x8C
        size = np.where(short, self.piece.unsigned(at + 1, 1), self.piece.unsigned(at + 1, 4))
        begin = at + np.where(short, 2, 5)
        values.value[rows], values.extra[rows] = begin, size
        self._advance(rows, begin + size)
        self._memoize(rows[self.good[rows]], values.memo)

    def _advance(self, rows: Int64, to: Int64) -> None:
        """Moves candidates to new offsets. Drops candidates that pass the end of the piece."""
        outside = to >= self.piece.size
        self.at[rows] = np.where(outside, 0, to)
        self.good[rows[outside]] = False

    def _plain(self, rows: Int64, values: Values) -> None:
        op = self.piece.bytes[self.at[rows]]
        values.form[rows] = np.where(op == ord("N"), NONE, OTHER)
        self._advance(rows, self.at[rows] + np.where(op == ord("G"), 9, 1))

    def _list(self, rows: Int64, values: Values) -> None:
        """Reads lists of references. Stores the hash and the offset of each list."""
        text, piece = self.piece.bytes, self.piece
        self.at[rows] += 1
        self._memoize(rows, values.memo)
        at = self.at[rows]
        values.extra[rows] = at
        op = text[at]
        several = op == ord("(")
        # If the list is empty, the following reference is the next key.
        single = (_FORM[op] == REFERENCE) & (text[at + np.where(op == ord("h"), 2, 5)] == ord("a"))
        hashed = np.full(len(rows), _SALT, np.uint64)
        self.at[rows[several]] += 1
        left = np.flatnonzero(several | single)
        for _ in range(MAX_FRAMES):
            if not len(left):
                break
            position = self.at[rows[left]]
            op = text[position]
            closes = op == np.where(single[left], ord("a"), ord("e"))
            self.at[rows[left[closes]]] += 1
            goes = _FORM[op] == REFERENCE
            self._drop(rows[left[~(closes | goes)]])
            left, position, short = left[goes], position[goes], op[goes] == ord("h")
            key = np.where(short, piece.unsigned(position + 1, 1), piece.unsigned(position + 1, 4))
            mixed = (hashed[left] ^ (key.astype(np.uint64) + np.uint64(1))) * _MIX
            hashed[left] = mixed ^ (mixed >> _SHIFT)
            self._advance(rows[left], position + np.where(short, 2, 5))
            left = left[self.good[rows[left]]]
        self._drop(rows[left])
        values.value[rows] = hashed.view(np.int64)
        # Python memoizes a list before its items, C++ after them.
        self._memoize(rows[self.good[rows] & (values.memo[rows] < 0)], values.memo)


def _memo_length(op: Bytes) -> Int64:
    found: Int64 = _MEMO[op]
    return found


def _table(values: dict[int, int], dtype: type[Any]) -> npt.NDArray[Any]:
    made = np.zeros(256, dtype)
    for code, value in values.items():
        made[code] = value
    return made


_MEMO = _table({0x94: 1, ord("q"): 2, ord("r"): 5}, np.int64)
_SIZE = _table({ord("K"): 1, ord("M"): 2, ord("J"): 4}, np.int64)
_FORM = _table(
    {
        **dict.fromkeys((ord("K"), ord("M"), ord("J"), 138), NUMBER),
        **dict.fromkeys(b"hj", REFERENCE),
        **dict.fromkeys((140, ord("X")), TEXT),
        **dict.fromkeys((ord("G"), 136, 137), OTHER),
        ord("N"): NONE,
        ord("]"): LIST,
    },
    np.uint8,
)
_MASK = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
_READ = {
    NUMBER: _Reading._numbers,
    REFERENCE: _Reading._reference,
    TEXT: _Reading._text,
    NONE: _Reading._plain,
    OTHER: _Reading._plain,
    LIST: _Reading._list,
}
