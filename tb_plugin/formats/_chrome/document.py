"""The root of the file: finds the event list in a stream of text, hands out its events chunk by chunk, keeps the rest.

Chunks are cut where an event seems to end and verify themselves: from the start of an event, a stretch decodes as a
list only if it ends at an event's end. No writer's layout is assumed; re-indented and minified traces exist.
Memory is bounded by the chunk, the largest event and the limits below, never by the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import msgspec

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.events import NOT_DECODED, Decode
from tb_plugin.formats._chrome.segments import LIST_END, Segments, Taken, repaired_json
from tb_plugin.formats._chrome.sniffing import BOM, EVENT_LIST, HEAD_BYTES, has_events, is_event
from tb_plugin.formats._chrome.times import NeedsDigits
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import TextStream
from tb_plugin.formats.values import storable

MAX_METADATA_BYTES = 32 * 1024 * 1024
"""So much of the text before the event list, and of the text after it, is read; more is dropped and reported."""
MAX_METADATA_VALUES = 500_000
"""So many values of all members of the root are kept: as objects they take about 100 bytes each, 40 times their text."""
MAX_EVENT_BYTES = 32 * 1024 * 1024

_SEPARATORS = re.compile(rb"[\s,]*")
_OVERLAP = 256
_ENDINGS = 4
"""Places where a list may end that are tried: arguments may hold such brackets too."""
CHOOSE = "Choose a trace in Chrome's JSON format, as torch.profiler writes it."
"""What to do about a file that is none."""
_OPEN, _CLOSE, _COMMA = b"[],"

Sink = Callable[[Sequence[Any], bool], None]
"""Takes decoded events and whether their times are raw digits. Raises NeedsDigits to get them as digits."""


class Document:
    """One pass over one file. ``data[0]`` is always a byte already dealt with, so a bracket can be written there."""

    def __init__(
        self,
        stream: TextStream,
        chunk_bytes: int,
        decode: Decode,
        sink: Sink,
        restart: Callable[[], None],
        log: IssueLog,
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
        self._room_values = MAX_METADATA_VALUES
        self._handed_out = 0
        """Events of this list."""
        self._data = bytearray(b" ")
        self._base = -1
        """Offset in the text of ``data[0]``."""
        self._at_end = False

    def read(self) -> None:
        """Reads it all. Raises UnreadableTrace when there is no event list."""
        self._fill(max(self._chunk_bytes, 4096))
        if self._data[1:4] == BOM:
            self._drop(3)
        first = self._skip(1)
        root = self._data[first : first + 1]
        if root == b"[":
            self.is_bare_list = True
            self._drop(first)
            if bytes(self._data[self._skip(1) :][:1]) not in (b"{", b"]", b""):
                raise UnreadableTrace("The list holds no trace events.", do=CHOOSE)
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
                "The archive is damaged from its beginning on.", do="Copy it again, or record it again."
            )
        elif not root:
            raise UnreadableTrace(
                "The file is empty.", do="Record it again: the program may have ended before it was written."
            )
        else:
            raise UnreadableTrace("The file holds neither a JSON object nor a list.", do=CHOOSE)

    # the window

    def _fill(self, size: int) -> None:
        while not self._at_end and len(self._data) < size:
            block = self._stream.read(size - len(self._data))
            self._at_end = not block
            try:
                self._data += block
            except BufferError:
                self._data = self._data + block

    def _drop(self, count: int) -> None:
        try:
            del self._data[:count]
        except BufferError:
            # A profiler in another thread, such as Dask's, holds on to a frame that had a view of the buffer.
            self._data = self._data[count:]
        self._base += count

    def _skip(self, start: int) -> int:
        match = _SEPARATORS.match(self._data, start)
        return match.end() if match else start

    # the root object

    def _read_object(self) -> None:
        head = self._find_list()
        if head is None:
            raise UnreadableTrace("There is no list of events.", do="The file may be cut off, or no trace.")
        self._keep_metadata(head, closed=False)
        while True:
            if self._data[:1] == b"[":
                self._read_list()
            if not self.complete:
                return
            tail = self._find_list()
            if tail is None:
                break
            # A second list: JSON readers let the last of equal keys win, so does this one. Two documents in one file may
            # count times from different bases and number their kernels alike.
            if self._handed_out:
                self._log.add("second_event_list", "dropped", self._base, count=self._handed_out)
                self._handed_out = 0
            between = b"{" + tail[1:].lstrip(b" \t\r\n,")
            if next_document := _behind_object(between):
                self.metadata.clear()
            self._keep_metadata(next_document or between, closed=False)
            self.complete = False
            self._restart()
        self._keep_metadata(b"{" + bytes(self._data[1:]).lstrip(b" \t\r\n,"), closed=True)

    def _find_list(self) -> bytes | None:
        """Move ``data[0]`` onto the list's bracket (or behind null) and return the text before its key, None if none."""
        searched = 0
        while True:
            found = EVENT_LIST.search(self._data, searched)
            if found and (found.end() < len(self._data) or self._at_end):
                head = bytes(self._data[: found.start()])
                is_null = found[1] == b"null"
                self.complete = is_null
                position = found.end() - 1
                del found  # a match holds the buffer, which could not be resized
                self._drop(position)
                return head
            del found
            if self._at_end:
                return None
            searched = max(0, len(self._data) - _OVERLAP)
            if len(self._data) > MAX_METADATA_BYTES:
                self._log.note("metadata_too_large", "metadata beyond 32 MiB was left out", self._base)
                self._drop(searched)
                searched = 0
            self._fill(2 * len(self._data))

    def _keep_metadata(self, text: bytes, closed: bool) -> None:
        """Keep the members of an object; without ``closed`` its brace is still to come."""
        offset = self._base
        text = text.strip()
        if not closed:
            text = text.rstrip(b" \t\r\n,") + b"}"
        elif not text.endswith(b"}"):
            self.complete = False
            self._log.note("unclosed_root", "the closing brace of the file is missing", offset)
            text = text.rstrip(b" \t\r\n,") + b"}"
        if not text.startswith(b"{"):
            return  # the beginning was too large to keep
        values = _values(text)
        if values > self._room_values:
            self.metadata.update(self._fitting_members(text, offset))
            return
        self._room_values -= values
        members = _members(text)
        if members is None:
            found = repaired_json(text, _members)
            if found is None:
                self._log.note("bad_metadata", "metadata that could not be repaired was left out", offset)
                return
            members, reasons = found
            for code in sorted(reasons):
                self._log.add(code, "repaired", offset, example="(metadata)")
        members.pop("traceEvents", None)
        self.metadata.update(storable(members, text, self._log))

    def _fitting_members(self, text: bytes, offset: int) -> dict[str, Any]:
        """The members of an object that are not too many values to be kept; what is damaged is not repaired here."""
        try:
            raw = _RAW_MEMBERS.decode(text)
        except NOT_DECODED:
            self._log.note("metadata_too_large", "damaged metadata of very many values was left out", offset)
            return {}
        members: dict[str, Any] = {}
        for key, value in raw.items():
            values = _values(bytes(value))
            if values > self._room_values:
                self._log.note("metadata_too_large", "metadata of very many values was left out", offset)
                continue
            self._room_values -= values
            try:
                members[key] = storable(msgspec.json.decode(value), bytes(value), self._log)
            except NOT_DECODED:  # a raw value was skipped over, not looked at
                self._log.note("bad_metadata", "metadata that could not be repaired was left out", offset)
        return members

    def _read_after_bare_list(self) -> None:
        self._fill(HEAD_BYTES)
        rest = bytes(self._data[1:])
        if has_events(rest):
            self._log.add("trailing_events", "dropped", self._base + 1)
        elif rest.strip():
            self._log.note("trailing_text", "text after the event list was ignored", self._base + 1)
        while not self._at_end:  # the whole file counts, even what is ignored
            self._drop(len(self._data) - 1)
            self._fill(self._chunk_bytes)

    # the event list

    def _read_list(self, has_brackets: bool = True) -> None:
        """Hand out all events; afterwards ``data[0]`` is the list's closing bracket, or the text has ended."""
        size = self._chunk_bytes
        while True:
            self._fill(size)
            first = self._skip(1)
            if first >= len(self._data):
                if self._at_end:
                    break
                self._drop(first - 1)
                continue
            if self._data[first] == _CLOSE:
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
        """A larger window for an event that does not fit; an impossible one is left out."""
        if len(self._data) < MAX_EVENT_BYTES:
            return 2 * max(size, len(self._data))
        self._log.add("event_too_large", "dropped", self._base + first)
        self._drop(len(self._data) - _OVERLAP)
        return self._chunk_bytes

    def _take_chunk(self, first: int) -> bool:
        """Take events from ``first`` on; True when the list ended. ``data`` shrinks when anything was taken."""
        if not self._at_end:
            cut = self._last_boundary(first)
            if cut and self._decode_in_place(first, cut):
                self._drop(cut)
                return False
        else:
            closing = self._closing_bracket(first)
            if closing:
                self._drop(closing)
                return True
        ending = self._clean_end(first)
        if ending:
            self._drop(ending)
            return True
        taken = self._take_apart(first)
        self._drop(taken.end - 1 if taken.end > first else 0)
        return taken.list_ended

    def _last_boundary(self, first: int) -> int:
        """Where the last whole event of the window seems to end (behind its brace), or 0."""
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
        """At the end of the text: take all events up to the list's bracket and return its position, or 0."""
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
        """Take all events up to the list's bracket where nothing is damaged ahead of it, and return its position, or 0.

        Other lists may follow, or more than a chunk of metadata: without this look each list would be taken apart.
        """
        endings = [match.start() + 1 for match in islice(LIST_END.finditer(self._data, first), _ENDINGS)]
        for end in endings:
            if self._decode_in_place(first, end):
                return self._data.index(b"]", end)
        return 0

    def _decode_in_place(self, first: int, end: int) -> bool:
        """Decode ``data[first:end]`` as a list by writing brackets around it for a moment, and hand it out."""
        data = self._data
        kept = data[first - 1], data[end]
        data[first - 1], data[end] = _OPEN, _CLOSE
        try:
            # Raw values are views of the buffer too: all of them must be gone before it is resized, and leaving this
            # frame sees to that.
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
        """Raises one of NOT_DECODED."""
        return self._decode(text, self._digits)

    def _hand_out(self, events: Sequence[Any], decode_again: Callable[[], Sequence[Any]]) -> None:
        try:
            self._sink(events, self._digits)
        except NeedsDigits:
            # One time beyond the exact range of floats: this file needs its digits, from here on.
            self._digits = True
            self._sink(decode_again(), self._digits)
        self._handed_out += len(events)

    def _take_apart(self, first: int) -> Taken:
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


def _behind_object(text: bytes) -> bytes:
    """What follows a whole object where that is the beginning of another one; empty where not."""
    try:
        read = text.decode("utf-8", "replace")
        _, end = _JSON.raw_decode(read)
    except (ValueError, RecursionError):
        return b""
    rest = read[end:].lstrip(" \t\r\n,")
    return rest.encode() if rest.startswith("{") else b""


def _values(text: bytes) -> int:
    """About how many values a JSON text holds; too many where its strings hold commas."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _members(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except NOT_DECODED:
        return None
    return value if isinstance(value, dict) else None
