"""Event fields shared by all dialects.

Fields accept any type, because real traces contain strings where numbers are expected. Whole columns are converted
later, so an unexpected value slows down one column but loses no event. A missing integer is -1, a missing float is
NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

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
"""Decodes a JSON list of events.

If the flag is True, times stay undecoded digits, and ``ABSENT`` marks a missing time. Raises one of NOT_DECODED.
"""


def decoded_object(raw: msgspec.Raw) -> dict[str, Any]:
    """Returns the members of a raw JSON object, or {} if it is invalid."""
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:  # raw values are skipped during decoding, so they may be invalid
        return {}
    return value if isinstance(value, dict) else {}
