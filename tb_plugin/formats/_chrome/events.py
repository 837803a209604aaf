"""Event fields shared by all dialects.

Fields accept any type, because real traces contain strings where numbers are expected. Whole columns are converted
later, so an unexpected value slows down one column but loses no event. A missing integer is -1, a missing float is
NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tb_plugin.formats._chrome.times import from_digits, from_numbers, is_time
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Int64

ABSENT = msgspec.Raw(b"")  # default of raw fields; compared by identity, so that empty columns are skipped quickly

NAN = float("nan")

# errors for damaged text; RecursionError occurs for thousands of nested brackets
NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

COUNTER = "C"  # phase of counter events


class ChromeEvent(msgspec.Struct, gc=False):
    """One event. Times are JSON numbers (int, float or str). Subclasses define ``args``."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    id2: Any = None
    scope: Any = None
    bp: Any = None
    args: Any = None


Decode = Callable[[bytes | memoryview, bool], Sequence[Any]]
"""Decodes a JSON list of events, with times as digits if the flag is set. Raises one of NOT_DECODED."""


def event_decoder(kind: type[ChromeEvent]) -> Decode:
    """Returns the decoder of a dialect whose events have the type ``kind``."""
    times = [(name, msgspec.Raw, ABSENT) for name in ("ts", "dur")]
    digit_kind: Any = msgspec.defstruct("DigitEvent", times, bases=(kind,), gc=False)
    plain: Any = kind
    decoders = {False: msgspec.json.Decoder(list[plain]), True: msgspec.json.Decoder(list[digit_kind])}
    return lambda text, digits: decoders[digits].decode(text)


def decoded_object(raw: msgspec.Raw) -> dict[str, Any]:
    """Returns the members of a raw JSON object, or {} if it is invalid."""
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:  # raw values are skipped during decoding, so they may be invalid
        return {}
    return value if isinstance(value, dict) else {}


class Times:
    """Parses the times of one chunk, and counts the invalid ones."""

    def __init__(self, digits: bool) -> None:
        self._absent = ABSENT if digits else None
        self._convert = from_digits if digits else from_numbers
        self._zero: Any = b"0" if digits else 0
        self._untimed = self._undurated = self._clamped = 0

    def starts(self, events: Sequence[Any]) -> tuple[Sequence[Any], Int64]:
        """Returns the events that have a valid start, and their starts in nanoseconds."""
        times = [event.ts for event in events]
        try:
            if self._absent in times:
                raise ValueError
            starts, clamped = self._convert(times)
        except (ValueError, TypeError):
            timed = [event for event in events if event.ts is not self._absent and is_time(event.ts)]
            self._untimed += len(events) - len(timed)
            events = timed
            starts, clamped = self._convert([event.ts for event in events])
        self._clamped += clamped
        return events, starts

    def durations(self, events: Sequence[Any]) -> Int64:
        """Returns durations in nanoseconds; 0 = missing."""
        times = [event.dur for event in events]
        try:
            if self._absent in times:
                raise ValueError
            durations, clamped = self._convert(times)
        except (ValueError, TypeError):
            stated = [time is not self._absent and is_time(time) for time in times]
            self._undurated += stated.count(False)
            times = [time if is_stated else self._zero for time, is_stated in zip(times, stated, strict=True)]
            durations, clamped = self._convert(times)
        self._clamped += clamped
        return durations

    def report(self, log: IssueLog) -> None:
        """Logs the number of invalid times. Byte offsets are unknown here."""
        if self._untimed:
            log.add("missing_time", "dropped", count=self._untimed)
        if self._undurated:
            log.add("missing_duration", "note", count=self._undurated)
        if self._clamped:
            log.add("time_out_of_range", "note", count=self._clamped)
