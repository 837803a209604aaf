"""Interpreter for pickles of containers, numbers and texts.

It supports a fixed set of opcodes of Python's pickle format (see ``pickletools``). Opcodes that import or call code
raise UnreadableTrace. Other unknown opcodes are treated as damage. Items of long lists (events, segments) go to a
sink during the read. ``scan`` is a fast path for sequences of similar events.

In one file: the opcodes share one stack and one memo.
"""

from __future__ import annotations

import codecs
import pickletools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._pickle.memo import Memo

EVENTS = "events"  # role of long lists that a sink may read directly from the buffer
BATCH = 1024  # maximum number of items of a long list in memory
MAX_TEXT = 64 * 1024 * 1024
MAX_TEXT_LENGTH = 128 * 1024  # maximum number of bytes decoded per text
MAX_INTEGER = 32  # bytes of a number; larger ones do not fit into any column
FREE_WORDS, WORDS_PER_BYTE, WORDS_PER_STORED_BYTE = 16 << 20, 4, 64
"""Memory limit for objects, in words of 8 bytes: base amount, amount per byte of the pickle, amount per byte of the
archive.

Of the last two, the smaller amount is added to the base. Objects of snapshots and dumps need up to 2 words per
byte.
"""
MAX_NUMBER_TEXT = 400  # maximum number of digits in the text of a number
MAX_NESTED = 16  # maximum number of enclosing lists considered for the role of a list; real files have five
MAX_DEPTH = 10_000  # maximum number of open containers; real files have six
_PROTOCOL = 5
_BLOCK = 4 * 1024 * 1024
_MARGIN = 64 * 1024  # bytes of lookahead, unless the file is shorter
_CODE_NAMES = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}
_EXTERNAL = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}
_CODE = _CODE_NAMES | _EXTERNAL  # opcodes that import, call or use something outside the file


def fill(target: Any, items: list[Any]) -> None:
    """Adds key-value pairs to a dict, except keys that are not texts: unused, and an attacker could make them collide."""
    if type(target) is not dict:
        raise TypeError("a key has no dict")
    if len(items) % 2:
        raise ValueError("a key has no value")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if type(key) is str:
            target[key] = value


_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}


def name_of(code: int) -> str:
    opcode = _OPCODES.get(code)
    return f"byte {code:#04x}" if opcode is None else opcode.name


def text_of(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def number_of(raw: bytes) -> int | bool:
    """Parses a number or bool from text. Raises ValueError."""
    if raw in (b"00", b"01"):
        return raw == b"01"
    return int(raw.removesuffix(b"L"))


def unescape(raw: bytes) -> str:
    """Parses a quoted text written by Python 2. Raises ValueError."""
    inner = raw.strip()
    if len(inner) < 2 or inner[:1] != inner[-1:] or inner[:1] not in b"'\"":
        raise ValueError("a text has no quotes")
    return text_of(codecs.escape_decode(inner[1:-1])[0])


class Role(NamedTuple):
    """Meaning of a list that is being read. The sink defines it."""

    kind: str
    device: int


class Sink(Protocol):
    """Receives the items of long lists in file order."""

    def role(self, key: object, lists: list[list[Any]]) -> Role | None:
        """Returns the role of the innermost of nested ``lists`` under the dict key ``key``, or None to keep its items."""
        ...

    def take(self, role: Role, items: list[Any], memo: Memo) -> int | None:
        """Takes complete items of a list out of the memo. Returns the words it still uses for them, or None."""
        ...

    def run(self, role: Role, machine: Machine) -> None:
        """Reads as many events as possible from ``machine.buffer``, starting at ``machine.at``. Advances ``machine.at``."""
        ...


class Damaged(Exception):
    """The pickle is damaged at the current offset, so the rest cannot be read."""


class TooLarge(Damaged):
    """The objects need more memory than any real file of this size."""


class Ended(Exception):
    """The file ended inside the pickle."""


class Machine:
    """Reads one pickle. The result does not contain the items that went to the sink."""

    def __init__(
        self, read: Callable[[int], bytes], sink: Sink, noun: str, stored: Callable[[], int], is_fast: bool = True
    ) -> None:
        self.buffer = b""
        self.at = 0
        self.base = 0  # offset of the buffer in the pickle
        self.memo = Memo()
        self.has_ended = False  # whether the buffer contains the rest of the file
        self._read = read
        self._stored = stored  # returns the archive bytes read so far
        self._words = self._base = 0  # words of all objects, and of objects created before the current list
        self._max_words = FREE_WORDS
        self._used_containers: set[int] = set()  # ids of memo containers used since items last went to the sink
        self._is_plain = True  # whether only new containers were filled; the sink then takes all new objects
        self._sink = sink
        self._noun = noun  # file type in messages, such as "snapshot"
        self._is_fast = is_fast
        self._items: list[Any] = []
        self._below: list[list[Any]] = []
        self._roles: list[Role | None] = []
        self._role: Role | None = None
        self._streamed: dict[int, tuple[list[Any], Role]] = {}

    @property
    def offset(self) -> int:
        return self.base + self.at

    def run(self) -> Any:
        """Returns the unpickled object. Raises Damaged, Ended, and, if the pickle would run code, UnreadableTrace."""
        while True:
            self.look_ahead()
            if self.at >= len(self.buffer):
                raise Ended
            begin, code = self.at, self.buffer[self.at]
            self.at += 1
            handler = _HANDLERS[code]
            self._words += _WORDS[code]
            if self._words > self._max_words:
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
        """Returns the partial object of a truncated pickle. Open containers are closed."""
        incomplete = 1  # the incomplete item
        while self._below:
            if self._role is not None:
                self._flush(len(self._items) - incomplete)
                self._items, incomplete = [], 0
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
        self._max_words = FREE_WORDS + min(WORDS_PER_BYTE * self.offset, WORDS_PER_STORED_BYTE * self._stored())
        if self._words > self._max_words:
            size = self._stored()
            raise TooLarge(
                f"the objects in the file need over {8 * self._max_words >> 20:,} MiB, "
                f"which is too much for a {self._noun} of {size:,} bytes"
            )

    # -- the file

    def look_ahead(self) -> None:
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
            raise ValueError(f"a text is too long: {size:,} bytes")
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
                raise ValueError(f"a line is longer than {limit:,} bytes")
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
            return Damaged(f"the opcode {name} does not occur in a {self._noun}")
        called = self._called(name)
        what = f"{name} {called}".strip()
        return UnreadableTrace(
            f"The pickle would run code: {what[:200]} at {where}. A {self._noun} contains only plain data. "
            "No code was executed.",
            do="Do not load this file with pickle, and check where it comes from.",
        )

    def _called(self, name: str) -> str:
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
        self._run_fast()

    def _marked(self) -> list[Any]:
        items, self._items = self._items, self._below.pop()
        self._role = self._roles.pop()
        return items

    def _role_of_open_list(self) -> Role | None:
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

    def _run_fast(self) -> None:
        if self._is_fast and self._role is not None and self._role.kind == EVENTS:
            self.look_ahead()
            if self.buffer[self.at : self.at + 1] == b"}":
                self._sink.run(self._role, self)

    def flush(self) -> None:
        self._flush(len(self._items))

    def _flush(self, count: int) -> None:
        if self._role is not None and count > 0:
            self._give(self._role, self._items[:count])
            del self._items[:count]

    def _give(self, role: Role, items: list[Any]) -> None:
        memo_words = self._sink.take(role, items, self.memo)
        self._used_containers.clear()
        if memo_words is not None and self._is_plain:
            self._words = self._base = self._base + memo_words

    def _protocol(self) -> None:
        if (number := self._unsigned(1)) > _PROTOCOL:
            raise ValueError(f"protocol {number}")

    def _frame(self) -> None:
        self._bytes(8)
        self._run_fast()

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
        items_by_key: dict[Any, Any] = {}
        fill(items_by_key, self._marked())
        self._push(items_by_key)

    def _set_item(self) -> None:
        value, key = self._popped(), self._popped()
        fill(self._target(), [key, value])
        self._run_fast()

    def _set_items(self) -> None:
        items = self._marked()
        fill(self._target(), items)
        self._run_fast()

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
        target = self._items[-1]
        self._is_plain &= id(target) not in self._used_containers
        return target

    def _extend(self, items: list[Any]) -> None:
        target = self._target()
        if type(target) is not list:
            raise TypeError("an item has no list")
        streamed = self._streamed.get(id(target))
        if streamed is not None:  # earlier items already went to the sink
            self._sink.take(streamed[1], items, self.memo)
        else:
            target.extend(items)

    def _tuple(self, size: int) -> None:
        values = self._items[-size:] if size else []
        if len(values) != size:
            raise IndexError("the pickle stack is empty")
        del self._items[len(self._items) - size :]
        self._push(tuple(values))

    # -- the memo

    def _get(self, key: int) -> None:
        value = self.memo.get(key)
        if type(value) in (dict, list):
            self._used_containers.add(id(value))
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
    "STRING": lambda m: m._push(unescape(m._line(MAX_TEXT))[:MAX_TEXT_LENGTH]),
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
# words of 8 bytes for the result of an opcode, including its slot in a container
_OPCODE_WORDS = {
    **dict.fromkeys(
        ("PROTO", "FRAME", "MARK", "POP", "POP_MARK", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "STOP"), 0
    ),
    **dict.fromkeys(("EMPTY_DICT", "DICT", "EMPTY_LIST", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"), 10),
    **dict.fromkeys(
        ("NONE", "NEWTRUE", "NEWFALSE", "BININT1", "EMPTY_TUPLE", "DUP", "GET", "BINGET", "LONG_BINGET"), 2
    ),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), 12),
}
_WORDS = [0] * 256
for _opcode in pickletools.opcodes:
    if _opcode.name in _ACTIONS:
        _WORDS[ord(_opcode.code)] = _OPCODE_WORDS.get(_opcode.name, 8)
