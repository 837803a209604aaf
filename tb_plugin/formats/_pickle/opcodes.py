"""Names and operands of pickle opcodes."""

from __future__ import annotations

import codecs
import pickletools
from typing import Any


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
