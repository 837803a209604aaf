"""Decoding of pieces of text in forked processes, merged in file order.

The parent cuts the text into the same chunks as a read in one process. It copies several chunks into a shared
buffer. These chunks are a piece. A forked process has a copy of the pass: it decodes the piece, and returns the columns
in the same buffer. The parent merges the pieces in file order.

If a piece is unusual, the parent goes back to its first unusual chunk (``Rewound``), stops all processes, and reads
the next text itself. The result therefore never depends on the number of processes. The same happens if a process
dies. After MAX_REWINDS, the parent reads the rest of the file itself.

The buffers are anonymous, and a process ends when its channel closes. If any process is killed, nothing remains.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import socket
import struct
import sys
import warnings
from collections import deque
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from tb_plugin.formats._chrome.events import NOT_DECODED, Decode
from tb_plugin.formats._chrome.times import NeedsDigits
from tb_plugin.lib.arrays import Int32

MAX_REWINDS = 8
_PIECES_PER_PROCESS = 2  # a process finds its next piece ready
_MIN_RESULT_BYTES = 1 << 20
_ANSWER_SECONDS = 60.0  # then a process is treated as dead
_PARENT_CHECK_SECONDS = 1.0
_LENGTH = struct.Struct("<Q")
_OPEN, _CLOSE = b"[]"


class DividedPass(Protocol):
    """A pass whose columns can be collected in several processes."""

    def take(self, events: Any, digits: bool, text_bytes: int) -> None: ...

    def text_count(self) -> int:
        """Returns the number of distinct texts so far."""
        ...

    def take_piece(self) -> Any:
        """Returns everything collected since the last call, and removes it. Returns None if only the parent can read it."""
        ...

    def merge_piece(self, piece: Any, ids: Int32) -> Int32 | None:
        """Adds a piece. ``ids`` maps text ids of the process to ids of this pass.

        Returns the map with the new texts of the piece. Returns None if the piece cannot be merged; then nothing is
        added.
        """
        ...


class Rewound(Exception):
    """The text from offset ``base`` on must be read again, in a window of the same size as before.

    ``text`` was removed from the document.
    """

    def __init__(self, text: bytes, base: int, window_bytes: int) -> None:
        super().__init__()
        self.text = text
        self.base = base
        self.window_bytes = window_bytes


class _Chunk(NamedTuple):
    start: int  # index in the buffer
    first: int  # index of the first event, from ``start``
    end: int  # index after the last event, from ``start``
    base: int  # offset in the text of the file
    window_bytes: int  # length of the text from which the chunk was cut
    replaced: int  # byte before the first event, which is a bracket in the buffer


class _Piece:
    def __init__(self, buffer: mmap.mmap, number: int, digits: bool) -> None:
        self.buffer = buffer
        self.number = number  # of the buffer
        self.digits = digits
        self.size = 0
        self.chunks: list[_Chunk] = []
        self.process: _Process | None = None

    def add(self, data: bytearray, first: int, end: int, base: int) -> None:
        start = self.size
        self.size += end + 1
        with memoryview(data) as view:
            self.buffer[start : self.size] = view[: end + 1]
        self.chunks.append(_Chunk(start, first, end, base, len(data), data[first - 1]))
        self.buffer[start + first - 1], self.buffer[start + end] = _OPEN, _CLOSE

    def text(self, from_chunk: int = 0) -> bytes:
        parts = []
        for chunk in self.chunks[from_chunk:]:
            part = bytearray(self.buffer[chunk.start : chunk.start + chunk.end])
            part[chunk.first - 1] = chunk.replaced
            parts.append(part)
        return b"".join(parts)


class _Process:
    def __init__(self, pid: int, channel: socket.socket, text_count: int) -> None:
        self.pid = pid
        self.channel = channel
        self.ids: Int32 = np.arange(text_count, dtype=np.int32)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        self.channel.close()
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)


class Pieces:
    """Pieces in flight. Every method may raise Rewound."""

    def __init__(self, processes: int, piece_bytes: int, decode: Decode, reading: DividedPass) -> None:
        self.events = 0  # number of merged events
        self._count = processes
        self._piece_bytes = piece_bytes
        self._decode = decode
        self._reading = reading
        self._buffers = [
            mmap.mmap(-1, piece_bytes + max(piece_bytes, _MIN_RESULT_BYTES))
            for _ in range(processes * _PIECES_PER_PROCESS)
        ]
        self._free = deque(range(len(self._buffers)))
        self._processes: list[_Process] = []
        self._next = 0  # index of the process of the next piece
        self._sent: deque[_Piece] = deque()
        self._open: _Piece | None = None
        self._rewinds = 0
        self._start = piece_bytes  # the parent first learns the names in the file, so that all processes know them

    def fits(self, base: int, size: int) -> bool:
        return base >= self._start and size < self._piece_bytes and self._rewinds <= MAX_REWINDS

    def add(self, data: bytearray, first: int, end: int, base: int, digits: bool) -> None:
        """Adds the chunk ``data[:end]``, whose first event starts at ``first``."""
        if self._open is not None and self._open.size + end + 1 > self._piece_bytes:
            self._send()
        if self._open is None:
            if not self._free:
                self._merge()
            number = self._free.popleft()
            self._open = _Piece(self._buffers[number], number, digits)
        self._open.add(data, first, end, base)

    def settle(self) -> None:
        """Merges all pieces."""
        if self._open is not None:
            self._send()
        while self._sent:
            self._merge()

    def restart_at(self, base: int) -> None:
        """Stops all processes. The parent reads the next piece from offset ``base`` on."""
        self._stop()
        self._start = base + self._piece_bytes

    def close(self) -> None:
        self._stop()
        self._sent.clear()
        self._open = None
        for buffer in self._buffers:
            with contextlib.suppress(BufferError):  # an exception may still hold a view; freed with it
                buffer.close()

    def _send(self) -> None:
        piece, self._open = self._open, None
        assert piece is not None
        self._sent.append(piece)
        try:
            if not self._processes:
                for _ in range(self._count):
                    self._processes.append(self._fork())
            piece.process = self._processes[self._next % self._count]
            self._next += 1
            chunks = [(chunk.start, chunk.first, chunk.end) for chunk in piece.chunks]
            _send(piece.process.channel, (piece.number, piece.digits, chunks))
        except OSError:  # no memory for a process, or the process is dead: noticed when the piece is merged
            piece.process = None

    def _merge(self) -> None:
        piece = self._sent[0]
        merged = self._added_chunks(piece)
        if merged < len(piece.chunks):
            self._rewind(merged)
        self._sent.popleft()
        self._free.append(piece.number)

    def _added_chunks(self, piece: _Piece) -> int:
        """Adds the columns of a piece. Returns the number of its chunks that were added."""
        process = piece.process
        if process is None:
            return 0
        try:
            done, events, sizes = _receive(process.channel)
        except (OSError, EOFError):
            return 0
        if not sizes:
            return 0
        parts = [memoryview(piece.buffer)[at : at + size] for at, size in _spans(piece.size, sizes)]
        ids = self._reading.merge_piece(pickle.loads(parts[0], buffers=parts[1:]), process.ids)
        if ids is None:
            return 0
        process.ids = ids
        self.events += events
        return int(done)

    def _rewind(self, chunk: int) -> NoReturn:
        self._rewinds += 1
        pieces = [*self._sent, *([self._open] if self._open is not None else [])]
        text = pieces[0].text(chunk) + b"".join(piece.text() for piece in pieces[1:])
        first = pieces[0].chunks[chunk]
        self._free.extend(piece.number for piece in pieces)
        self._sent.clear()
        self._open = None
        self.restart_at(first.base)
        raise Rewound(text, first.base, first.window_bytes)

    def _stop(self) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            process.stop()

    def _fork(self) -> _Process:
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                # Python warns about other threads. The process uses none of their locks: it calls no Arrow and no BLAS.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            try:
                _isolate(theirs.fileno())
                _serve(theirs, parent, self._buffers, self._decode, self._reading)
            finally:
                os._exit(1)
        theirs.close()
        ours.settimeout(_ANSWER_SECONDS)
        return _Process(pid, ours, self._reading.text_count())


def is_supported() -> bool:
    return sys.platform == "linux"


def _spans(start: int, sizes: list[int]) -> list[tuple[int, int]]:
    spans = []
    for size in sizes:
        start = _aligned(start)
        spans.append((start, size))
        start += size
    return spans


def _aligned(offset: int) -> int:
    return (offset + 63) // 64 * 64


def _isolate(channel: int) -> None:
    """Closes all inherited files, so that no other process waits for this one after its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names, not paths)
        if int(name) > 2 and int(name) != channel:
            with contextlib.suppress(OSError):  # the listing itself has a number
                os.close(int(name))


def _serve(channel: socket.socket, parent: int, buffers: list[mmap.mmap], decode: Decode, reading: DividedPass) -> None:
    """Decodes pieces until the parent ends."""
    reading.take_piece()  # the parent has these rows
    channel.settimeout(_PARENT_CHECK_SECONDS)
    while True:
        try:
            number, digits, chunks = _receive(channel, parent)
        except (OSError, EOFError):
            return
        buffer = buffers[number]
        done = events = 0
        for start, first, end in chunks:
            count = _decoded(memoryview(buffer)[start + first - 1 : start + end + 1], digits, decode, reading)
            if count is None:
                break
            done, events = done + 1, events + count
        size = chunks[-1][0] + chunks[-1][2] + 1
        _send(channel, (done, events, _write(reading.take_piece(), buffer, size)))


def _decoded(text: memoryview, digits: bool, decode: Decode, reading: DividedPass) -> int | None:
    """Adds the events of a chunk. Returns their number, or None if the parent must read the chunk."""
    try:
        events = decode(text, digits)
        reading.take(events, digits, 0)
    except (*NOT_DECODED, NeedsDigits):
        return None
    return len(events)


def _write(piece: Any, buffer: mmap.mmap, start: int) -> list[int]:
    """Writes a piece behind the text. Returns the sizes of its parts, or nothing if the parent must read the piece."""
    if piece is None:
        return []
    views: list[pickle.PickleBuffer] = []
    head = pickle.dumps(piece, protocol=5, buffer_callback=views.append)
    parts = [memoryview(head), *(view.raw() for view in views)]
    spans = _spans(start, [len(part) for part in parts])
    if sum(spans[-1]) > len(buffer):
        return []
    for part, (at, size) in zip(parts, spans, strict=True):
        buffer[at : at + size] = part
    return [size for _, size in spans]


def _send(channel: socket.socket, message: Any) -> None:
    data = pickle.dumps(message, protocol=5)
    channel.sendall(_LENGTH.pack(len(data)) + data)


def _receive(channel: socket.socket, parent: int | None = None) -> Any:
    """Returns the next message. Raises EOFError if the other process, or ``parent``, has ended."""
    (length,) = _LENGTH.unpack(_read(channel, _LENGTH.size, parent))
    return pickle.loads(_read(channel, length, parent))


def _read(channel: socket.socket, size: int, parent: int | None) -> bytes:
    data = b""
    while len(data) < size:
        try:
            block = channel.recv(size - len(data))
        except TimeoutError:
            if parent is not None and os.getppid() == parent:
                continue
            raise
        if not block:
            raise EOFError
        data += block
    return data
