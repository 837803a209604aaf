"""Lists of whole numbers out of a stream of JSON text, a piece at a time: no list has to fit into memory as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream

Int64 = npt.NDArray[np.int64]

_BLANK = b" \t\r\n"
_LONGEST_ROW = 4096
"""Text of a row beyond which it is none: nine numbers take 200 bytes."""
_END = re.compile(rb"\][ \t\r\n]*\]")
OTHER = "It is no file of export_memory_timeline: leave it out of the log directory, or export it again."


class Lists:
    """The text of a stream, taken from its front."""

    def __init__(self, stream: TextStream, chunk_bytes: int, log: IssueLog) -> None:
        self.ended = False
        """The text is over."""
        self._stream = stream
        self._chunk_bytes = max(chunk_bytes, 2 * _LONGEST_ROW)
        self._log = log
        self._text = b""

    @property
    def offset(self) -> int:
        """Returns where what is left begins in the text."""
        return self._stream.text_bytes - len(self._text)

    def head(self, size: int) -> bytes:
        """Returns the first bytes of what is left, and takes none."""
        while len(self._text) < size and self._more():
            pass
        return self._text[:size]

    def skip(self, sign: bytes) -> bool:
        """Returns whether the next byte that is not blank is this one, and takes it if so."""
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
        """Yields the numbers up to the end of a list whose bracket was taken. Raises UnreadableTrace for anything else."""
        while True:
            end = self._text.find(b"]")
            cut = end if end >= 0 else self._text.rfind(b",")
            if cut >= 0:
                yield self._flat(self._text[:cut])
                self._text = self._text[cut + 1 :]
                if end >= 0:
                    return
            elif len(self._text) > _LONGEST_ROW:
                raise UnreadableTrace("A list of numbers holds something else.", do=OTHER)
            if not self._more():
                return

    def rows(self, width: int) -> Iterator[tuple[Int64, Int64]]:
        """Yields lists of ``width`` numbers up to the end of a list whose bracket was taken, with their places in it.

        What is no such list is counted as dropped; its place stays empty. Text that is no list at all ends it.
        """
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
        """Whole rows, and whether they were the last ones."""
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
        if len(left) > 2 * _LONGEST_ROW and not cut:
            self._damaged("text that is no list of numbers: nothing after it was read")
            return b"", True
        # The bracket that ends the list may come alone.
        if cut and left.startswith(b"]"):
            self._text = left[1:]
            return body, True
        if not self._more():
            self._log.add("truncated_tail", "dropped", self.offset, text="the file ends inside its list of numbers")
            return body, True
        return body, False

    def _decoded(self, body: bytes, width: int) -> tuple[Int64, Int64, int]:
        """Rows, their places, and how many places there are."""
        try:
            rows = np.array(_decoder(width).decode(b"[" + body + b"]"), np.int64).reshape(-1, width)
            return rows, np.arange(len(rows)), len(rows)
        except (msgspec.MsgspecError, OverflowError, UnicodeDecodeError):
            pass
        # Each list on its own.
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
                self._damaged(f"entries that are no list of {width} whole numbers were left out", piece)
        return np.array(found, np.int64).reshape(-1, width), np.array(places, np.int64), len(pieces)

    def _flat(self, body: bytes) -> Int64:
        try:
            return np.array(_NUMBERS.decode(b"[" + body + b"]"), np.int64)
        except (msgspec.MsgspecError, OverflowError) as error:
            raise UnreadableTrace(
                f"The list of times holds something that is no whole number (before byte {self.offset + len(body)}).",
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
