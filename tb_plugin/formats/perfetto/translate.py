"""Perfetto packets, presented as a file of Chrome's JSON.

The JSON readers interpret the events (docs/decisions/0017-packets-become-chrome-json.md).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import msgspec
from msgspec.structs import replace

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.parse import no_garbage_collection
from tb_plugin.formats.base import Progress, ReadState, Source
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.columns import Reading, TorchColumns
from tb_plugin.formats.perfetto.generic import ToolText
from tb_plugin.formats.perfetto.packets import Packets
from tb_plugin.formats.perfetto.schema import TorchTrace, Trace
from tb_plugin.formats.perfetto.torch import BASE, TorchText, base_time
from tb_plugin.formats.stream import BOMB_BYTES, BOMB_RATIO, TextStream

CHOOSE = "Choose a trace that PyTorch or Perfetto wrote."
_PIECE_CHARS = 4 << 20
_FIRST_PASS_SHARE = 0.2  # share of the first pass in the progress


class Translated:
    """A source that contains one JSON file. Its numbers of bytes and events are complete after the read."""

    def __init__(self, source: Source, chunk_bytes: int, progress: Progress) -> None:
        self.log = IssueLog()
        self.file_bytes = self.text_bytes = 0  # stored and uncompressed bytes of packets
        self.complete = True
        self.repaired = 0
        self._source = source
        self._name = source.names()[0]
        self._chunk_bytes = chunk_bytes
        self._progress = progress
        self._state = ReadState(0.0, 0, {})
        self._fraction = 0.0
        self._done, self._share = 0.0, 0.0  # progress before the current pass, and share of the current pass
        self._text = self._converter()
        self._done, self._share = self._share, 1.0 - self._share

    @property
    def is_of_torch(self) -> bool:
        return isinstance(self._text, TorchText)

    @property
    def metadata(self) -> dict[str, Any]:
        return self._text.root()

    def take_columns(self, reading: Reading) -> None:
        """Passes a PyTorch trace to ``reading`` as columns. Raises Malformed if the trace does not have PyTorch's layout."""
        with no_garbage_collection(), self._opened(self.log, TorchTrace) as (stream, packets):
            columns = TorchColumns(self.metadata[BASE], reading, self.log)
            for text, ends, offset in packets.texts():
                columns.take(text, ends, packets, offset)
                self._state = reading.state(0.0)
            columns.finish()
            self.file_bytes, self.text_bytes, self.complete = stream.file_bytes, stream.text_bytes, packets.complete
        self.report_progress(reading.state(1.0))

    @property
    def base_ns(self) -> int | None:
        """Returns time 0 in nanoseconds since 1970, or None if it is unknown or part of the JSON."""
        return self._text.base_ns if isinstance(self._text, ToolText) else None

    def names(self) -> Sequence[str]:
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        """Returns the JSON as a file. Call it once."""
        return cast(BinaryIO, io.BufferedReader(_PieceFile(self._pieces()), io.DEFAULT_BUFFER_SIZE))

    def size(self, name: str) -> int:
        """Returns 1, because the length of the JSON is unknown."""
        return 1

    def report_progress(self, state: ReadState) -> None:
        """Forwards the progress of the JSON reader. The fraction refers to the bytes of packets."""
        self._state = state
        self._progress(replace(state, fraction=self._fraction))

    def _report_progress(self, fraction: float) -> None:
        self._fraction = self._done + self._share * fraction
        self.report_progress(self._state)

    @contextmanager
    def _opened(self, log: IssueLog, messages: Any = Trace) -> Iterator[tuple[TextStream, Packets]]:
        with self._source.open(self._name) as raw:
            stream = TextStream(raw, self._source.size(self._name), self._report_progress, log)
            yield stream, Packets(stream, self._chunk_bytes, log, messages)

    def _converter(self) -> TorchText | ToolText:
        """Returns the converter. Raises StorageError, errors of the progress callback, and UnreadableTrace."""
        with self._opened(IssueLog()) as (stream, packets):
            batches = packets.batches()
            first = next(batches, None)
            if first is None:
                what = "The file contains no trace packets." if stream.text_bytes else "The file is empty."
                raise UnreadableTrace(what, self._name, CHOOSE)
            base = base_time(first)
            if base is not None:
                return TorchText(base, self.log)
            self._share = _FIRST_PASS_SHARE
            tool = ToolText(self.log)
            tool.look(first)
            for batch in batches:
                tool.look(batch)
            return tool

    def _pieces(self) -> Iterator[bytes]:
        text = self._text
        root = msgspec.json.encode(text.root())[:-1]
        yield root + (b"," if len(root) > 1 else b"") + b'"traceEvents":['
        separator, written = "", 0
        with self._opened(self.log, text.messages) as (stream, packets):
            for batch in packets.batches():
                for events in _merged_events(text.events(batch)):
                    yield (separator + events).encode()
                    separator = ",\n"
                    written += len(events)
                    if written > BOMB_BYTES and written > BOMB_RATIO * stream.file_bytes:
                        raise UnreadableTrace(
                            f"The events are over {BOMB_RATIO} times as large as the file, which is impossible for a trace.",
                            do="Record a new trace.",
                        )
            last = separator + ",\n".join(text.finish())
            yield (last if len(last) > len(separator) else "").encode() + b"]}"
            self.file_bytes, self.text_bytes, self.complete = stream.file_bytes, stream.text_bytes, packets.complete


def _merged_events(events: Iterable[str]) -> Iterator[str]:
    piece: list[str] = []
    size = 0
    for event in filter(None, events):
        piece.append(event)
        size += len(event)
        if size >= _PIECE_CHARS:
            yield ",\n".join(piece)
            piece, size = [], 0
    if piece:
        yield ",\n".join(piece)


class _PieceFile(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
