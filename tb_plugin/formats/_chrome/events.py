"""The shape of one event as msgspec decodes it, but for its arguments, which are a dialect's.

Fields are lenient (Any) because real traces put strings where numbers belong; converting whole columns is cheaper
than strict types would be, and a surprise costs a slow column instead of an event. An absent integer is -1, an
absent float NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

ABSENT = msgspec.Raw(b"")
"""Default of raw fields. Compared by identity, which is what makes an absent column cheap to skip."""

NAN = float("nan")

NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises on damaged text; brackets nested thousands deep are the last one."""

COUNTER = "C"
"""Phase of counter events."""


class ChromeEvent(msgspec.Struct, gc=False):
    """One event; times as msgspec reads JSON numbers (int, float or str). A dialect's subclass says what ``args`` are."""

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
"""Decodes a JSON list of events; True asks for times as raw digits (``ABSENT`` where there are none).

Raises one of NOT_DECODED.
"""


def decoded_object(raw: msgspec.Raw) -> dict[str, Any]:
    """Returns the members of a raw value; none where it is no object or cannot be decoded."""
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:  # a raw value was skipped over, not looked at
        return {}
    return value if isinstance(value, dict) else {}
