"""Ranges from sequences of begin events and sequences of end events.

PyTorch writes a sequence of begin events, followed by their end events in the same order. One sequence may contain
all host ranges, so the begin events are stored as compressed text until their ends follow.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator

import numpy as np
from isal import isal_zlib

_PIECE_BEGINS = 4096  # begins compressed in one piece
_UNCOMPRESSED_PIECES = 4  # number of pieces that stay uncompressed, so that short recordings are never compressed


class Waiting:
    """Begin events whose ends have not been read, oldest first."""

    def __init__(self) -> None:
        self._texts: list[str] = []  # texts of the newest begins
        self._starts = array("Q")
        self._tracks = array("Q")
        self._pieces: deque[tuple[array[int], array[int], list[str] | bytes]] = deque()
        self._head: tuple[list[str], array[int], array[int]] = ([], array("Q"), array("Q"))  # the oldest begins
        self._next = 0  # index of the first open begin in ``_head``

    def add(self, begun: list[tuple[int, int, str]]) -> None:
        """Appends begin events: start, track and text (without line breaks)."""
        starts, tracks, texts = zip(*begun, strict=True)
        self._texts += texts
        self._starts.extend(starts)
        self._tracks.extend(tracks)
        if len(self._texts) >= _PIECE_BEGINS:
            self._seal()

    def _seal(self) -> None:
        texts: list[str] | bytes = self._texts
        if len(self._pieces) >= _UNCOMPRESSED_PIECES:
            texts = isal_zlib.compress("\n".join(self._texts).encode(), 1)
        self._pieces.append((self._starts, self._tracks, texts))
        self._texts, self._starts, self._tracks = [], array("Q"), array("Q")

    def _refill(self) -> bool:
        if not self._pieces and self._texts:
            self._seal()
        if not self._pieces:
            return False
        starts, tracks, texts = self._pieces.popleft()
        if isinstance(texts, bytes):
            texts = isal_zlib.decompress(texts).decode().split("\n")
        self._head, self._next = (texts, starts, tracks), 0
        return True

    def ended(self, ends: list[int], tracks: list[int]) -> tuple[list[str], list[int]]:
        """Matches ends to the oldest begins, up to the first misfit. Returns texts and durations of the matched events."""
        texts: list[str] = []
        durations: list[int] = []
        while len(texts) < len(ends) and (self._next < len(self._head[0]) or self._refill()):
            done, at = len(texts), self._next
            begun = np.frombuffer(self._head[1], np.uint64)[at : at + len(ends) - done]
            on = np.frombuffer(self._head[2], np.uint64)[at : at + len(begun)]
            part = slice(done, done + len(begun))
            duration = (np.array(ends[part], np.uint64) - begun).view(np.int64)
            fits = (duration >= 0) & (on == np.array(tracks[part], np.uint64))
            count = len(begun) if fits.all() else int(np.argmin(fits))
            texts += self._head[0][at : at + count]
            durations += duration[:count].tolist()
            self._next += count
            if count < len(begun):
                break
        return texts, durations

    def take(self) -> Iterator[str]:
        """Yields the texts of all begin events without an end, and removes these events."""
        while self._next < len(self._head[0]) or self._refill():
            at, self._next = self._next, self._next + 1
            yield self._head[0][at]
