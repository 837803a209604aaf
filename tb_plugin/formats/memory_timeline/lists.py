"""Integer lists from a stream of JSON text, read in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.lib.arrays import Int64

_BLANK = b" \t\r\n"
_MAX_ROW_BYTES = 4096  # longer text is not a row: nine numbers take 200 bytes
_END = re.compile(rb"\][ \t\r\n]*\]")
OTHER = "This is not an export_memory_timeline file. Remove the file from the log directory, or export it again."


class Lists:
    """JSON text of a stream. Each method consumes text from the start."""

    def __init__(self, stream: TextStream, chunk_bytes: int, log: IssueLog) -> None:
        self.ended = False  # whether all text was read
        self._stream = stream
        self._chunk_bytes = max(chunk_bytes, 2 * _MAX_ROW_BYTES)
        self._log = log
        self._text = b""

    @property
    def offset(self) -> int:
        return self._stream.text_bytes - len(self._text)

    def head(self, size: int) -> bytes:
        while len(self._text) < size and self._more():
            pass
        return self._text[:size]

    def skip(self, sign: bytes) -> bool:
        """Consumes the next non-blank byte if it equals ``sign``. Returns True if it does."""
        while True:
            self._text = self._text.lstrip(_BLANK)
            if self._text:
                break
            if not self._more():
                return False
        if not self._text.startswith(sign):
            return False
        self._text = self._text[len(sign) :]
        return True

    def numbers(self) -> Iterator[Int64]:
        """Yields the numbers of a list whose opening bracket was consumed. Raises UnreadableTrace for other values."""
        while True:
            end = self._text.find(b"]")
            cut = end if end >= 0 else self._text.rfind(b",")
            if cut >= 0:
                yield self._flat(self._text[:cut])
                self._text = self._text[cut + 1 :]
                if end >= 0:
                    return
            elif len(self._text) > _MAX_ROW_BYTES:
                raise UnreadableTrace("A list of numbers contains a value that is not a number.", do=OTHER)
            if not self._more():
                return

    def rows(self, width: int) -> Iterator[tuple[Int64, Int64]]:
        """Yields inner lists of ``width`` numbers, and their indices. Invalid ones are logged and skipped, but count."""
        place = 0
        while True:
            body, ended = self._next_rows()
            if body:
                found, at, count = self._decoded(body, width)
                yield found, at + place
                place += count
            if ended:
                return

    def _next_rows(self) -> tuple[bytes, bool]:
        end = _END.search(self._text)
        if end is not None:
            body, self._text = self._text[: end.start() + 1], self._text[end.end() :]
            return body.lstrip(_BLANK + b","), True
        cut = self._text.rfind(b"]") + 1
        body = self._text[:cut].strip(_BLANK + b",")
        self._text = self._text[cut:]
        left = self._text.lstrip(_BLANK)
        if not cut and left.startswith(b"]"):
            self._text = left[1:]
            return b"", True
        if len(left) > 2 * _MAX_ROW_BYTES and not cut:
            self._damaged("the text is not a list of numbers; the rest was skipped")
            return b"", True
        # The closing bracket of the list may be in the next piece.
        if cut and left.startswith(b"]"):
            self._text = left[1:]
            return body, True
        if not self._more():
            self._log.add(
                "truncated_tail", "dropped", self.offset, text="the file is truncated inside its list of numbers"
            )
            return body, True
        return body, False

    def _decoded(self, body: bytes, width: int) -> tuple[Int64, Int64, int]:
        try:
            rows = np.array(_decoder(width).decode(b"[" + body + b"]"), np.int64).reshape(-1, width)
            return rows, np.arange(len(rows)), len(rows)
        except (msgspec.MsgspecError, OverflowError, UnicodeDecodeError):
            pass
        # Otherwise, decode each list separately.
        one = re.compile(rb"\[\s{0,64}(-?\d{1,19}(?:\s{0,64},\s{0,64}-?\d{1,19}){%d})\s{0,64}\Z" % (width - 1))
        places: list[int] = []
        found: list[list[int]] = []
        pieces = body.split(b"]")[:-1]
        for i, piece in enumerate(pieces):
            match = one.search(piece)
            numbers = [int(number) for number in match[1].split(b",")] if match else []
            is_row = bool(match) and all(abs(number) < 2**63 for number in numbers)
            if is_row:
                places.append(i)
                found.append(numbers)
            if not is_row or (match is not None and piece[: match.start()].strip(_BLANK + b",")):
                self._damaged(f"entries that are not lists of {width} integers were skipped", piece)
        return np.array(found, np.int64).reshape(-1, width), np.array(places, np.int64), len(pieces)

    def _flat(self, body: bytes) -> Int64:
        try:
            return np.array(_NUMBERS.decode(b"[" + body + b"]"), np.int64)
        except (msgspec.MsgspecError, OverflowError) as error:
            raise UnreadableTrace(
                f"The list of times contains a value that is not an integer (before byte {self.offset + len(body)}).",
                do=OTHER,
            ) from error

    def _damaged(self, text: str, example: bytes = b"") -> None:
        self._log.add("unreadable_event", "dropped", self.offset, example[:100].decode("utf-8", "replace"), text=text)

    def _more(self) -> bool:
        text = self._stream.read(self._chunk_bytes)
        self._text += text
        self.ended = not text
        return bool(text)


_NUMBERS: msgspec.json.Decoder[list[int]] = msgspec.json.Decoder(list[int])
_FOUR: msgspec.json.Decoder[list[tuple[int, int, int, int]]] = msgspec.json.Decoder(list[tuple[int, int, int, int]])
_NINE: msgspec.json.Decoder[list[tuple[int, int, int, int, int, int, int, int, int]]] = msgspec.json.Decoder(
    list[tuple[int, int, int, int, int, int, int, int, int]]
)


def _decoder(width: int) -> msgspec.json.Decoder[list[tuple[int, ...]]]:
    return _FOUR if width == 4 else _NINE  # type: ignore[return-value]  # lists are invariant
