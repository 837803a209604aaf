"""An opcode machine for pickles that hold plain data: containers, numbers, texts. It imports, calls and builds nothing else.

The format is that of Python's ``pickletools``. An opcode outside of the table ends the read: one that would name or call
code is refused with that name, any other is damage. Lists that may be long (events, segments) go to a sink while they are
read and are never held; runs of events of a common shape are decoded by ``scan`` without the machine.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._pickle.memo import Memo
from tb_plugin.formats._pickle.opcodes import fill, name_of, number_of, text_of, unescaped

EVENTS = "events"
"""The kind of long lists that a sink may take straight from the buffer."""
BATCH = 1024
"""So many items of a long list are held at most."""
MAX_TEXT = 64 * 1024 * 1024
MAX_TEXT_LENGTH = 128 * 1024
"""Bytes of a text that are decoded: no reader keeps more."""
MAX_INTEGER = 32
"""Bytes of a number; larger ones stand for no column's value."""
FREE_WORDS, WORDS_PER_BYTE, WORDS_PER_STORED_BYTE = 16 << 20, 4, 64
"""Words of 8 bytes that objects may take in any case, and for each byte of the pickle and of its archive (the less of both).
Objects of snapshots and dumps take up to 2 for each byte."""
MAX_NUMBER_TEXT = 400
"""Digits of a number that is written as text."""
MAX_NESTED = 16
"""Open lists around a list that decide its role; real files have five."""
MAX_DEPTH = 10_000
"""Open containers; real files have six."""
_PROTOCOL = 5
_BLOCK = 4 * 1024 * 1024
_MARGIN = 64 * 1024
"""So much of the file is looked ahead where there is so much."""
_NAMING = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}
_ABROAD = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}
_CODE = _NAMING | _ABROAD
"""Opcodes that name, call or fill in what is not in the file."""


class Role(NamedTuple):
    """What an open list is, in words of the sink."""

    kind: str
    device: int


class Sink(Protocol):
    """Takes the items of long lists, in the order of the file."""

    def role(self, key: object, lists: list[list[Any]]) -> Role | None:
        """Returns what the last of some nested lists is that stand under a key (None: under nothing); None: not long."""
        ...

    def take(self, role: Role, items: list[Any], memo: Memo) -> int | None:
        """Takes whole items of one list, and says in the memo what became of them.

        Returns how many words of them the memo still holds; None where that is unknown.
        """
        ...

    def run(self, role: Role, machine: Machine) -> None:
        """Takes as many events as it can straight from ``machine.buffer`` at ``machine.at``, and moves that on."""
        ...


class Damaged(Exception):
    """The pickle makes no sense from here on."""


class TooLarge(Damaged):
    """The objects take more memory than those of any real file of its size."""


class Ended(Exception):
    """The file ended inside the pickle."""


class Machine:
    """Reads one pickle. ``root`` is what it holds, without what went to the sink; partial when the file is cut."""

    def __init__(
        self, read: Callable[[int], bytes], sink: Sink, noun: str, stored: Callable[[], int], is_fast: bool = True
    ) -> None:
        self.buffer = b""
        self.at = 0
        self.base = 0
        """Offset of the buffer in the pickle."""
        self.memo = Memo()
        self.has_ended = False
        """All of the file is in the buffer."""
        self._read = read
        self._stored = stored
        """Returns the bytes of the archive read so far."""
        self._words = self._base = 0
        """Words that objects take, and those of objects older than the open list with a role."""
        self._most = FREE_WORDS
        self._fetched: set[int] = set()
        """Containers of the memo, by identity, that were used since the sink last took something."""
        self._is_plain = True
        """Only new containers were filled: what the sink takes is all that was made."""
        self._sink = sink
        self._noun = noun
        """What the file is taken for, in messages: "snapshot"."""
        self._is_fast = is_fast
        self._items: list[Any] = []
        self._below: list[list[Any]] = []
        self._roles: list[Role | None] = []
        self._role: Role | None = None
        self._streamed: dict[int, tuple[list[Any], Role]] = {}

    @property
    def offset(self) -> int:
        """Returns where in the pickle the machine is."""
        return self.base + self.at

    def run(self) -> Any:
        """Returns the object of the pickle. Raises UnreadableTrace for what would run code, Damaged and Ended."""
        while True:
            self.look_ahead()
            if self.at >= len(self.buffer):
                raise Ended
            begin, code = self.at, self.buffer[self.at]
            self.at += 1
            handler = _HANDLERS[code]
            self._words += _WORDS[code]
            if self._words > self._most:
                self._allow_more()
            if handler is None and code != _STOP:
                raise self._unknown(code)
            try:
                if handler is None:
                    return self._popped()
                handler(self)
            except (IndexError, ValueError, struct.error, TypeError, OverflowError, UnicodeError) as error:
                self.at = begin
                raise Damaged(f"{name_of(code)}: {error}") from error

    def unwound(self) -> Any:
        """Returns what was built so far of a pickle that broke off, with everything that was open put into its place."""
        lost = 1  # the item that it broke off in
        while self._below:
            if self._role is not None:
                self._flush(len(self._items) - lost)
                self._items, lost = [], 0
            items = self._marked()
            target = self._items[-1] if self._items else None
            if isinstance(target, list):
                target.extend(items)
            elif isinstance(target, dict):
                fill(target, items[: len(items) // 2 * 2])
        items = self._items
        while len(items) > 1:  # containers that are filled one by one
            last = items.pop()
            if isinstance(items[-1], list):
                items[-1].append(last)
            elif isinstance(items[-1], str) and len(items) > 1 and isinstance(items[-2], dict):
                items[-2][items.pop()] = last
        return items[0] if items else None

    def _allow_more(self) -> None:
        self._most = FREE_WORDS + min(WORDS_PER_BYTE * self.offset, WORDS_PER_STORED_BYTE * self._stored())
        if self._words > self._most:
            size = self._stored()
            raise TooLarge(
                f"its objects take over {8 * self._most >> 20:,} MiB, too much for {size:,} bytes of a {self._noun}"
            )

    # -- the file

    def look_ahead(self) -> None:
        """Reads on when little is left in the buffer."""
        if len(self.buffer) - self.at < _MARGIN and not self.has_ended:
            self._refill(_BLOCK)

    def _refill(self, size: int) -> None:
        blocks = [self.buffer[self.at :]]
        while size > 0 and (block := self._read(size)):
            blocks.append(block)
            size -= len(block)
        self.has_ended = size > 0
        self.base += self.at
        self.buffer = b"".join(blocks)
        self.at = 0

    def _bytes(self, size: int) -> bytes:
        if size > MAX_TEXT:
            raise ValueError(f"a text of {size:,} bytes")
        while len(self.buffer) - self.at < size:
            if self.has_ended:
                raise Ended
            self._refill(max(_BLOCK, size))
        found = self.buffer[self.at : self.at + min(size, MAX_TEXT_LENGTH)]
        self.at += size
        self._words += len(found) >> 3
        return found

    def _integer(self, size: int) -> int:
        raw = self._bytes(size)
        return int.from_bytes(raw, "little", signed=True) if size <= MAX_INTEGER else 1 << 8 * MAX_INTEGER

    def _unsigned(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "little")

    def _line(self, limit: int) -> bytes:
        while (end := self.buffer.find(b"\n", self.at, self.at + limit)) < 0:
            if self.has_ended and len(self.buffer) - self.at < limit:
                raise Ended
            if len(self.buffer) - self.at >= limit:
                raise ValueError(f"a line of over {limit:,} bytes")
            self._refill(_BLOCK)
        found = self.buffer[self.at : end]
        self.at = end + 1
        self._words += min(len(found), MAX_TEXT_LENGTH) >> 3
        return found

    def _unknown(self, code: int) -> Exception:
        name = name_of(code)
        where = f"byte {self.offset - 1:,}"
        if name not in _CODE:
            self.at -= 1
            return Damaged(f"{name} is not part of a {self._noun}")
        called = self._called(name)
        what = f"{name} {called}".strip()
        return UnreadableTrace(
            f"The pickle would run code: {what[:200]} at {where}. A {self._noun} holds plain data; "
            "nothing of it was executed.",
            do="Do not load this file with pickle, and ask where it comes from.",
        )

    def _called(self, name: str) -> str:
        """What an opcode names, as far as it stands in the file."""
        try:
            if name in ("GLOBAL", "INST"):
                return ".".join(self._line(MAX_NUMBER_TEXT).decode("utf-8", "replace") for _ in range(2))
            if name == "STACK_GLOBAL":
                return ".".join(text for text in self._items[-2:] if isinstance(text, str))
        except (Ended, ValueError):
            pass
        return ""

    # -- the stack

    def _popped(self) -> Any:
        return self._items.pop()

    def _push(self, value: Any) -> None:
        self._items.append(value)

    def _mark(self) -> None:
        if len(self._below) >= MAX_DEPTH:
            raise ValueError("too deep")
        role = self._role_of_open_list()
        self._below.append(self._items)
        self._roles.append(self._role)
        self._items, self._role = [], role
        if role is not None:
            self._base = self._words
        self._hurry()

    def _marked(self) -> list[Any]:
        items, self._items = self._items, self._below.pop()
        self._role = self._roles.pop()
        return items

    def _role_of_open_list(self) -> Role | None:
        """What the list is that a mark opens, by the keys and lists around it."""
        items, level = self._items, len(self._below)
        if not items or type(items[-1]) is not list or (len(items) > 1 and items[-2] == "frames"):
            return None
        lists: list[list[Any]] = []
        while True:
            for value in reversed(items):
                if type(value) is not list:
                    return self._sink.role(value, lists[::-1])
                lists.append(value)
                if len(lists) > BATCH:
                    return None
            if not level:
                return self._sink.role(None, lists[::-1])
            level -= 1
            if len(self._below) - level > MAX_NESTED:
                return None
            items = self._below[level]

    def _hurry(self) -> None:
        """Leaves whole events to the sink where that can take them without the machine."""
        if self._is_fast and self._role is not None and self._role.kind == EVENTS:
            self.look_ahead()
            if self.buffer[self.at : self.at + 1] == b"}":
                self._sink.run(self._role, self)

    def flush(self) -> None:
        """Gives the sink all items that are whole."""
        self._flush(len(self._items))

    def _flush(self, count: int) -> None:
        if self._role is not None and count > 0:
            self._give(self._role, self._items[:count])
            del self._items[:count]

    def _give(self, role: Role, items: list[Any]) -> None:
        held = self._sink.take(role, items, self.memo)
        self._fetched.clear()
        if held is not None and self._is_plain:
            self._words = self._base = self._base + held

    def _protocol(self) -> None:
        if (number := self._unsigned(1)) > _PROTOCOL:
            raise ValueError(f"protocol {number}")

    def _frame(self) -> None:
        self._bytes(8)
        self._hurry()

    def _pop(self) -> None:
        if self._items:
            self._items.pop()
        else:
            self._marked()

    def _pop_mark(self) -> None:
        self._marked()

    # -- containers

    def _empty_dict(self) -> None:
        if self._role is not None and len(self._items) >= BATCH:
            self.flush()
        self._items.append({})

    def _dict(self) -> None:
        made: dict[Any, Any] = {}
        fill(made, self._marked())
        self._push(made)

    def _set_item(self) -> None:
        value, key = self._popped(), self._popped()
        fill(self._target(), [key, value])
        self._hurry()

    def _set_items(self) -> None:
        items = self._marked()
        fill(self._target(), items)
        self._hurry()

    def _append(self) -> None:
        value = self._popped()
        self._extend([value])

    def _appends(self) -> None:
        if self._role is not None:
            role = self._role
            self.flush()
            items = self._marked()
            target = self._items[-1]
            self._streamed[id(target)] = (target, role)
            return
        items = self._marked()
        self._extend(items)

    def _target(self) -> Any:
        """The container that is filled next."""
        target = self._items[-1]
        self._is_plain &= id(target) not in self._fetched
        return target

    def _extend(self, items: list[Any]) -> None:
        target = self._target()
        if type(target) is not list:
            raise TypeError("no list to append to")
        streamed = self._streamed.get(id(target))
        if streamed is not None:  # what came before is with the sink already
            self._sink.take(streamed[1], items, self.memo)
        else:
            target.extend(items)

    def _tuple(self, size: int) -> None:
        values = self._items[-size:] if size else []
        if len(values) != size:
            raise IndexError("the stack is empty")
        del self._items[len(self._items) - size :]
        self._push(tuple(values))

    # -- the memo

    def _get(self, key: int) -> None:
        value = self.memo.get(key)
        if type(value) in (dict, list):
            self._fetched.add(id(value))
        self._push(value)

    def _put(self, key: int) -> None:
        self.memo.put(key, self._items[-1])


Handler = Callable[[Machine], None]
_ACTIONS: dict[str, Handler] = {
    "PROTO": Machine._protocol,
    "FRAME": Machine._frame,
    "MARK": Machine._mark,
    "POP": Machine._pop,
    "POP_MARK": Machine._pop_mark,
    "DUP": lambda m: m._push(m._items[-1]),
    "NONE": lambda m: m._push(None),
    "NEWTRUE": lambda m: m._push(True),
    "NEWFALSE": lambda m: m._push(False),
    "BININT": lambda m: m._push(int.from_bytes(m._bytes(4), "little", signed=True)),
    "BININT1": lambda m: m._push(m._unsigned(1)),
    "BININT2": lambda m: m._push(m._unsigned(2)),
    "LONG1": lambda m: m._push(m._integer(m._unsigned(1))),
    "LONG4": lambda m: m._push(m._integer(m._unsigned(4))),
    "INT": lambda m: m._push(number_of(m._line(MAX_NUMBER_TEXT))),
    "LONG": lambda m: m._push(number_of(m._line(MAX_NUMBER_TEXT))),
    "FLOAT": lambda m: m._push(float(m._line(MAX_NUMBER_TEXT))),
    "BINFLOAT": lambda m: m._push(struct.unpack(">d", m._bytes(8))[0]),
    "UNICODE": lambda m: m._push(m._line(MAX_TEXT).decode("raw-unicode-escape")[:MAX_TEXT_LENGTH]),
    "SHORT_BINUNICODE": lambda m: m._push(text_of(m._bytes(m._unsigned(1)))),
    "BINUNICODE": lambda m: m._push(text_of(m._bytes(m._unsigned(4)))),
    "BINUNICODE8": lambda m: m._push(text_of(m._bytes(m._unsigned(8)))),
    "STRING": lambda m: m._push(unescaped(m._line(MAX_TEXT))[:MAX_TEXT_LENGTH]),
    "BINSTRING": lambda m: m._push(text_of(m._bytes(m._unsigned(4)))),
    "SHORT_BINSTRING": lambda m: m._push(text_of(m._bytes(m._unsigned(1)))),
    "EMPTY_DICT": Machine._empty_dict,
    "DICT": Machine._dict,
    "SETITEM": Machine._set_item,
    "SETITEMS": Machine._set_items,
    "EMPTY_LIST": lambda m: m._push([]),
    "LIST": lambda m: m._push(m._marked()),
    "APPEND": Machine._append,
    "APPENDS": Machine._appends,
    "EMPTY_TUPLE": lambda m: m._push(()),
    "TUPLE": lambda m: m._push(tuple(m._marked())),
    "TUPLE1": lambda m: m._tuple(1),
    "TUPLE2": lambda m: m._tuple(2),
    "TUPLE3": lambda m: m._tuple(3),
    "GET": lambda m: m._get(int(m._line(MAX_NUMBER_TEXT))),
    "BINGET": lambda m: m._get(m._unsigned(1)),
    "LONG_BINGET": lambda m: m._get(m._unsigned(4)),
    "PUT": lambda m: m._put(int(m._line(MAX_NUMBER_TEXT))),
    "BINPUT": lambda m: m._put(m._unsigned(1)),
    "LONG_BINPUT": lambda m: m._put(m._unsigned(4)),
    "MEMOIZE": lambda m: m._put(m.memo.count),
}
_STOP = ord(".")
_HANDLERS: list[Handler | None] = [None] * 256
for _opcode in pickletools.opcodes:
    if _opcode.name in _ACTIONS:
        _HANDLERS[ord(_opcode.code)] = _ACTIONS[_opcode.name]
_WORDS_OF = {
    **dict.fromkeys(
        ("PROTO", "FRAME", "MARK", "POP", "POP_MARK", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "STOP"), 0
    ),
    **dict.fromkeys(("EMPTY_DICT", "DICT", "EMPTY_LIST", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"), 10),
    **dict.fromkeys(
        ("NONE", "NEWTRUE", "NEWFALSE", "BININT1", "EMPTY_TUPLE", "DUP", "GET", "BINGET", "LONG_BINGET"), 2
    ),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), 12),
}
"""Words of 8 bytes that what an opcode makes takes, with its place in a container."""
_WORDS = [0] * 256
for _opcode in pickletools.opcodes:
    if _opcode.name in _ACTIONS:
        _WORDS[ord(_opcode.code)] = _WORDS_OF.get(_opcode.name, 8)
