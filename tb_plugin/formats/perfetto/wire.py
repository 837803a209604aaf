"""Fields of many messages at a time: the k-th field of all of them in one step of numpy.

For the begins and ends of PyTorch's ranges, of which a trace has millions: an object for each message and field of it
would take longer than all that is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

PADDING = bytes(16)
"""What has to follow the messages: a field that is cut off is looked at beyond its end, and then refused."""
_MOST_BYTES = 10
"""A number takes so many at most."""
_MOST_FIELDS = 512
"""Fields of a message that steps are taken for; a message of very many is none that takes long to decode otherwise."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """A message holds something that is no field, or very many fields."""


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields of messages, in the order of their place within a message, of equal places in that of the messages."""

    message: Int64
    number: Int64
    value: Int64
    """Of whole numbers, the number."""
    begin: Int64
    end: Int64
    """Of bytes, where they stand; ``begin`` is -1 for other fields."""

    def of(self, number: int) -> Fields:
        """Returns those of one number."""
        chosen = np.flatnonzero(self.number == number)
        return Fields(*(column[chosen] for column in vars(self).values()))


def fields(data: UInt8, begin: Int64, end: Int64) -> Fields:
    """Returns the fields of messages that stand in ``data``. Raises Malformed."""
    found: list[tuple[Int64, ...]] = []
    message = np.flatnonzero(begin < end)
    at, last = begin[message], end[message]
    while len(message):
        if len(found) == _MOST_FIELDS:
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
        if ((after > last) | (after <= at)).any():  # the sum of a huge length is negative
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


def contents(data: UInt8, at: Int64) -> Int64:
    """Returns where the content of each field of bytes begins whose tag, of one byte, stands ``at`` a place."""
    return _varints(data, at + 1)[1]


def _varints(data: UInt8, at: Int64) -> tuple[Int64, Int64]:
    """The numbers at some places, and where each ends."""
    byte = data[at]
    value = (byte & 127).astype(np.int64)
    after = at + 1
    more = np.flatnonzero(byte > 127)
    shift = 7
    while len(more):
        if shift == 7 * _MOST_BYTES:
            raise Malformed
        byte = data[after[more]]
        value[more] |= (byte & 127).astype(np.int64) << shift
        after[more] += 1
        more = more[byte > 127]
        shift += 7
    return value, after
