"""Checks of untrusted Arrow streams before decompression."""

from __future__ import annotations

import struct

import pyarrow as pa

# Maximum number of messages per stream: each becomes one array per column, even without rows. We write a few.
MOST_MESSAGES = 1000
_RECORD_BATCH, _DICTIONARY_BATCH = "record batch", "dictionary"
# Fields of Message in Arrow's Message.fbs; older writers report compression in the second one.
_HEADER, _CUSTOM_METADATA = 2, 4
# Fields of RecordBatch, which is a field of DictionaryBatch; others report compression here.
_COMPRESSION, _DATA = 3, 1


def is_plain(data: bytes) -> bool:
    """Returns whether a stream contains only uncompressed buffers and few messages.

    Reading such a stream needs no more memory than its size. A compressed buffer may expand a thousandfold. Raises
    ValueError, pyarrow.ArrowException for invalid streams.
    """
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    for _ in range(MOST_MESSAGES):
        try:
            message = reader.read_next_message()
        except StopIteration:
            return True
        if message.type in (_RECORD_BATCH, _DICTIONARY_BATCH) and _is_packed(
            bytes(message.metadata), message.type == _DICTIONARY_BATCH
        ):
            return False
    return False


def _is_packed(head: bytes, of_dictionary: bool) -> bool:
    try:
        message = _table_offset(head, 0)
        if _field(head, message, _CUSTOM_METADATA) is not None:
            return True
        batch = _table(head, message, _HEADER)
        if of_dictionary:
            batch = _table(head, batch, _DATA)
        return _field(head, batch, _COMPRESSION) is not None
    except struct.error as error:
        raise ValueError("A message ends too early.") from error


def _table_offset(head: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", head, place)[0])


def _field(head: bytes, table: int, number: int) -> int | None:
    shape = table - int(struct.unpack_from("<i", head, table)[0])
    if shape < 0:
        raise ValueError("A table has no shape.")
    size = int(struct.unpack_from("<H", head, shape)[0])
    entry = 4 + 2 * number
    offset = int(struct.unpack_from("<H", head, shape + entry)[0]) if entry + 2 <= size else 0
    return table + offset if offset else None


def _table(head: bytes, table: int, number: int) -> int:
    place = _field(head, table, number)
    if place is None:
        raise ValueError("A message has no batch.")
    return _table_offset(head, place)
