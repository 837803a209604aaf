"""Files for download."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

CHUNK_BYTES = 1024 * 1024


class Download(msgspec.Struct, frozen=True):
    """A file to download. If ``gzipped`` is set, the chunks are gzipped, and the client decompresses them."""

    name: str
    size_bytes: int
    chunks: Iterator[bytes]
    gzipped: bool = False

    def plain(self) -> Iterator[bytes]:
        if not self.gzipped:
            yield from self.chunks
            return
        unpack = zlib.decompressobj(wbits=31)
        for chunk in self.chunks:
            yield unpack.decompress(chunk)
        yield unpack.flush()


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    with stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
