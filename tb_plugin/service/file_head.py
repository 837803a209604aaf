"""The decompressed first bytes of a file, which identify its format."""

from __future__ import annotations

import zlib

from tb_plugin.formats.base import GZIP_MAGIC, ZSTD_MAGIC
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile

# Number of uncompressed bytes that are inspected.
HEAD_BYTES = 64 * 1024


def read_head(folder: Folder, file: StoredFile) -> bytes:
    """Reads and decompresses the first 64 KiB of a file. Raises StorageError, zlib.error."""
    return unpack_head(folder.head(file, HEAD_BYTES))


def unpack_head(head: bytes) -> bytes:
    """Decompresses the first bytes of a file, if they are compressed. Raises zlib.error."""
    for _ in range(2):  # a compressed file may be compressed twice
        if head[:2] != GZIP_MAGIC:
            break
        # A truncated or growing file yields what it contains.
        head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    if head[:4] == ZSTD_MAGIC:
        return _zstd_head(head)
    return head


def _zstd_head(head: bytes) -> bytes:
    import pyarrow as pa  # imported lazily, because TensorBoard imports this module at startup

    blocks: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(head), "zstd") as stream:
            while sum(map(len, blocks)) < HEAD_BYTES and (block := stream.read(4096)):
                blocks.append(block)
    except (pa.ArrowException, OSError) as error:
        if not blocks:
            raise zlib.error(str(error)) from error
    return b"".join(blocks)
