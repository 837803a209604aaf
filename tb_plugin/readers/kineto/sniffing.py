"""Does a file that begins like this hold a Kineto (Chrome) trace? Judged by the first bytes alone."""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
_EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*(?:\[|null)')
_FIRST_EVENT = re.compile(rb'\[\s*\{[^{}\[\]]{0,4096}?"ph"\s*:\s*"')
# Keys only trace writers use. schemaVersion is not among them: container manifests have it too.
_TRACE_KEY = re.compile(rb'"(?:deviceProperties|distributedInfo|displayTimeUnit|baseTimeNanoseconds)"\s*:')


def looks_like_trace(head: bytes) -> bool:
    """True for an object with an event list or with Kineto's own keys, and for a bare list of events."""
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"["):
        return _FIRST_EVENT.match(text) is not None
    if text.startswith(b"{"):
        return _EVENT_LIST.search(text) is not None or _TRACE_KEY.search(text) is not None
    return False
