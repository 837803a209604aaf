"""Packets from bytes, in bounded batches.

A trace is a sequence of packets without gaps. Each packet is preceded by its length. A packet that cannot be
decoded is skipped. If a length is damaged, the next packet cannot be found, so the rest of the file is skipped.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

from google.protobuf.message import DecodeError

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.schema import Trace
from tb_plugin.formats.stream import BOMB_BYTES, BOMB_RATIO, TextStream

# most writers limit packets to 1 MiB or less; PyTorch writes all names, including those of kernels, in one packet
MAX_PACKET_BYTES = 32 * 1024 * 1024
# uncompressed size of a bundle of packets; compressed bundles are below 512 KiB
MAX_BUNDLE_BYTES = 16 * 1024 * 1024
_PACKET = 0x0A  # tag of a packet: field 1, with a length
_BUNDLE = b"\x92\x03"  # tag of a bundle of compressed packets: field 50, with a length
_MAX_VARINT = 10
_EMPTY = re.compile(rb"(?:\x0a\x80{0,9}\x00)+")  # empty packets; a small file may contain millions
_MIN_PARTIAL_BYTES = 4096
"""Minimum size of an incomplete first packet, like which no text file starts."""
_LENGTH_SHIFTS = range(0, 7 * _MAX_VARINT, 7)


class Packets:
    """Packets of a stream, in batches of about ``chunk_bytes``. They can be iterated once."""

    def __init__(self, stream: TextStream, chunk_bytes: int, log: IssueLog, messages: Any = Trace) -> None:
        self.complete = True  # whether the file ends after a complete packet
        self._stream = stream
        self._chunk_bytes = max(chunk_bytes, 64)
        self._log = log
        self._messages = messages
        self._inflated = 0

    def batches(self) -> Iterator[list[Any]]:
        for text, _, offset in self.texts():
            yield self.decoded(text, offset)

    def texts(self) -> Iterator[tuple[bytes, list[int], int]]:
        """Yields undecoded packets: their bytes, the end of each, and the offset in the file. Empty packets are skipped."""
        data = bytearray()
        offset, wanted_bytes = 0, self._chunk_bytes
        while True:
            while len(data) < wanted_bytes and (block := self._stream.read(wanted_bytes - len(data))):
                data += block
            at_end = len(data) < wanted_bytes
            ends: list[int] = []
            size = len(data)
            end, next_bytes, intact = _complete_packets(data, ends)
            skipped = size - len(data)
            if end:
                yield bytes(memoryview(data)[:end]), ends, offset
                del data[:end]
            offset += end + skipped
            if not intact or next_bytes > MAX_PACKET_BYTES:
                what = "the following bytes are not a packet" if not intact else "a packet has an impossible length"
                self._log.add("lost_packets", "dropped", offset, text=f"{what}; the rest of the file was skipped")
                self.complete = False
                return
            if at_end:
                if data:
                    self._log.add("truncated_packet", "dropped", offset)
                    self.complete = False
                return
            wanted_bytes = max(self._chunk_bytes, next_bytes)

    def _unbundled(self, packets: list[Any]) -> list[Any]:
        unpacked = []
        for packet in packets:
            unpacked += self._bundled(packet.compressed_packets) if packet.compressed_packets else [packet]
        return unpacked

    def _bundled(self, bundle: bytes) -> list[Any]:
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(bundle, MAX_BUNDLE_BYTES)
        except zlib.error as error:
            self._log.add("bad_bundle", "dropped", example=str(error))
            return []
        self._inflated += len(text)
        if self._inflated > BOMB_BYTES and self._inflated > BOMB_RATIO * self._stream.text_bytes:
            raise UnreadableTrace("The uncompressed size of the packets is impossibly large.", do="Record a new trace.")
        data = bytearray(text)
        end, _, intact = _complete_packets(data, [])
        if not intact or end < len(data) or not unpacking.eof:
            self._log.add("bad_bundle", "dropped")
        return self._parsed(bytes(memoryview(data)[:end]), 0)

    def decoded(self, text: bytes, offset: int) -> list[Any]:
        packets = self._parsed(text, offset)
        return self._unbundled(packets) if _BUNDLE in text else packets

    def _parsed(self, text: bytes, offset: int) -> list[Any]:
        try:
            return list(self._messages.FromString(text).packet)
        except DecodeError:
            packets = []
            ends: list[int] = []
            data = bytearray(text)
            _complete_packets(data, ends)
            for start, end in pairwise([0, *ends]):
                try:
                    packets += self._messages.FromString(bytes(data[start:end])).packet
                except DecodeError:
                    self._log.add("unreadable_packet", "dropped", offset + start)
            return packets


def _complete_packets(data: bytearray, ends: list[int]) -> tuple[int, int, bool]:
    """Finds the complete packets. Appends the end of each packet to ``ends``, and removes empty packets from
    ``data``.

    Returns the end of the last packet, the number of bytes needed for the next packet (0 = unknown), and whether
    the next packet is valid.
    """
    empty: list[tuple[int, int]] = []
    end, next_bytes, intact = _scanned(data, ends, empty)
    if not empty:
        return end, next_bytes, intact
    kept = pairwise([0, *(place for run in empty for place in run), end])
    data[:end] = b"".join([data[start:stop] for start, stop in islice(kept, 0, None, 2)])
    return end - sum(stop - start for start, stop in empty), next_bytes, intact


def _scanned(data: bytearray, ends: list[int], empty: list[tuple[int, int]]) -> tuple[int, int, bool]:
    """Like ``_complete_packets``, but leaves ``data`` unchanged. Appends ranges of empty packets to ``empty``."""
    removed = 0
    position, size = 0, len(data)
    add = ends.append
    try:
        while position < size:
            if data[position] != _PACKET:
                return position, 0, False
            # Lengths of one and two bytes are handled inline for speed: each end of a range is a packet.
            length, body = data[position + 1], position + 2
            if length > 127:
                length, body = length & 127 | data[body] << 7, body + 1
                if length > 16383:
                    length, body = _varint(data, position + 1)
            if body + length > size:
                return position, body + length - position, True
            if not length:
                run = _EMPTY.match(data, position)
                assert run is not None  # one was just read
                empty.append(run.span())
                removed += run.end() - position
                position = run.end()
                continue
            position = body + length
            add(position - removed)
    except IndexError:
        return position, 0, True
    except ValueError:
        return position, 0, False
    return position, 0, True


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Returns a number, and the index after it. Raises IndexError at the end, ValueError for long numbers."""
    value = 0
    for shift in _LENGTH_SHIFTS:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError


def looks_like_packets(head: bytes) -> bool:
    """Returns True if the bytes start with a packet that can be decoded, or with a long incomplete packet."""
    data = bytearray(head)
    ends: list[int] = []
    end, _, intact = _complete_packets(data, ends)
    if not intact or not head:
        return False
    if _EMPTY.match(head):
        return True
    if not end:
        return data[0] == _PACKET and len(data) > _MIN_PARTIAL_BYTES
    try:
        Trace.FromString(bytes(data[: ends[0]]))
    except DecodeError:
        return False
    return True
