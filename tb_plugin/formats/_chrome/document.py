"""Reader for the JSON document: metadata, and events in chunks.

The text is cut into chunks where an event seems to end. After a wrong cut, the chunk cannot be decoded, so the
error is noticed. Line breaks and indentation do not matter. Memory use depends on the chunk size and the limits
below, not on the file size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.events import NOT_DECODED, Decode
from tb_plugin.formats._chrome.sniffing import BOM, EVENT_LIST, HEAD_BYTES, has_events, is_event
from tb_plugin.formats._chrome.times import NeedsDigits
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import TextStream
from tb_plugin.formats.values import to_storable

if TYPE_CHECKING:
    from tb_plugin.formats._chrome.pieces import Pieces, Rewound
    from tb_plugin.formats._chrome.segments import Taken

MAX_METADATA_BYTES = 32 * 1024 * 1024  # text before the event list, and text after it; more is skipped and reported
# values in all root members; a value takes about 100 bytes of memory, 40 times its text
MAX_METADATA_VALUES = 500_000
MAX_EVENT_BYTES = 32 * 1024 * 1024

_SEPARATORS = re.compile(rb"[\s,]*")
_OVERLAP = 256
_MAX_LIST_ENDS = 4  # maximum number of possible list ends to try; arguments may contain such brackets as well
CHOOSE = "Choose a trace in Chrome's JSON format, such as one from torch.profiler."
_OPEN, _CLOSE, _COMMA = b"[],"

Sink = Callable[[Sequence[Any], bool], None]
"""Receives decoded events. The flag is True if times are undecoded digits. Raises NeedsDigits to request such digits."""


class Document:
    """One pass over one file. ``data[0]`` is always a byte that was already read, so a bracket can replace it."""

    def __init__(
        self,
        stream: TextStream,
        chunk_bytes: int,
        decode: Decode,
        sink: Sink,
        restart: Callable[[], None],
        log: IssueLog,
        pieces: Pieces | None = None,
    ) -> None:
        self.metadata: dict[str, Any] = {}
        self.complete = False
        self.is_bare_list = False
        self.repaired = 0
        self._stream = stream
        self._chunk_bytes = max(chunk_bytes, 64)
        self._decode = decode
        self._sink = sink
        self._restart = restart
        self._log = log
        self._digits = False
        self._free_values = MAX_METADATA_VALUES
        self._handed_out = 0  # number of events passed on from the current list
        self._data = bytearray(b" ")
        self._base = -1  # offset of ``data[0]`` in the text
        self._at_end = False
        self._pieces = pieces  # decodes chunks in other processes
        self._rewound = memoryview(b"")  # text to be read again before the rest of the stream

    def read(self) -> None:
        """Reads the whole file. Raises UnreadableTrace if the file has no event list."""
        self._fill(max(self._chunk_bytes, 4096))
        if self._data[1:4] == BOM:
            self._drop(3)
        first = self._skip(1)
        root = self._data[first : first + 1]
        if root == b"[":
            self.is_bare_list = True
            self._drop(first)
            if bytes(self._data[self._skip(1) :][:1]) not in (b"{", b"]", b""):
                raise UnreadableTrace("The list in this file contains no trace events.", do=CHOOSE)
            self._read_list()
            self._read_after_bare_list()
        elif root == b"{":
            self._fill(first + HEAD_BYTES)
            if is_event(bytes(self._data[first : first + HEAD_BYTES])):
                self.is_bare_list = True
                self._drop(first - 1)
                self._read_list(has_brackets=False)
            else:
                self._drop(first)
                self._read_object()
        elif not root and is_packed_badly(self._log.issues()):
            raise UnreadableTrace(
                "The archive is damaged at the start.", do="Copy the file again, or record a new trace."
            )
        elif not root:
            raise UnreadableTrace(
                "The file is empty.", do="Record a new trace. The program may have stopped before it wrote the file."
            )
        elif root == b"\0":
            raise UnreadableTrace(
                "The file starts with zero bytes: its content was never written.",
                do="Copy the file again, or record a new trace.",
            )
        else:
            raise UnreadableTrace("The file contains neither a JSON object nor a list.", do=CHOOSE)

    # the window

    def _fill(self, size: int) -> None:
        while not self._at_end and len(self._data) < size:
            block: bytes | memoryview
            wanted = size - len(self._data)
            if self._rewound:
                block, self._rewound = self._rewound[:wanted], self._rewound[wanted:]
            else:
                block = self._stream.read(wanted)
            self._at_end = not block
            try:
                self._data += block
            except BufferError:
                self._data = self._data + bytes(block)

    def _drop(self, count: int) -> None:
        try:
            del self._data[:count]
        except BufferError:
            # A sampling profiler in another thread, such as Dask's, may hold a view of the buffer.
            self._data = self._data[count:]
        self._base += count

    def _skip(self, start: int) -> int:
        match = _SEPARATORS.match(self._data, start)
        return match.end() if match else start

    # the root object

    def _read_object(self) -> None:
        head = self._find_list()
        if head is None:
            raise UnreadableTrace(
                "The file contains no event list.", do="The file may be truncated, or it may not be a trace."
            )
        self._add_metadata(head, closed=False)
        while True:
            if self._data[:1] == b"[":
                self._read_list()
            if not self.complete:
                return
            tail = self._find_list()
            if tail is None:
                break
            # A second list. As usual in JSON, the last of several equal keys wins. The lists cannot be merged: two
            # documents in one file may use different time bases and the same correlation ids.
            if self._handed_out:
                self._log.add("second_event_list", "dropped", self._base, count=self._handed_out)
                self._handed_out = 0
            between = b"{" + tail[1:].lstrip(b" \t\r\n,")
            if next_document := _next_document(between):
                self.metadata.clear()
            self._add_metadata(next_document or between, closed=False)
            self.complete = False
            self._restart()
        self._add_metadata(b"{" + bytes(self._data[1:]).lstrip(b" \t\r\n,"), closed=True)

    def _find_list(self) -> bytes | None:
        """Moves ``data[0]`` to the opening bracket of the event list. Returns the text before; None after the last list."""
        searched = 0
        while True:
            found = EVENT_LIST.search(self._data, searched)
            if found and (found.end() < len(self._data) or self._at_end):
                head = bytes(self._data[: found.start()])
                is_null = found[1] == b"null"
                self.complete = is_null
                position = found.end() - 1
                del found  # a match references the buffer, which then cannot be resized
                self._drop(position)
                return head
            del found
            if self._at_end:
                return None
            searched = max(0, len(self._data) - _OVERLAP)
            if len(self._data) > MAX_METADATA_BYTES:
                self._log.note("metadata_too_large", "metadata beyond 32 MiB was skipped", self._base)
                self._drop(searched)
                searched = 0
            self._fill(2 * len(self._data))

    def _add_metadata(self, text: bytes, closed: bool) -> None:
        """Adds the members of a JSON object to the metadata. ``closed``: whether ``text`` includes the closing brace."""
        offset = self._base
        text = text.strip()
        if not closed:
            text = text.rstrip(b" \t\r\n,") + b"}"
        elif not text.endswith(b"}"):
            self.complete = False
            self._log.note("unclosed_root", "the closing brace of the file is missing", offset)
            text = text.rstrip(b" \t\r\n,") + b"}"
        if not text.startswith(b"{"):
            return  # its first part was too large and was skipped
        values = _values(text)
        if values > self._free_values:
            self.metadata.update(self._fitting_members(text, offset))
            return
        self._free_values -= values
        members = _members(text)
        if members is None:
            from tb_plugin.formats._chrome.segments import repaired_json

            found = repaired_json(text, _members)
            if found is None:
                self._log.note("bad_metadata", "metadata that could not be repaired was skipped", offset)
                return
            members, reasons = found
            for code in sorted(reasons):
                self._log.add(code, "repaired", offset, example="(metadata)")
        members.pop("traceEvents", None)
        self.metadata.update(to_storable(members, text, self._log))

    def _fitting_members(self, text: bytes, offset: int) -> dict[str, Any]:
        """Returns the members within the size limit for metadata. Damaged members are not repaired."""
        try:
            raw = _RAW_MEMBERS.decode(text)
        except NOT_DECODED:
            self._log.note("metadata_too_large", "damaged metadata with too many values was skipped", offset)
            return {}
        members: dict[str, Any] = {}
        for key, value in raw.items():
            values = _values(bytes(value))
            if values > self._free_values:
                self._log.note("metadata_too_large", "metadata with too many values was skipped", offset)
                continue
            self._free_values -= values
            try:
                members[key] = to_storable(msgspec.json.decode(value), bytes(value), self._log)
            except NOT_DECODED:  # raw values are skipped during decoding, so they may be invalid
                self._log.note("bad_metadata", "metadata that could not be repaired was skipped", offset)
        return members

    def _read_after_bare_list(self) -> None:
        self._fill(HEAD_BYTES)
        rest = bytes(self._data[1:])
        if has_events(rest):
            self._log.add("trailing_events", "dropped", self._base + 1)
        elif rest.strip():
            self._log.note("trailing_text", "text after the event list was ignored", self._base + 1)
        while not self._at_end:  # ignored bytes are counted too
            self._drop(len(self._data) - 1)
            self._fill(self._chunk_bytes)

    # the event list

    def _read_list(self, has_brackets: bool = True) -> None:
        """Reads all events. Afterwards ``data[0]`` is the closing bracket, or the whole text was read."""
        if self._pieces is None:
            self._read_chunks(has_brackets)
            return
        from tb_plugin.formats._chrome.pieces import Rewound

        self._pieces.restart_at(self._base)
        before = self._pieces.events
        while True:
            try:
                self._read_chunks(has_brackets)
                break
            except Rewound as rewound:
                self._rewind(rewound)
        self._handed_out += self._pieces.events - before

    def _rewind(self, rewound: Rewound) -> None:
        text = memoryview(rewound.text + bytes(self._data) + bytes(self._rewound))
        self._data, self._rewound = bytearray(text[: rewound.window_bytes]), text[rewound.window_bytes :]
        self._base = rewound.base
        self._at_end = False

    def _settle(self) -> None:
        """Waits for all chunks in other processes. Raises Rewound."""
        if self._pieces is not None:
            self._pieces.settle()

    def _read_chunks(self, has_brackets: bool) -> None:
        size = self._chunk_bytes
        while True:
            self._fill(size)
            first = self._skip(1)
            if first >= len(self._data):
                self._settle()
                if self._at_end:
                    break
                self._drop(first - 1)
                continue
            if self._data[first] == _CLOSE:
                self._settle()
                self._drop(first)
                self.complete = True
                return
            before = self._base
            if self._take_chunk(first):
                self.complete = True
                return
            if self._base > before:
                size = self._chunk_bytes
            elif self._at_end:
                break
            else:
                size = self._grown(first, size)
        if not has_brackets:
            self.complete = all(issue.code != "truncated_tail" for issue in self._log.issues())
            return
        self._log.note("unclosed_list", "the event list has no closing bracket", self._base + len(self._data))

    def _grown(self, first: int, size: int) -> int:
        """Returns a larger window size for an event that does not fit. Skips events larger than MAX_EVENT_BYTES."""
        if len(self._data) < MAX_EVENT_BYTES:
            return 2 * max(size, len(self._data))
        self._log.add("event_too_large", "dropped", self._base + first)
        self._drop(len(self._data) - _OVERLAP)
        return self._chunk_bytes

    def _take_chunk(self, first: int) -> bool:
        """Reads events from index ``first`` on, and removes their text. Returns True at the end of the list."""
        if not self._at_end:
            cut = self._last_boundary(first)
            if cut and self._pieces is not None and self._pieces.fits(self._base, cut):
                self._pieces.add(self._data, first, cut, self._base, self._digits)
                self._drop(cut)
                return False
            self._settle()
            if cut and self._decode_in_place(first, cut):
                self._drop(cut)
                return False
        else:
            self._settle()
            closing = self._closing_bracket(first)
            if closing:
                self._drop(closing)
                return True
        ending = self._clean_end(first)
        if ending:
            self._drop(ending)
            return True
        taken = self._take_damaged(first)
        self._drop(taken.end - 1 if taken.end > first else 0)
        return taken.list_ended

    def _last_boundary(self, first: int) -> int:
        """Returns the index after the last event in the buffer that looks complete, or 0 if none does."""
        position = len(self._data)
        for _ in range(64):
            position = self._data.rfind(b"{", first + 1, position)
            if position < 0:
                return 0
            before = bytes(self._data[max(first, position - _OVERLAP) : position]).rstrip()
            if before.endswith(b","):
                before = before.rstrip(b", \t\r\n")
                if before.endswith(b"}"):
                    return max(first, position - _OVERLAP) + len(before)
        return 0

    def _closing_bracket(self, first: int) -> int:
        """Reads the last events. Returns the index of the closing bracket, or 0 if the list does not end here."""
        position = len(self._data)
        for _ in range(4):
            position = self._data.rfind(b"]", first, position)
            if position < 0:
                return 0
            before = bytes(self._data[max(first, position - _OVERLAP) : position]).rstrip(b", \t\r\n")
            if before.endswith(b"}"):
                end = max(first, position - _OVERLAP) + len(before)
                if self._decode_in_place(first, end):
                    return position
        return 0

    def _clean_end(self, first: int) -> int:
        """Reads all events up to the end of the list, if this part is undamaged. Returns the index of the closing
        bracket, or 0.

        More lists or much metadata may follow. Without this check, their text would be decoded event by event.
        """
        from tb_plugin.formats._chrome.segments import LIST_END

        endings = [match.start() + 1 for match in islice(LIST_END.finditer(self._data, first), _MAX_LIST_ENDS)]
        for end in endings:
            if self._decode_in_place(first, end):
                return self._data.index(b"]", end)
        return 0

    def _decode_in_place(self, first: int, end: int) -> bool:
        """Decodes ``data[first:end]`` in temporary brackets for the sink. Returns False if decoding fails."""
        data = self._data
        kept = data[first - 1], data[end]
        data[first - 1], data[end] = _OPEN, _CLOSE
        try:
            # Raw values are views of the buffer. They must be freed before it is resized, so they are local variables.
            view = memoryview(data)[first - 1 : end + 1]
            try:
                events = self._decoded(view)
            except NOT_DECODED:
                return False
            self._hand_out(events, lambda: self._decoded(view))
            return True
        finally:
            data[first - 1], data[end] = kept

    def _decoded(self, text: bytes | memoryview) -> Sequence[Any]:
        return self._decode(text, self._digits)

    def _hand_out(self, events: Sequence[Any], decode_again: Callable[[], Sequence[Any]]) -> None:
        try:
            self._sink(events, self._digits)
        except NeedsDigits:
            # A time exceeds the exact range of floats. From here on, times are decoded as digits.
            self._digits = True
            self._sink(decode_again(), self._digits)
        self._handed_out += len(events)

    def _take_damaged(self, first: int) -> Taken:
        from tb_plugin.formats._chrome.segments import Segments, Taken

        taken = Taken()

        def decode() -> Sequence[Any]:
            nonlocal taken
            taken = Segments(self._data, first, self._at_end, self._decoded).take()
            return taken.events

        self._hand_out(decode(), decode)
        self.repaired += taken.repaired
        for finding in taken.findings:
            self._log.add(finding.code, finding.outcome, self._base + finding.at, finding.example)
        return taken


_JSON = json.JSONDecoder()
_RAW_MEMBERS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _next_document(text: bytes) -> bytes:
    """Returns the JSON document after the first one, or b"" if there is only one."""
    try:
        read = text.decode("utf-8", "replace")
        _, end = _JSON.raw_decode(read)
    except (ValueError, RecursionError):
        return b""
    rest = read[end:].lstrip(" \t\r\n,")
    return rest.encode() if rest.startswith("{") else b""


def _values(text: bytes) -> int:
    """Returns the approximate number of values in a JSON text. Commas in strings are also counted."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _members(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except NOT_DECODED:
        return None
    return value if isinstance(value, dict) else None
