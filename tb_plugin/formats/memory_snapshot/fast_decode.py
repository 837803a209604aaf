"""Conversion of scanned events to columns and memo indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.formats._pickle.machine import Machine
from tb_plugin.formats._pickle.memo import OBJECT, POOL_ID, ROW, STACK, TEXT_ID, Memo
from tb_plugin.formats.memory_snapshot.fast_scan import (
    ABSENT,
    LIST,
    NONE,
    NUMBER,
    PAIR,
    REFERENCE,
    TEXT,
    Scan,
    Values,
    scan,
)
from tb_plugin.formats.memory_snapshot.store import MAX_US, Store
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.snapshot.table import Action
from tb_plugin.model.trace.schema import MISSING

# event keys that have a column; other keys are skipped
KEYS = (
    *(
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "compile_context",
        "user_metadata",
        "pool_id",
        "frames",
        "category",
    ),
    "device_free",
)
ACTION, ADDRESS, SIZE, STREAM, TIME, CONTEXT, METADATA, POOL, FRAMES, CATEGORY, FREE = range(len(KEYS))
_FIELD_NUMBERS = {key: number for number, key in enumerate(KEYS)}
_MIN_PIECE_BYTES = 64 * 1024
_MAX_PIECE_BYTES = 4 * 1024 * 1024
_MISSES = 8  # consecutive events left to the machine before the next scan, which knows more keys
_MIN_RUN = 16  # shorter runs are faster in the machine
_MAX_MACHINE_EVENTS = 4096


class Runs:
    """Reads many consecutive events of a file in one step."""

    def __init__(self, rows: Store) -> None:
        self._rows = rows
        self._scan: Scan | None = None
        self._base = 0
        self._end = 0
        self._misses = 0
        self._piece = _MIN_PIECE_BYTES
        self._rest = self._pause = 0  # number of events left to the machine after a short run
        self._keys = np.full(1, -1, np.int8)
        self._stacks: dict[int, int] = {}

    def take(self, device: int, machine: Machine) -> None:
        """Reads consecutive events, starting at the machine's position."""
        if self._rest:
            self._rest -= 1
            return
        while machine.buffer[machine.at : machine.at + 1] == b"}":
            found = self._scanned(machine)
            first, last = found.run_from(machine.at)
            taken = 0
            if first < last:
                machine.flush()
                taken = self._run(device, machine, found, first, last)
            if not taken:
                self._misses += 1
                return
            self._misses = 0
            self._pause = min(2 * self._pause + _MIN_RUN, _MAX_MACHINE_EVENTS) if taken < _MIN_RUN else 0
            self._rest = self._pause
            machine.at = int(found.end[first + taken - 1])
            machine.look_ahead()

    def _scanned(self, machine: Machine) -> Scan:
        known = self._scan is not None and self._base == machine.base and machine.at < self._end
        if self._scan is not None and known and self._misses < _MISSES:
            return self._scan
        self._piece = _MIN_PIECE_BYTES if self._misses else min(8 * self._piece, _MAX_PIECE_BYTES)
        self._misses = 0
        keys = machine.memo.words
        self._keys = np.full(max(keys, default=0) + 1, -1, np.int8)
        for number, text in keys.items():
            self._keys[number] = _FIELD_NUMBERS.get(text, len(KEYS))
        end = min(len(machine.buffer), machine.at + self._piece)
        self._scan = scan(machine.buffer, machine.at, end, self._keys)
        self._base = machine.base
        # Events that cross the end of the piece are part of the next piece.
        is_cut = end < len(machine.buffer) and len(self._scan.end)
        self._end = int(self._scan.end[-1]) if is_cut else end
        return self._scan

    def _run(self, device: int, machine: Machine, found: Scan, first: int, last: int) -> int:
        """Reads events ``first`` to ``last``, but stops at an invalid event. Returns the number of events read."""
        explicit = bool(found.is_explicit[first])
        counts = found.memoized[first:last]
        odd = found.is_explicit[first:last] != explicit
        if explicit:
            numbers = [found.memo, *(values.memo for values in found.fields.values())]
            highest = np.max([each[first:last] for each in numbers], axis=0)
            odd |= (counts > 0) | (highest >= machine.memo.limit)
        if odd.any():
            last = first + int(np.argmax(odd))
            counts = counts[: last - first]
        if first == last:
            return 0
        memo = machine.memo
        own = found.memo[first:last]
        # Events may only refer to objects memoized before them.
        if explicit:
            base = np.zeros(len(counts), np.int64)
            before = np.append(memo.top - 1, highest[: len(counts) - 1])
            known = np.maximum.accumulate(before) + 1
        else:
            base = known = memo.count + np.cumsum(counts) - counts
        fields = {key: values.at(slice(first, last)) for key, values in found.fields.items()}
        run = _Run(self._rows, self._stacks, memo, machine.buffer, fields, base, known)
        columns = run.columns()
        good = len(counts) if not run.bad.any() else int(np.argmax(run.bad))
        if good:
            self._add_events(device, columns, good)
            memo.codes((own + base)[:good][own[:good] >= 0], ROW, np.zeros(int((own[:good] >= 0).sum()), np.int32))
            memo.count += sum(int((values.memo[:good] >= 0).sum()) for values in fields.values()) + int(
                (own[:good] >= 0).sum()
            )
        return good

    def _add_events(self, device: int, columns: dict[str, npt.NDArray[Any]], good: int) -> None:
        rows = self._rows
        rows.spend(good)
        rows.loaded += good
        rows.events_loaded += good
        unknown = columns["action"][:good] == Action.UNKNOWN
        if unknown.any():
            for text, count in zip(*np.unique(columns["text"][:good][unknown], return_counts=True), strict=True):
                rows.unknown_actions(int(text), int(count))
        kept = {name: values[:good] for name, values in columns.items() if name != "text"}
        rows.events.add({"device": np.full(good, device, np.int16), **kept})


@dataclass
class _Run:
    """Consecutive events to convert to columns. ``bad`` flags the events that the machine has to read."""

    rows: Store
    stacks: dict[int, int]
    memo: Memo
    buffer: bytes
    fields: dict[int, Values]
    base: Int64
    known: Int64  # exclusive upper limit of memo indices that may be referenced

    def __post_init__(self) -> None:
        self.bad: Bool = np.zeros(len(self.base), np.bool_)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        text = self._texts(ACTION)
        self.bad |= text < 0
        names = np.unique(text[text >= 0])
        table = np.full((int(names.max()) if len(names) else 0) + 1, Action.UNKNOWN, np.int8)
        table[names] = [self.rows.action(name) for name in names.tolist()]
        action = np.where(text >= 0, table[np.maximum(text, 0)], Action.UNKNOWN)
        is_oom = action == Action.OOM
        address, has_address = self._numbers(ADDRESS)
        free, has_free = self._numbers(FREE)
        size, has_size = self._numbers(SIZE)
        time, has_time = self._numbers(TIME)
        self.bad |= ~has_size | (size < 0) | np.where(is_oom, ~has_free, ~has_address)
        has_time &= (time >= 0) & (time <= MAX_US)
        return {
            "text": text,
            "action": action,
            "address": np.where(is_oom, free, address),
            "size": size,
            "stream": self._streams(),
            "time_ns": np.where(has_time, time, 0) * np.where(has_time, 1000, 0) + np.where(has_time, 0, MISSING),
            "stack": self._stack_ids(),
            "pool": self._pools(),
            "context": self._texts(CONTEXT),
            "metadata": self._texts(METADATA),
            "category": self._texts(CATEGORY),
        }

    def _field(self, field: int) -> Values:
        return self.fields.get(field) or Values.none(len(self.base))

    def _numbers(self, field: int) -> tuple[Int64, Bool]:
        values = self._field(field)
        is_number = values.form == NUMBER
        # Values that are not plain numbers are left to the machine.
        self.bad |= ~(is_number | (values.form == ABSENT))
        return values.value, is_number

    def _streams(self) -> Int64:
        value, is_number = self._numbers(STREAM)
        return self._numbered(value, is_number, self.rows.stream)

    def _numbered(self, value: Int64, is_number: Bool, number: Any) -> Int64:
        made = np.full(len(value), MISSING, np.int64)
        distinct, which = np.unique(value[is_number], return_inverse=True)
        made[is_number] = (
            np.array([number(each) for each in distinct.tolist()], np.int64)[which.ravel()] if len(distinct) else 0
        )
        return made

    def _pools(self) -> Int64:
        values = self._field(POOL)
        pair = values.form == PAIR
        made = np.full(len(self.base), MISSING, np.int64)
        if pair.any():
            both = np.column_stack((values.value[pair], values.extra[pair]))
            distinct, which = (
                np.unique(both, axis=0, return_inverse=True)
                if (both != both[0]).any()
                else (both[:1], np.zeros(len(both), np.int64))
            )
            made[pair] = np.array([self.rows.pool(tuple(each)) for each in distinct.tolist()], np.int64)[which.ravel()]
            self._memoize(values, pair, POOL_ID, made)
        return self._referred(values, pair, POOL_ID, made)

    def _texts(self, field: int) -> Int64:
        values = self._field(field)
        text = values.form == TEXT
        made = np.full(len(self.base), MISSING, np.int64)
        if text.any():
            found = _cut(self.buffer, values.value[text], values.extra[text]).dictionary_encode()
            ids = [self.rows.texts.of(each.decode("utf-8", "replace")) for each in found.dictionary.to_pylist()]
            made[text] = np.array(ids, np.int64)[found.indices.to_numpy()]
            self._memoize(values, text, TEXT_ID, made)
        return self._referred(values, text, TEXT_ID, made)

    def _stack_ids(self) -> Int64:
        values = self._field(FRAMES)
        inline = values.form == LIST
        made = np.full(len(self.base), MISSING, np.int64)
        if inline.any():
            distinct, first, which = np.unique(values.value[inline], return_index=True, return_inverse=True)
            places = values.extra[inline][first]
            ids = [self._stack(key, place) for key, place in zip(distinct.tolist(), places.tolist(), strict=True)]
            made[inline] = np.array(ids, np.int64)[which.ravel()]
            self.bad |= inline & (made == MISSING)
            self._memoize(values, inline & (made != MISSING), STACK, made)
        return self._referred(values, inline, STACK, made)

    def _stack(self, key: int, at: int) -> int:
        """Returns the id of the stack whose reference list is at a buffer offset, or -1 if the list is not a stack."""
        found = self.stacks.get(key)
        if found is None:
            frames = []
            for number in decode_references(self.buffer, at):
                frame = self.memo.objects.get(number)
                if type(frame) is not dict:
                    return MISSING
                frames.append(self.rows.stacks.frame(frame))
            self.rows.spend(len(frames))
            found = self.stacks[key] = self.rows.stacks.numbered(tuple(frames))
        return found

    def _memoize(self, values: Values, chosen: Bool, kind: int, made: Int64) -> None:
        chosen = chosen & (values.memo >= 0)
        self.memo.codes((values.memo + self.base)[chosen], kind, made[chosen])

    def _referred(self, values: Values, done: Bool, kind: int, made: Int64) -> Int64:
        rows = np.flatnonzero(values.form == REFERENCE)
        self.bad |= ~(done | (values.form == REFERENCE) | (values.form == ABSENT) | (values.form == NONE))
        if not len(rows):
            return made
        key = values.value[rows]
        found, code = self.memo.look(key)
        objects = np.unique(key[found == OBJECT])
        if len(objects):
            for number in objects.tolist():
                self._resolve(number, kind)
            found, code = self.memo.look(key)
        made[rows] = code
        self.bad[rows] |= (found != kind) | (key >= self.known[rows])
        return made

    def _resolve(self, number: int, kind: int) -> None:
        value = self.memo.objects.get(number)
        code = MISSING
        if kind == TEXT_ID and type(value) is str:
            code = self.rows.texts.of(value)
        elif kind == STACK and type(value) is list:
            code = self.rows.stacks.of(value)
        elif kind == POOL_ID and type(value) is tuple:
            code = self.rows.pool(value)
        if code != MISSING:
            self.memo.codes(np.array([number]), kind, np.array([code]))


def _cut(buffer: bytes, begin: Int64, size: Int64) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(size))).astype(np.int64)
    source = np.frombuffer(buffer, np.uint8)
    at = np.repeat(begin - offsets[:-1], size) + np.arange(offsets[-1])
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(begin), [None, pa.py_buffer(offsets), pa.py_buffer(source[at])]
    )


def decode_references(buffer: bytes, at: int) -> list[int]:
    found: list[int] = []
    many = buffer[at] == ord("(")
    at += many
    while True:
        code = buffer[at]
        if code == ord("h"):
            found.append(buffer[at + 1])
            at += 2
        elif code == ord("j"):
            found.append(int.from_bytes(buffer[at + 1 : at + 5], "little"))
            at += 5
        else:
            return found if many or code == ord("a") else []
        if not many:
            return found if buffer[at] == ord("a") else []
