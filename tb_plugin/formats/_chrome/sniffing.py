"""Recognition of Chrome's trace JSON by its first bytes."""

from __future__ import annotations

import json
import re

BOM = b"\xef\xbb\xbf"
EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[|null)')
_TIME_UNIT = re.compile(rb'"displayTimeUnit"\s*:')
_LIST_START = re.compile(rb"\[[\s,]*")
_FLAT_EVENT = re.compile(rb'\{[^{}\[\]]{0,4096}?"ph"\s*:\s*"')  # the start of a truncated or damaged event
HEAD_BYTES = 64 * 1024  # number of bytes at the start of a file that are examined
_JSON = json.JSONDecoder()


def text_start(head: bytes) -> bytes:
    return head.removeprefix(BOM).lstrip()


def has_events(head: bytes) -> bool:
    """Returns True for an object with an event list, for a bare list of events, and for a sequence of events."""
    text = text_start(head)
    if bracket := _LIST_START.match(text):
        return is_event(text[bracket.end() :])
    return text.startswith(b"{") and (EVENT_LIST.search(text) is not None or is_event(text))


def is_event(text: bytes) -> bool:
    """Returns True if the text starts with an event. Fields may have any order, and values may be nested."""
    if not text.startswith(b"{"):
        return False
    try:
        event, _ = _JSON.raw_decode(text[:HEAD_BYTES].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return _FLAT_EVENT.match(text) is not None
    return isinstance(event.get("ph"), str)


def speaks_of_time(head: bytes) -> bool:
    """Returns True for an object with ``displayTimeUnit``, whose event list may come later."""
    return text_start(head).startswith(b"{") and _TIME_UNIT.search(head) is not None
