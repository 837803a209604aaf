"""Decompression in bounded pieces."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from isal import igzip_lib

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import GZIP_MAGIC, ZSTD_MAGIC, Source
from tb_plugin.formats.issues import IssueLog

BOMB_RATIO = 200
"""Compression ratio that no trace reaches. Typical ratios are 10 to 30, and about 110 for repetitive traces."""
BOMB_BYTES = 4 * 1024**3  # text up to this size is read whatever the compression ratio
_BLOCK_BYTES = 256 * 1024
# compressed bytes per piece; small, because damage loses a whole piece
_MIN_PIECE_BYTES, _MAX_PIECE_BYTES = 512, 64 * 1024
_DAMAGED: Any = igzip_lib.IsalError  # the type stub declares it as an instance


class _Stored(io.RawIOBase):
    def __init__(self, block: Callable[[], bytes]) -> None:
        super().__init__()
        self._block = block
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._rest or self._block()
        size = len(block) if size < 0 else size
        self._rest = block[size:]
        return block[:size]


class TextStream:
    """Decompresses text in bounded pieces, against bombs. ``progress`` gets the fraction of stored bytes read."""

    def __init__(
        self,
        raw: BinaryIO,
        stored_bytes: int,
        progress: Callable[[float], None],
        log: IssueLog,
        first: bytes = b"",
    ) -> None:
        self.file_bytes = 0  # stored bytes consumed
        self.text_bytes = 0  # uncompressed bytes returned
        self._raw = raw
        self._stored_bytes = max(stored_bytes, 1)
        self._piece = min(max(stored_bytes // 64, _MIN_PIECE_BYTES), _MAX_PIECE_BYTES)
        self._progress = progress
        self._log = log
        self._outer: TextStream | None = None  # the enclosing archive
        self._pending = first or self._block()
        self.file_bytes = len(self._pending)
        if not first and _is_packed_twice(self._pending):
            self._outer = TextStream(raw, stored_bytes, progress, log, self._pending)
            self._pending = self._block()
        self._gzip = self._pending[:2] == GZIP_MAGIC
        is_zstd = self._pending[: len(ZSTD_MAGIC)] == ZSTD_MAGIC
        self._zstd = pa.CompressedInputStream(pa.PythonFile(_Stored(self._stored), "r"), "zstd") if is_zstd else None
        self._member: Any = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._ended = False

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` bytes, b"" only at the end. Raises UnreadableTrace for a decompression bomb."""
        if self._ended:
            return b""
        text = self._inflated(size) if self._gzip else self._unpacked(size) if self._zstd else self._plain(size)
        self.text_bytes += len(text)
        if self.text_bytes > BOMB_BYTES and self.text_bytes > BOMB_RATIO * self.file_bytes:
            raise UnreadableTrace(
                f"The file unpacks to more than {BOMB_RATIO} times its size, which is impossible for a trace.",
                do=f"Reading stopped after {self.text_bytes / 1e9:.1f} GB of text. Record a new trace.",
            )
        if not text:
            self._ended = True
        return text

    def _block(self) -> bytes:
        if self._outer is not None:
            block = self._outer.read(_BLOCK_BYTES)
            self.file_bytes = self._outer.file_bytes
            return block
        block = self._raw.read(_BLOCK_BYTES)
        self.file_bytes += len(block)
        self._progress(min(1.0, self.file_bytes / self._stored_bytes))
        return block

    def _plain(self, size: int) -> bytes:
        block = self._pending or self._block()
        self._pending = block[size:]
        return block[:size]

    def _stored(self) -> bytes:
        block, self._pending = self._pending or self._block(), b""
        return block

    def _unpacked(self, size: int) -> bytes:
        try:
            text: bytes = self._zstd.read(size) if self._zstd is not None else b""
        except (pa.ArrowException, OSError) as error:
            if "truncated" in str(error).lower():
                self._log.note("zstd_truncated", "the Zstandard file is truncated", self.text_bytes)
            else:
                self._log.note("zstd_damaged", f"the Zstandard file is damaged ({error})", self.text_bytes)
            return b""
        return text

    def _inflated(self, size: int) -> bytes:
        while True:
            if self._member.eof and not self._next_member():
                return b""
            if self._member.needs_input and not self._pending:
                self._pending = self._block()
                if not self._pending:
                    self._log.note("gzip_truncated", "the gzip file is truncated", self.text_bytes)
                    return b""
            piece = b""
            if self._member.needs_input:
                piece, self._pending = self._pending[: self._piece], self._pending[self._piece :]
            try:
                text: bytes = self._member.decompress(piece, size)
            except _DAMAGED as error:
                self._log.note("gzip_corrupt", f"the gzip file is damaged ({error})", self.text_bytes)
                return b""
            if text:
                return text

    def _next_member(self) -> bool:
        """Starts the next gzip member, as in concatenated files. Returns False if there is none."""
        rest = self._member.unused_data + self._pending
        while len(rest) < len(GZIP_MAGIC):
            block = self._block()
            if not block:
                break
            rest = (rest + block).lstrip(b"\0")
        rest = rest.lstrip(b"\0")
        if rest[:2] != GZIP_MAGIC:
            if rest:
                self._log.note("gzip_trailing_bytes", "bytes after the gzip file were ignored", self.text_bytes)
            return False
        self._member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._pending = rest
        return True


def _is_packed_twice(head: bytes) -> bool:
    """Returns True for a gzip file inside a gzip file. Some web servers and upload tools create such files."""
    try:
        return head[:2] == GZIP_MAGIC and zlib.decompressobj(wbits=31).decompress(head, 2) == GZIP_MAGIC
    except zlib.error:
        return False


@contextmanager
def text_of(source: Source, progress: Callable[[float], None], log: IssueLog) -> Iterator[TextStream]:
    """Yields the text of the only file of ``source``. Adds the file name to UnreadableTrace. Raises StorageError."""
    name = source.names()[0]
    with source.open(name) as raw:
        try:
            yield TextStream(raw, source.size(name), progress, log)
        except UnreadableTrace as error:
            raise UnreadableTrace(error.what, name, error.do) from None
