"""Checksums of cached files.

CRC-32 is fast enough to check a file whenever it is opened. It detects accidental damage, but does not protect
against attacks. Only the user can access the cache folder (mode 0700).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, TypeVar

from isal import isal_zlib

Content = TypeVar("Content", bytes, memoryview)
_BLOCK_BYTES = 1024 * 1024
_DIGITS = 8
# Number of bytes that ``stamp`` appends.
STAMP_BYTES = _DIGITS + 1


class Seal(NamedTuple):
    """Size and CRC-32 of a complete file."""

    size_bytes: int
    crc32: int


def seal_of(path: Path | str) -> Seal:
    """Computes the size and the checksum of a file. Raises OSError."""
    size, crc = 0, 0
    block = memoryview(bytearray(_BLOCK_BYTES))
    with Path(path).open("rb", buffering=0) as stream:
        while count := stream.readinto(block):
            size += count
            crc = isal_zlib.crc32(block[:count], crc)
    return Seal(size, crc)


def with_checksum(body: bytes) -> bytes:
    return b"%08x\n" % isal_zlib.crc32(body) + body


def without_checksum(content: Content) -> Content:
    """Verifies and removes the checksum added by ``with_checksum``. Raises ValueError if the content is damaged."""
    body = content[_DIGITS + 1 :]
    if content[: _DIGITS + 1] != b"%08x\n" % isal_zlib.crc32(body):
        raise ValueError("The checksum does not match.")
    return body


def append_checksum(path: Path | str) -> None:
    crc = seal_of(path).crc32
    with Path(path).open("ab") as stream:
        stream.write(b"%08x\n" % crc)


def has_valid_checksum(path: Path | str) -> bool:
    """Returns whether the checksum at the end of a file matches. Raises OSError."""
    crc, block = 0, memoryview(bytearray(_BLOCK_BYTES))
    with Path(path).open("rb", buffering=0) as stream:
        left = stream.seek(0, os.SEEK_END) - STAMP_BYTES
        if left <= 0:
            return False
        stream.seek(0)
        while left and (count := stream.readinto(block[: min(left, _BLOCK_BYTES)])):
            crc, left = isal_zlib.crc32(block[:count], crc), left - count
        return not left and stream.read() == b"%08x\n" % crc
