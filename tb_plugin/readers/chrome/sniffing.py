"""Does a text begin like Chrome's trace JSON? Judged by the first bytes alone."""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[|null)')
_TIME_UNIT = re.compile(rb'"displayTimeUnit"\s*:')
_FIRST_EVENT = re.compile(rb'\[\s*\{[^{}\[\]]{0,4096}?"ph"\s*:\s*"')


def beginning(head: bytes) -> bytes:
    """Returns the text without what may stand ahead of JSON."""
    return head.removeprefix(BOM).lstrip()


def has_events(head: bytes) -> bool:
    """Returns True for an object with an event list, and for a bare list of events."""
    text = beginning(head)
    if text.startswith(b"["):
        return _FIRST_EVENT.match(text) is not None
    return text.startswith(b"{") and EVENT_LIST.search(text) is not None


def speaks_of_time(head: bytes) -> bool:
    """Returns True for an object whose event list is not in sight, but which says how its times are to be shown."""
    return beginning(head).startswith(b"{") and _TIME_UNIT.search(head) is not None
