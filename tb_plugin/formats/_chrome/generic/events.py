"""The shape of one event of any tool, and what its phase (``ph``) makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from tb_plugin.formats._chrome.events import ABSENT, ChromeEvent


class Event(ChromeEvent, gc=False):
    """One event; every argument is kept, for none has a meaning here."""

    args: dict[str, Any] | None = None
    tts: Any = None
    tdur: Any = None
    s: Any = None
    bind_id: Any = None
    flow_in: Any = None
    flow_out: Any = None
    sf: Any = None
    stack: Any = None
    esf: Any = None
    estack: Any = None


class _DigitEvent(Event, gc=False):
    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT


_FLOAT_DECODER: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
_DIGIT_DECODER: msgspec.json.Decoder[list[_DigitEvent]] = msgspec.json.Decoder(list[_DigitEvent])


def decode(text: bytes | memoryview, digits: bool) -> Sequence[Event]:
    """Returns the events of a JSON list, with times as raw digits where that is asked for."""
    return (_DIGIT_DECODER if digits else _FLOAT_DECODER).decode(text)


class Role(IntEnum):
    """What an event is to the rows that come of it."""

    RANGE = 0
    """It is a range by itself."""
    BEGIN = 1
    """It begins one on its thread."""
    END = 2
    """It ends the innermost one on its thread."""
    MARK = 3
    """It is a moment, on its thread or process or of the whole trace."""
    ASYNC_BEGIN = 4
    """It begins a part of an operation."""
    ASYNC_END = 5
    ASYNC_MARK = 6
    """It is a moment of an operation."""


class Scope(IntEnum):
    """What an event is about that belongs to no thread and to no operation."""

    PROCESS = 1
    TRACE = 2
    TOTALS = 3
    """It is a sum that a tool wrote beside its ranges: no work."""


ROLES: dict[str, Role] = {
    "X": Role.RANGE, "B": Role.BEGIN, "E": Role.END,
    **dict.fromkeys("iIRP", Role.MARK),
    **dict.fromkeys("bSN", Role.ASYNC_BEGIN),
    **dict.fromkeys("eFD", Role.ASYNC_END),
    **dict.fromkeys("nTpO", Role.ASYNC_MARK),
}  # fmt: skip
"""Phases that become rows or parts of one -> what they are to them."""
FAMILIES: dict[str, str] = {
    **dict.fromkeys("ben", "nestable"),
    **dict.fromkeys("STpF", "legacy"),
    **dict.fromkeys("NOD", "object"),
}
"""Ids of one family mean nothing in another."""
SKIPPED_PHASES: dict[str, str] = {
    **dict.fromkeys("vV", "memory dumps"), "c": "synchronisations of clocks",
    **dict.fromkeys("()", "contexts"), "=": "links of ids",
}  # fmt: skip
"""What the events of a phase are called that no view shows."""
