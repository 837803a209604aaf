"""Vectorised decoding of protobuf fields.

Each numpy step decodes the k-th field of all messages. A trace has millions of messages, so a Python object per
message and field would be too slow.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import astuple

from tb_plugin.lib.arrays import Int64, UInt8

PADDING = bytes(16)  # must follow the messages, because a truncated field is read beyond its end before it is refused
_MAX_VARINT_BYTES = 10  # maximum bytes of a number
_MAX_FIELDS = 512  # maximum number of fields per message; otherwise the slow path is used
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """A message contains an invalid field, or too many fields."""


class Fields(msgspec.Struct, frozen=True, eq=False):
    """Fields of messages, sorted by index within the message, then by message."""

    message: Int64
    number: Int64
    value: Int64  # value of integer fields
    begin: Int64
    end: Int64  # end of byte fields; ``begin`` is -1 for other fields

    def of(self, number: int) -> Fields:
        chosen = np.flatnonzero(self.number == number)
        return Fields(*(column[chosen] for column in astuple(self)))


def fields(data: UInt8, begin: Int64, end: Int64) -> Fields:
    """Decodes the fields of the messages in ``data``. Raises Malformed."""
    found: list[tuple[Int64, ...]] = []
    message = np.flatnonzero(begin < end)
    at, last = begin[message], end[message]
    while len(message):
        if len(found) == _MAX_FIELDS:
            raise Malformed
        tag, at = _varints(data, at)
        wire = tag & 7
        value, after = _varints(data, at)
        is_bytes = wire == _BYTES
        start = np.where(is_bytes, after, -1)
        if (odd := wire != _VARINT).any():
            after = np.where(is_bytes, after + value, after)
            wide = wire == _FIXED64
            after = np.where(wide, at + 8, np.where(wire == _FIXED32, at + 4, after))
            if not (is_bytes | wide | (wire == _FIXED32) | ~odd).all() or (is_bytes & (value < 0)).any():
                raise Malformed
        if ((after > last) | (after <= at)).any():  # a huge length overflows, which makes the sum negative
            raise Malformed
        found.append((message, tag >> 3, value, start, after))
        more = after < last
        if more.all():
            at = after
        else:
            message, at, last = message[more], after[more], last[more]
    if not found:
        return Fields(*(np.empty(0, np.int64) for _ in range(5)))
    return Fields(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def content_start(data: UInt8, at: Int64) -> Int64:
    """Returns the offset at which the content of each byte field starts. ``at`` contains the offsets of the one-byte tags."""
    return _varints(data, at + 1)[1]


def _varints(data: UInt8, at: Int64) -> tuple[Int64, Int64]:
    byte = data[at]
    value = (byte & 127).astype(np.int64)
    after = at + 1
    more = np.flatnonzero(byte > 127)
    shift = 7
    while len(more):
        if shift == 7 * _MAX_VARINT_BYTES:
            raise Malformed
        byte = data[after[more]]
        value[more] |= (byte & 127).astype(np.int64) << shift
        after[more] += 1
        more = more[byte > 127]
        shift += 7
    return value, after
