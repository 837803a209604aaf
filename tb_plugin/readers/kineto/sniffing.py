"""Does a file that begins like this hold a trace of torch.profiler? Judged by the first bytes alone."""

from __future__ import annotations

import re

from tb_plugin.readers.chrome.sniffing import beginning, has_events

# Keys only trace writers use. schemaVersion is not among them: container manifests have it too.
_TRACE_KEY = re.compile(rb'"(?:deviceProperties|distributedInfo|displayTimeUnit|baseTimeNanoseconds)"\s*:')


def looks_like_trace(head: bytes) -> bool:
    """Returns True for an object with an event list or with Kineto's own keys, and for a bare list of events."""
    return has_events(head) or (beginning(head).startswith(b"{") and _TRACE_KEY.search(head) is not None)
