"""In-memory cache with a size limit, for values computed from models.

Each value belongs to the object from which it was computed, its owner. A value is dropped when its owner is
deleted. If the cache is full, the least recently used values are dropped.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial, wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

P = ParamSpec("P")
Owner = TypeVar("Owner")
Value = TypeVar("Value")

# Default limit of the cache of a process.
LIMIT_BYTES = 256 * 1024 * 1024
# Attribute of an owner with its cached values, so that they are freed with it.
_PLACE = "_remembered"
# Attribute of an owner with the ids of its own arrays and sections.
_OWN_PARTS_ATTRIBUTE = "_remembered_own"
# Estimated size of a small Python object.
_OBJECT_BYTES = 100
# Number of objects measured in a long list.
_SAMPLED_OBJECTS = 32
# A union of types would be created anew in each call.
_ARROW = (pa.Table, pa.ChunkedArray, pa.Array)
_NUMBER = (int, float, type(None))
_NUMBERS = frozenset({int, float, bool, type(None)})
_TEXT = (str, bytes)
_DICT = (dict, MappingProxyType)
_LIST = (tuple, list, set, frozenset)
# Identity of the owner, and the key.
_Slot = tuple[int, Hashable]


class Memo:
    """Cached values by owner and key, of at most ``limit_bytes`` except for the latest value."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        """Current size. Memory shared by several values is included only once."""
        self._lock = threading.RLock()
        self._slots: OrderedDict[_Slot, tuple[weakref.ref[Any], dict[int, int]]] = OrderedDict()
        self._users: dict[int, int] = {}
        self._gone: deque[int] = deque()

    def get(self, owner: object, key: Hashable, make: Callable[[], Value], size_bytes: int | None = None) -> Value:
        """Returns the cached value, or that of ``make``. ``size_bytes`` replaces the measured size, for mapped files."""
        cached: dict[Hashable, Any] = vars(owner).setdefault(_PLACE, {})
        slot = (id(owner), key)
        with self._lock:
            if key in cached:
                if slot in self._slots:
                    self._slots.move_to_end(slot)
                value: Value = cached[key]
                return value
        value = make()
        # The key may contain objects that live as long as the value.
        leaves = _leaves((value, key), owner) if size_bytes is None else {id(value): size_bytes}
        with self._lock:
            self._sweep()
            if slot in self._slots:  # two threads computed it
                self._drop(slot)
            cached[key] = value
            self._slots[slot] = (weakref.ref(owner, partial(self._note, id(owner))), leaves)
            self._count(leaves, 1)
            while self.bytes > self.limit_bytes and len(self._slots) > 1:
                self._drop(next(iter(self._slots)))
        return value

    def _note(self, who: int, ref: weakref.ref[Any]) -> None:
        self._gone.append(who)

    def forget(self, owner: object, key: Hashable = None) -> None:
        """Drops the value of an owner with this key; None = all values of the owner."""
        with self._lock:
            for slot in [slot for slot in self._slots if slot[0] == id(owner) and key in (None, slot[1])]:
                self._drop(slot)

    def _drop(self, slot: _Slot) -> None:
        ref, leaves = self._slots.pop(slot)
        owner = ref()
        if owner is not None:
            vars(owner).get(_PLACE, {}).pop(slot[1], None)
        self._count(leaves, -1)

    def _sweep(self) -> None:
        gone: set[int] = set()
        while self._gone:
            gone.add(self._gone.popleft())
        if gone:  # a single pass for all of them
            for slot in [slot for slot, (ref, _) in self._slots.items() if slot[0] in gone and ref() is None]:
                self._drop(slot)

    def _count(self, leaves: Mapping[int, int], change: int) -> None:
        users = self._users
        for leaf, size in leaves.items():
            before = users.get(leaf, 0)
            after = before + change
            if not before or not after:  # the first or the last user
                self.bytes += change * size
            if after:
                users[leaf] = after
            else:
                del users[leaf]


# The cache of this process.
MEMO = Memo()


def cached_by_argument(make: Callable[Concatenate[Owner, P], Value]) -> Callable[Concatenate[Owner, P], Value]:
    """Caches the results of a function by its first argument, the owner. All others must be hashable."""

    @wraps(make)
    def cached(owner: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        key = (make, args, tuple(sorted(kwargs.items())))
        return MEMO.get(owner, key, lambda: make(owner, *args, **kwargs))

    return cached


def drop_cached(owner: object, made_by: Callable[..., object]) -> None:
    """Drops the cached result of a ``cached_by_argument`` function that was called with the owner only."""
    MEMO.forget(owner, (getattr(made_by, "__wrapped__", made_by), (), ()))


def size_of(value: object, owner: object = None) -> int:
    """Estimates the memory of a value in bytes, excluding memory that it shares with its owner."""
    return sum(_leaves(value, owner).values())


def _leaves(value: object, owner: object) -> dict[int, int]:
    found: dict[int, int] = {}
    _walk(value, _own(owner), found)
    return found


def _own(owner: object) -> frozenset[int]:
    if owner is None:
        return frozenset()
    held = vars(owner)
    seen = held.get(_OWN_PARTS_ATTRIBUTE)
    if seen is not None and seen[0] == len(held) and all(_added(part) == count for part, count in seen[1]):
        known: frozenset[int] = seen[2]
        return known
    values = _values(owner)
    parts = [part for part in values if _names(part) is not None]
    named = [part for each in values if isinstance(each, _DICT) for part in each.values()]
    every = [*values, *(one for part in (*parts, *named) for one in _values(part))]
    arrays = [id(_root(one)) for one in every if isinstance(one, np.ndarray)]
    tables = [address for one in every if isinstance(one, pa.Table) for address, _ in _buffers(one)]
    known = frozenset({id(owner), *map(id, parts), *arrays, *tables})
    held[_OWN_PARTS_ATTRIBUTE] = (len(held) + (seen is None), [(part, _added(part)) for part in parts], known)
    return known


def _values(record: object) -> list[Any]:
    held = getattr(record, "__dict__", {})
    names = _names(record) or ()
    return [*(getattr(record, name) for name in names if name not in held), *list(held.values())]


def _added(record: object) -> int:
    return len(getattr(record, "__dict__", ()))


def _walk(value: object, own: frozenset[int], found: dict[int, int]) -> int:
    if isinstance(value, np.ndarray):
        value = _root(value)
    who = id(value)
    if who in found or who in own:
        return 0
    if isinstance(value, np.ndarray):
        found[who] = int(value.nbytes) + _OBJECT_BYTES
        return found[who]
    if isinstance(value, _ARROW):
        # Tables may share columns, and some are memory-mapped, so buffers are measured.
        fresh = {address: size for address, size in _buffers(value) if address not in found and address not in own}
        found.update(fresh)
        found[who] = _OBJECT_BYTES
        return _OBJECT_BYTES + sum(fresh.values())
    found[who] = _OBJECT_BYTES
    if isinstance(value, _NUMBER):
        return _OBJECT_BYTES
    if isinstance(value, _TEXT):
        found[-who] = len(value)
        return _OBJECT_BYTES + len(value)
    parts = list(_parts(value))
    measured = parts[:_SAMPLED_OBJECTS] if len(parts) > 4 * _SAMPLED_OBJECTS else parts
    size = 0
    for part in measured:
        if type(part) not in _NUMBERS:
            size += _walk(part, own, found)
        elif (number := id(part)) not in found and number not in own:
            found[number] = _OBJECT_BYTES
            size += _OBJECT_BYTES
    if len(measured) < len(parts):
        found[-who] = size * (len(parts) - len(measured)) // len(measured)
        size += found[-who]
    return _OBJECT_BYTES + size


def _parts(value: object) -> Iterator[object]:
    # Checked last, because isinstance(Mapping) is slow for new classes.
    if isinstance(value, _DICT):
        for key, item in value.items():
            yield key
            yield item
    elif isinstance(value, _LIST):
        yield from value
    elif (names := _names(value)) is not None:
        yield from (getattr(value, name) for name in names)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield item
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        yield from (item for name, item in vars(value).items() if name not in (_PLACE, _OWN_PARTS_ATTRIBUTE))


def _names(record: object) -> tuple[str, ...] | None:
    kind: Any = type(record)
    return _field_names(kind)


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    names: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    return names


def _buffers(value: pa.Table | pa.ChunkedArray | pa.Array) -> Iterator[tuple[int, int]]:
    columns = value.columns if isinstance(value, pa.Table) else [value]
    for column in columns:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for array in (chunk, chunk.dictionary) if isinstance(chunk, pa.DictionaryArray) else (chunk,):
                yield from ((buffer.address, buffer.size) for buffer in array.buffers() if buffer is not None)


def _root(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values
