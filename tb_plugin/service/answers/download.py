"""Files on their way out."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Download:
    """A download is a file on its way out. ``gzipped`` says that the chunks are compressed for the way only."""

    name: str
    size_bytes: int
    chunks: Iterator[bytes]
    gzipped: bool = False

    def plain(self) -> Iterator[bytes]:
        """Returns the content itself, in chunks."""
        if not self.gzipped:
            yield from self.chunks
            return
        unpack = zlib.decompressobj(wbits=31)
        for chunk in self.chunks:
            yield unpack.decompress(chunk)
        yield unpack.flush()


def chunks_of(path: Path) -> Iterator[bytes]:
    """Gives a file in chunks."""
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
