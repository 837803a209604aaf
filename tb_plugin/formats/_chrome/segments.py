"""Slow path: event-by-event decoding of damaged text.

The text is split wherever one event seems to end and another to start, even inside strings. A damaged event
therefore does not affect its neighbours. If an event was split, its pieces are joined again.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tb_plugin.formats._chrome.events import NOT_DECODED
from tb_plugin.formats._chrome.repair import MAX_MEND_BYTES, Repaired, decode_text, mend_name_line, mend_tokens, walk
from tb_plugin.model.trace.report import Outcome

_KEYS = rb"ph|cat|name|pid|tid|ts|dur|id|id2|args|s|bp|tts|tdur|cname|sf|stack|scope|bind_id"
# Events are separated by commas. Without a comma, the following text must look like an event.
_BOUNDARY = re.compile(rb"\}\s*(?:(?:,\s*)+(?=\{)|(?=\{\s*\"(?:" + _KEYS + rb')"\s*:))')
# possible end of an event list: closing brace of an event, then a bracket followed by a member, a brace or nothing
LIST_END = re.compile(rb'\}[\s,]*\](?=\s*(?:,\s*"|\}|$))')
_RESTART = re.compile(rb'\{\s*"(?:ph|cat|name)"\s*:')
# An unclosed string at the end is matched as well, for linear time.
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[{}\[\]]|"', re.DOTALL)

CONCATENATED_DOCUMENTS = 64  # maximum pieces of one event; also the lookahead, whatever the chunk size
_MAX_RESTARTS = 8

Decode = Callable[[bytes], Sequence[Any]]


class Finding(msgspec.Struct, frozen=True):
    code: str
    outcome: Outcome
    at: int
    example: str


class Taken(msgspec.Struct):
    events: list[Any] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    repaired: int = 0
    end: int = 0  # position to continue from
    list_ended: bool = False  # ``end`` is after the list's closing bracket


class Segments:
    """Decodes one damaged piece of text."""

    def __init__(self, data: bytearray, first: int, final: bool, decode: Decode) -> None:
        self._text = bytes(data[first:])
        self._first = first
        self._final = final
        self._decode = decode
        starts = [0]
        ends: list[int] = []
        for match in _BOUNDARY.finditer(self._text):
            ends.append(match.start() + 1)
            starts.append(match.end())
        self._starts = starts
        self._ends = [*ends, len(self._text)]
        self._last_end = len(self._text.rstrip(b" \t\r\n,"))

    def take(self) -> Taken:
        """Returns all events up to the end of the list, or up to an event that the text cuts off."""
        taken = Taken(end=self._first)
        position, count = 0, len(self._starts)
        while position < count:
            start, end = self._starts[position], self._ends[position]
            events = self._decoded(self._text[start:end])
            if events is not None:
                taken.events.extend(events)
                taken.end = self._first + end
                position += 1
                continue
            if not self._final and position + CONCATENATED_DOCUMENTS >= count:
                taken.end = self._first + start
                return taken
            if self._close_list(start, end, taken):
                return taken
            position = (
                self._repair_piece(position, taken) or self._join(position, taken) or self._skip_piece(position, taken)
            )
        return taken

    def _decoded(self, text: bytes) -> Sequence[Any] | None:
        try:
            return self._decode(b"[" + text.rstrip(b" \t\r\n,") + b"]")
        except NOT_DECODED:
            return None

    def _close_list(self, start: int, end: int, taken: Taken) -> bool:
        """Adds the last event of the list. Returns False if the list does not end inside this piece."""
        closings = list(LIST_END.finditer(self._text, start, end))[:_MAX_RESTARTS]
        for find in (self._decoded_as_is, self._repaired_event):
            for closing in closings:
                text = self._text[start : closing.start() + 1]
                if find(text, start, taken):
                    taken.end = self._first + closing.end()
                    taken.list_ended = True
                    return True
        return False

    def _decoded_as_is(self, text: bytes, start: int, taken: Taken) -> bool:
        events = self._decoded(text)
        taken.events.extend(events or ())
        return events is not None

    def _join(self, position: int, taken: Taken) -> int:
        start, last = self._starts[position], min(position + CONCATENATED_DOCUMENTS, len(self._ends) - 1)
        depth = 0
        for match in _STRUCTURE.finditer(self._text, start, self._ends[last]):
            sign = match[0]
            if sign in (b"{", b"["):
                depth += 1
            elif sign in (b"}", b"]"):
                depth -= 1
                if depth <= 0:
                    break
        else:
            return 0
        for piece in range(position + 1, last + 1):
            if min(self._ends[piece], self._last_end) == match.end() and self._decoded_as_is(
                self._text[start : match.end()], start, taken
            ):
                taken.end = self._first + match.end()
                return piece + 1
        return 0

    def _repair_piece(self, position: int, taken: Taken) -> int:
        start, end = self._starts[position], self._ends[position]
        text = self._text[start:end]
        if text.strip(b" \t\r\n,") and not self._repaired_event(text, start, taken):
            return 0
        taken.end = self._first + end
        return position + 1

    def _skip_piece(self, position: int, taken: Taken) -> int:
        """Skips a damaged piece, but adds the intact events inside it. Returns the index of the next piece."""
        start, end = self._starts[position], self._ends[position]
        text = self._text[start:end]
        taken.end = self._first + end
        last = self._final and position == len(self._starts) - 1
        code = "truncated_tail" if last else "unreadable_event"
        taken.findings.append(Finding(code, "dropped", self._first + start, _example(text)))
        self._salvage(text, start, taken)
        return position + 1

    def _salvage(self, text: bytes, start: int, taken: Taken) -> None:
        """Adds the intact events inside a damaged piece, which may mix the output of two writers."""
        starts = [match.start() for match in _RESTART.finditer(text)][-_MAX_RESTARTS:]
        for begin, end in itertools.pairwise([*starts, len(text)]):
            brace = text.rfind(b"}", begin, end)
            if brace < 0 or (begin == 0 and end == len(text)):
                continue
            found = repaired_json(text[begin : brace + 1], self._decoded)
            if found is not None and all(event.ph for event in found[0]):
                taken.events.extend(found[0])

    def _repaired_event(self, text: bytes, start: int, taken: Taken) -> bool:
        found = repaired_json(text.rstrip(b" \t\r\n,"), self._decoded)
        if found is None:
            return False
        events, reasons = found
        taken.events.extend(events)
        taken.repaired += len(events)
        example = _example(text)
        taken.findings.extend(Finding(code, "repaired", self._first + start, example) for code in sorted(reasons))
        return True


_REPAIRS: tuple[Callable[[str], Repaired | None], ...] = (
    mend_tokens,
    mend_name_line,
    walk,
)  # the mildest repair comes first


def repaired_json(text: bytes, decoded: Callable[[bytes], Any]) -> tuple[Any, set[str]] | None:
    """Returns the decoded value and the repairs made, or None if no repair works. Tries the smallest repair first."""
    if len(text) > MAX_MEND_BYTES:
        return None
    utf8 = decode_text(text)
    reasons = set(utf8.reasons)
    for mend in _REPAIRS:
        attempt = mend(utf8.text)
        if attempt is None:
            continue
        raw = attempt.text.encode("utf-8", "replace")
        result = decoded(raw)
        if result is not None:
            return result, reasons | attempt.reasons or {"odd_type"}
        odd = _with_usual_types(raw)
        result = decoded(odd) if odd is not None else None
        if result is not None:
            return result, reasons | attempt.reasons | {"odd_type"}
    return None


def _with_usual_types(text: bytes) -> bytes | None:
    """Converts fields of unexpected type in the text of an event. Returns None if the text is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    for key in ("ph", "cat", "name"):
        if key in value and not isinstance(value[key], str):
            value[key] = "" if value[key] is None else str(value[key])
    if "args" in value and not isinstance(value["args"], dict):
        del value["args"]
    return json.dumps(value, ensure_ascii=True).encode()


def _example(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
