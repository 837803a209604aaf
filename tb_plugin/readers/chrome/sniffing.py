"""Does a text begin like Chrome's trace JSON? Judged by the first bytes alone."""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[|null)')
_TIME_UNIT = re.compile(rb'"displayTimeUnit"\s*:')
_FIRST_EVENT = re.compile(rb"\[[\s,]{0,64}\{")
_PHASE = re.compile(rb'"ph"\s{0,8}:\s{0,8}"[A-Za-z(){}]"')
_PLACE = re.compile(rb'"(?:ts|pid|name)"\s{0,8}:')


def beginning(head: bytes) -> bytes:
    """Returns the text without what may stand ahead of JSON."""
    return head.removeprefix(BOM).lstrip()


def has_events(head: bytes) -> bool:
    """Returns True for an object with an event list, and for a bare list of events."""
    text = beginning(head)
    if text.startswith(b"["):
        return all((_FIRST_EVENT.match(text), _PHASE.search(text), _PLACE.search(text)))
    return text.startswith(b"{") and EVENT_LIST.search(text) is not None


def speaks_of_time(head: bytes) -> bool:
    """Returns True for an object whose event list is not in sight, but which says how its times are to be shown."""
    return beginning(head).startswith(b"{") and _TIME_UNIT.search(head) is not None
